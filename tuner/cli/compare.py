"""`tuner compare`: studies of several engines, weights and machines in one table."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from tuner import wiring
from tuner.domain.errors import BadInput
from tuner.report.compare import ComparedStudy, Comparison, compare
from tuner.report.compare_json import compare_json
from tuner.report.compare_protocol import heading
from tuner.report.compare_told import command_lines, csv_text, markdown, notes, sections, table_rows, verdict
from tuner.report.selection import baseline_of
from tuner.store.folder import StudyFolder
from tuner.store.warm_ups import warm_ups

_PIPED_WIDTH = 200


def compare_command(names: Sequence[str], profiles: Sequence[str], studies: Path, form: str) -> None:
    """Prints a comparison.

    Args:
        names: studies in the studies folder, or paths to study folders that were copied from elsewhere.
        profiles: those to tell; all when empty.
        studies: where studies live.
        form: `table`, `json`, `markdown` or `csv`.
    """
    read = [_read(name, studies) for name in dict.fromkeys(names)]
    if len(read) < 2:
        raise BadInput("One study alone is no comparison", advice="name two or more: tuner compare STUDY STUDY")
    known = list(dict.fromkeys(profile.name for study in read for profile in study.frozen.profiles))
    for profile in profiles:
        if profile not in known:
            raise BadInput(f"None of the studies has a profile `{profile}`", advice=f"they have: {', '.join(known)}")
    found = compare(read, profiles)
    if form == "json":
        typer.echo(json.dumps(compare_json(found), indent=2, ensure_ascii=False))
    elif form == "markdown":
        typer.echo(markdown(found))
    elif form == "csv":
        typer.echo(csv_text(found), nl=False)
    else:
        _print(found)


def _read(name: str, studies: Path) -> ComparedStudy:
    is_path = os.sep in name or (os.altsep or os.sep) in name
    path = Path(name).resolve()
    folder = StudyFolder.existing(path.parent, path.name) if is_path else StudyFolder.existing(studies, name)
    study = wiring.read_study(folder)
    if study is None or baseline_of(study.searched) is None:
        raise BadInput(
            f"The study {name} has no measured baseline yet",
            advice=f"run it with `tuner run {folder.name}`; `tuner status {folder.name}` says how far it is",
        )
    return ComparedStudy(name, study.frozen, study.searched, study.confirmed, warm_ups(folder.path))


def _print(comparison: Comparison) -> None:
    screen = Console(highlight=False, width=None if sys.stdout.isatty() else _PIPED_WIDTH)
    names = [study.name for study in comparison.studies]
    for study in comparison.studies:
        typer.echo(f"{study.name}: {heading(study)}")
    for section in sections(comparison):
        typer.echo()
        for compared in section.profiles:
            typer.echo(f"{compared.profile.name}: {verdict(compared)}")
        table = Table(box=None, pad_edge=False, show_edge=False)
        table.add_column("", overflow="fold")
        table.add_column("unit")
        for name in names:
            table.add_column(name, justify="right", overflow="fold")
        for row in table_rows(section, names):
            table.add_row(*row)
        screen.print(table)
        for name, command in command_lines(section):
            typer.echo(f"  {name}: {command}")
    typer.echo()
    for note in notes(comparison):
        typer.echo(f"note      {note}")
