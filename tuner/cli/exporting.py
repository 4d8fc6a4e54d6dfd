"""The command `export`."""

from __future__ import annotations

import getpass
from pathlib import Path

import typer

from tuner.cli.reading import recommendations
from tuner.domain.errors import BadInput
from tuner.report.export.exported import Exported
from tuner.report.export.formats import Surroundings, export, write_export
from tuner.store.folder import StudyFolder


def export_command(name: str, profiles: tuple[str, ...], form: str, output: Path | None, studies: Path) -> None:
    """Prints one profile's recommendation in a format, or writes it to a file."""
    frozen, found = recommendations(StudyFolder.existing(studies, name), profiles)
    if len(found) > 1:
        raise BadInput("An export is for one profile", advice=f"--profile {' or '.join(r.profile.name for r in found)}")
    exported = Exported.of(name, frozen, found[0])
    text = export(exported, form, Surroundings(user=_user(), devices=frozen.engines[0].devices))
    if output is None:
        typer.echo(text, nl=False)
        return
    write_export(output, form, text)
    typer.echo(f"wrote {output}")


def _user() -> str | None:
    """Whose service it will be; unknown where an account has no name, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None
