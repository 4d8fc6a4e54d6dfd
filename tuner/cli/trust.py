"""A study from somewhere else: says what it would run, and asks."""

from __future__ import annotations

import shlex
import sys

import typer

from tuner import wiring
from tuner.domain.errors import NotTrusted
from tuner.store.folder import StudyFolder


def ask_before_running(folder: StudyFolder, *, trust: bool) -> None:
    """Returns where this user made the study on this machine, or trusts it; what is trusted stays so.

    Raises:
        NotTrusted: nobody can be asked.
        Abort: the answer was no.
    """
    origin = wiring.origin(folder)
    if origin.is_own():
        return
    typer.echo("\n".join(_what_it_runs(folder)))
    if not trust:
        if not sys.stdin.isatty():
            raise NotTrusted(
                "This study was not made here, and nobody can be asked whether to run it",
                where=str(folder.path),
                advice="look at what it would run (above); if you want that, add --trust once",
            )
        typer.confirm("Run this here?", abort=True)
    origin.seal(wiring.this_user())


def _what_it_runs(folder: StudyFolder) -> list[str]:
    """The programs, and everything that is handed to them."""
    definition, frozen = folder.definition(), folder.frozen()
    made_by = (frozen.made_by if frozen else "") or wiring.origin(folder).made_by() or "somebody unknown"
    words = [*definition.fixed, *(definition.pasted or ())]
    lines = [
        f"The study {folder.name} was made by {made_by}, not by you at this place. It would run:",
        *(f"  program      {binary}" for binary in definition.binary),
        *(f"  model        {model}" for model in definition.model),
    ]
    if words:
        lines.append(f"  arguments    {shlex.join(words)}")
    lines += [f"  environment  {name}={value}" for name, value in definition.env.items()]
    searched = [p for p in frozen.space.parameters if p.environment] if frozen else []
    lines += [f"  environment  {p.environment}, one of: {' '.join(map(str, p.choices or ()))}" for p in searched]
    files = (("space", definition.space), ("profiles", definition.profiles_file), ("prompts", definition.prompts))
    lines += [f"  {what:<12} {path}" for what, path in files if path is not None]
    if definition.storage is not None:
        lines.append(f"  storage      {definition.storage}")
    if definition.power_cap:
        lines.append("  and would change the power caps of your graphics cards")
    return lines
