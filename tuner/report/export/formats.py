"""Every format that a recommendation can be exported to, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tuner.domain.errors import BadInput, NotPermitted
from tuner.domain.facts import Device
from tuner.report.export.batch import batch_file
from tuner.report.export.compose import compose_file
from tuner.report.export.containers import dialect_of
from tuner.report.export.exported import MARK, Exported
from tuner.report.export.json_file import export_json
from tuner.report.export.llama_swap import llama_swap_config
from tuner.report.export.powershell import powershell_script
from tuner.report.export.preset_ini import preset_ini
from tuner.report.export.shell import shell_script
from tuner.report.export.systemd import systemd_unit


class Surroundings(BaseModel):
    """What some formats ask of the machine that exports."""

    model_config = ConfigDict(frozen=True)

    user: str | None = None
    """The account that a service runs under."""
    devices: tuple[Device, ...] = ()
    """What the engine computed on."""


_Writer = Callable[[Exported, Surroundings], str]

_WRITERS: dict[str, _Writer] = {
    "sh": lambda exported, _: shell_script(exported),
    "ps1": lambda exported, _: powershell_script(exported),
    "bat": lambda exported, _: batch_file(exported),
    "systemd": lambda exported, around: systemd_unit(exported, around.user),
    "docker-compose": lambda exported, around: compose_file(
        exported, dialect_of(exported.engine.engine), around.devices, lambda path: Path(path).is_file()
    ),
    "llama-swap": lambda exported, _: llama_swap_config(exported, dialect_of(exported.engine.engine)),
    "ini": lambda exported, _: preset_ini(exported, dialect_of(exported.engine.engine)),
    "json": lambda exported, _: export_json(exported),
}

FORMATS: Sequence[str] = tuple(_WRITERS)


def export(exported: Exported, form: str, around: Surroundings) -> str:
    """The file's whole text.

    Raises:
        BadInput: no such format, or something in the command has no spelling in it.
    """
    if form not in _WRITERS:
        nearest = get_close_matches(form, FORMATS, n=1)
        advice = f"did you mean {nearest[0]}?" if nearest else f"there are: {', '.join(FORMATS)}"
        raise BadInput(f"There is no format `{form}`", advice=advice)
    return _WRITERS[form](exported, around)


def write_export(path: Path, form: str, text: str) -> None:
    """Writes the file; a shell script can be run at once. Only an earlier export is written over.

    Raises:
        BadInput: another file of that name is there.
        NotPermitted: the place cannot be written.
    """
    try:
        if path.exists() and MARK not in path.read_text(encoding="utf-8", errors="replace"):
            raise BadInput("This file was not written by `tuner export`", where=str(path), advice="name another one")
        path.write_text(text, encoding="utf-8", newline="")
        if form == "sh":
            path.chmod(path.stat().st_mode | 0o111)
    except OSError as error:
        raise NotPermitted(f"Cannot write the export: {error.strerror}", where=str(path)) from error
