"""The command group that has a study continue after a restart: `service install`, `remove` and `status`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import typer

from tuner.domain.errors import BadInput
from tuner.process.service import Service
from tuner.store.folder import StudyFolder


def install_command(name: str, studies: Path) -> None:
    """Writes the service, makes it take effect, and says how to undo it."""
    folder = StudyFolder.existing(studies, name)
    service = _service(folder)
    left = service.install()
    typer.echo(f"wrote     {service.file}")
    typer.echo(f"          it continues {name} after a restart, and ends when the study is done")
    if left:
        typer.echo("to do     these did not work here; run them yourself:")
        for command in left:
            typer.echo(f"          {command}")
    typer.echo(f"undo      tuner service remove {name}" + _where(studies))
    typer.echo(f"now       it starts with the next restart; today: tuner run {name}" + _where(studies))


def remove_command(name: str, studies: Path) -> None:
    """Removes the service."""
    service = _service(StudyFolder.existing(studies, name))
    if not service.file.is_file():
        raise BadInput(f"No service is installed for {name}", where=str(service.file))
    left = service.remove()
    typer.echo(f"removed   {service.file}")
    for command in left:
        typer.echo(f"to do     {command}   (did not work here)")


def state_command(name: str, studies: Path) -> None:
    """Says whether it is installed, and what the system says of it."""
    service = _service(StudyFolder.existing(studies, name))
    if not service.file.is_file():
        typer.echo(f"no service is installed for {name}; tuner service install {name}" + _where(studies))
        return
    typer.echo(f"installed {service.file}")
    try:
        told = subprocess.run(service.state, capture_output=True, text=True, timeout=30, check=False)
        typer.echo((told.stdout or told.stderr).rstrip())
    except (OSError, subprocess.TimeoutExpired):
        typer.echo(f"what the system says of it: {' '.join(service.state)}")


def _service(folder: StudyFolder) -> Service:
    place = folder.path.absolute()
    argv = [sys.executable, "-m", "tuner", "run", folder.name, "--studies", str(place.parent)]
    return Service.of(folder.name, argv, place, {}, place / "service.log")


def _where(studies: Path) -> str:
    return "" if studies == Path("studies") else f" --studies {studies}"
