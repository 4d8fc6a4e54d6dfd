"""What a rig file is written in: tables between whose entries one reads, conditions, and files that extend others."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

_CONDITION = re.compile(r"(\w+)(>=|<=|!=|=|>|<|~)(.*)")


RIGS = Path(__file__).resolve().parent.parent / "rigs"


def read_rig(path: Path) -> dict[str, Any]:
    """The tables of a rig file. What it does not say it has from the file that `extends` names, key by key.

    That file lies beside it or among the project's own rigs. A key is taken over or replaced whole: half a table of
    steps would be neither file's.
    """
    own = tomllib.loads(path.read_text())
    parent = own.pop("extends", None)
    if parent is None:
        return own
    beside = path.parent / parent
    values = read_rig(beside if beside.is_file() else RIGS / parent)
    for private in ("measured", "base", "cliffs", "about", "study"):
        values.pop(private, None)
    for name, table in own.items():
        values[name] = values.get(name, {}) | table if isinstance(table, dict) else table
    return values


def read_off(table: float | Mapping[str, float], at: float, *, beyond: bool = False) -> float:
    """A number, or one read off a table of steps: linear between them, level before and after.

    `beyond`: after the last step it goes on along the last slope, as costs do.
    """
    if not isinstance(table, Mapping):
        return float(table)
    points = sorted((float(key), float(value)) for key, value in table.items())
    if at <= points[0][0] or len(points) == 1:
        return points[0][1]
    if at >= points[-1][0] and not beyond:
        return points[-1][1]
    around = list(pairwise(points))
    (low, below), (high, above) = next((pair for pair in around if at <= pair[1][0]), around[-1])
    return below + (above - below) * (at - low) / (high - low)


def holds(condition: str, settings: Mapping[str, Any]) -> bool:
    """Whether `key>=value` is so; operators: = != < <= > >= and ~ (contains).

    Raises:
        ValueError: it is no condition.
    """
    match = _CONDITION.fullmatch(condition.strip())
    if not match:
        raise ValueError(f"cannot read the condition '{condition}'")
    key, operator, wanted = match.groups()
    have = settings.get(key, "")
    have = str(have).lower() if isinstance(have, bool) else str(have)
    if operator == "~":
        return wanted in have
    if operator in ("=", "!="):
        return (have == wanted) == (operator == "=")
    try:
        left, right = float(have), float(wanted)
    except ValueError:
        return False
    return {">=": left >= right, "<=": left <= right, ">": left > right, "<": left < right}[operator]
