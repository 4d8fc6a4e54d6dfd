"""A rig against the points that were measured on its real machine: `python -m tests.rigs.measured [RIG ...]`.

The `[[measured]]` tables are explained in README.md beside this file.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fake_engine.rig import Measured, Rig
from tests.fake_engine.sglang_rig import load_rig

FOLDER = Path(__file__).resolve().parent
CONTENTS = ("code", "tool", "math", "prose-en", "prose-zh")
USUAL_TOLERANCE = 0.05


@dataclass(frozen=True)
class Point:
    """One figure of the real machine beside the model's."""

    what: str
    """The settings that differ from the rig's `[base]`, and the metric."""
    measured: float | str
    modelled: float | str
    tolerance: float
    source: str
    low: float = math.nan
    high: float = math.nan
    """Bounds, where only these are known."""

    @property
    def error(self) -> float:
        """Relative difference; of an outcome 0 or 1, of bounds how far outside."""
        if not math.isnan(self.low):
            found = float(self.modelled)
            return 0.0 if self.low <= found <= self.high else min(abs(found / end - 1) for end in (self.low, self.high))
        if isinstance(self.measured, str) or isinstance(self.modelled, str):
            return float(self.measured != self.modelled)
        return self.modelled / self.measured - 1

    @property
    def holds(self) -> bool:
        return abs(self.error) <= self.tolerance


def points(rig: Rig) -> Iterator[Point]:
    """Every measured figure that the model is held to."""
    for table in rig.measured:
        if "unmodelled" in table:
            continue
        for changes, index in _steps(table):
            settings = {**rig.base, **table.get("set", {}), **changes}
            depth, streams = table.get("depth", 0), table.get("streams", 1)
            here, base = rig.measure(_without_unset(settings)), rig.measure(_without_unset(rig.base))
            told = " ".join(f"{k}={v}" for k, v in {**table.get("set", {}), **changes}.items()) or "base"
            told += f" @{depth}" if depth else ""
            within, source = table.get("within", USUAL_TOLERANCE), table["source"]
            for metric, value in table.get("is", {}).items():
                found = figure(here, metric, depth, streams)
                yield Point(f"{told}: {metric}", _at(value, index), found, within, source)
            for metric, value in table.get("ratio", {}).items():
                reference = base if "to" not in table else rig.measure(_without_unset({**settings, **table["to"]}))
                found = float(figure(here, metric, depth, streams)) / float(figure(reference, metric, depth, streams))
                yield Point(f"{told}: {metric} ratio", _at(value, index), found, within, source)
            for metric, (low, high) in table.get("between", {}).items():
                name = metric.removeprefix("ratio.")
                found = float(figure(here, name, depth, streams))
                if name != metric:
                    found /= float(figure(base, name, depth, streams))
                yield Point(f"{told}: {metric}", f"{low}..{high}", found, within, source, low, high)


def _steps(table: dict[str, Any]) -> Iterator[tuple[dict[str, Any], int | None]]:
    """The settings of a point; of a sweep one for each of its values."""
    if "sweep" not in table:
        yield {}, None
        return
    ((name, values),) = table["sweep"].items()
    for index, value in enumerate(values):
        yield {name: value}, index


def _at(value: Any, index: int | None) -> Any:
    return value if index is None or not isinstance(value, list) else value[index]


def _without_unset(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value != "unset"}


def figure(measured: Measured, metric: str, depth: int, streams: int) -> float | str:
    """A metric of one configuration, by the names that `[[measured]]` tables use."""
    name, _, content = metric.partition(".")
    contents = content.split("+") if content else list(CONTENTS)
    if name == "outcome":
        return measured.outcome
    if name == "context":
        return measured.plan.context
    if name == "prefill":
        return measured.prefill_tps(depth)
    if name == "vram_used_mib":
        used = [d for d in measured.rig.devices if d.name in measured.plan.shares]
        return sum(sum(measured.memory[d.name].values()) + d.total_mib - d.free_mib for d in used)
    if name in ("decode", "aggregate"):
        logs = [math.log(measured.decode_tps(each, depth, streams)) for each in contents]
        return math.exp(sum(logs) / len(logs)) * (streams if name == "aggregate" else 1)
    drafts = [measured.drafts(each, depth, streams) for each in contents]
    if name == "accept":
        return sum(d.accepted / d.drafted for d in drafts) / len(drafts)
    if name == "accept_length":
        return sum(d.gained for d in drafts) / len(drafts)
    raise ValueError(f"no metric is called {metric!r}")


def table(path: Path) -> str:
    """All points of a rig, and what is not modelled, for reading."""
    rig = load_rig(path)
    lines = [f"{path.stem}: {rig.about}"]
    for point in points(rig):
        shown = [f"{v:.4g}" if isinstance(v, float | int) else v for v in (point.measured, point.modelled)]
        mark = "" if point.holds else "  <-- off"
        lines.append(f"  {point.what:<92} {shown[0]:>14} {shown[1]:>14} {100 * point.error:+6.1f} %{mark}")
    for left in rig.measured:
        if "unmodelled" in left:
            lines.append(f"  not modelled: {left.get('set', {})} {left.get('is', '')}: {left['unmodelled']}")
    return "\n".join(lines)


if __name__ == "__main__":
    names = sys.argv[1:] or sorted(path.stem for path in FOLDER.glob("*.toml"))
    for name in names:
        if load_rig(FOLDER / f"{name}.toml").measured:
            print(table(FOLDER / f"{name}.toml"))
