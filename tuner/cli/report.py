"""`tuner report`: a study as a page to read, to show and to print."""

from __future__ import annotations

from pathlib import Path

import typer

from tuner import wiring
from tuner.domain.errors import BadInput
from tuner.report.page.compose import compose
from tuner.report.page.files import write
from tuner.report.selection import baseline_of
from tuner.store.folder import StudyFolder


def report_command(name: str, studies: Path, out: Path | None) -> None:
    """Writes the report and says where it is."""
    folder = StudyFolder.existing(studies, name)
    study = wiring.read_study(folder)
    if study is None or baseline_of(study.searched) is None:
        raise BadInput(
            f"The study {folder.name} has no measured baseline yet",
            advice=f"run it with `tuner run {folder.name}`; `tuner status {folder.name}` says how far it is",
        )
    document = compose(folder.name, study.frozen, study.searched, study.confirmed)
    written = write(document, out if out is not None else folder.path / "report")
    typer.echo(f"page      {written.page}\nmarkdown  {written.text}")
    if written.pictures:
        typer.echo(f"pictures  {len(written.pictures)} PNG files beside them")
    if written.no_pictures is not None:
        typer.echo(f"note      {written.no_pictures}")
