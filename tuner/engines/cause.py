"""One known way in which an engine fails: what it writes, and what that means."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.domain.verdict import Move, Outcome

LONGEST_LINE = 300
"""Characters of a log line that are kept."""


@dataclass(frozen=True)
class Cause:
    """One way to fail.

    In the texts `{name}` stands for the pattern's group of that name; an engine may know further ones.
    """

    pattern: str
    outcome: Outcome
    reason: str
    repair: str | None = None
    device: str | None = None
    moves: tuple[Move, ...] = ()
    """Where the search should go from here, where the engine names a flag and a direction."""


def find_cause(
    causes: Sequence[Cause], lines: Sequence[str], start: int, end: int
) -> tuple[Cause, re.Match[str], int] | None:
    """The most specific cause named in `lines[start:end]`, with the last line that names it."""
    for cause in causes:
        for index in range(end - 1, start - 1, -1):
            if match := re.search(cause.pattern, lines[index]):
                return cause, match, index
    return None


def by_signal(causes: Mapping[str, Cause]) -> dict[int, Cause]:
    """Causes by the number of their signal, from its name. Windows has only some of them."""
    return {int(getattr(signal, name)): cause for name, cause in causes.items() if hasattr(signal, name)}


def short(line: str) -> str:
    """A log line without what surrounds it, and no longer than is kept."""
    line = line.strip()
    return line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 3] + "..."
