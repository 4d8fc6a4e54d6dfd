"""How precisely a launch is measured: losers as little as possible, what may win more, what decides most."""

from __future__ import annotations

import math
import time

from tuner.domain.measurement import Measurement
from tuner.domain.workload import Cell
from tuner.report.drift import Drift, levelled
from tuner.study.budget import most_repeats
from tuner.study.kit import Kit
from tuner.study.launch import Launch
from tuner.workload.precision import Precision

_NEAR_BEST = 0.95
"""Of the best decode speed seen in a cell: what is slower will not win, however precisely it is known."""


def precision_of(kit: Kit, launch: Launch) -> Precision:
    """The precision for one launch.

    The baseline and what is measured again get up to three times the study's repeats in every cell. A configuration of
    the search gets them where it decodes about as fast as the best one so far, the deepest cells aside: they cost most,
    and the confirm stage measures all of them again.
    """
    least, most = kit.frozen.definition.repeats, most_repeats(kit.frozen.definition)
    if launch.is_baseline or launch.confirms:
        return Precision(least=least, most=most)
    workload, searched, again = kit.frozen.workload, kit.pool.records(), kit.pool.records(confirm=True)
    # What the best one would do on the machine as it is now.
    near_best = _NEAR_BEST * math.exp(Drift.of(searched, again).at(kit.frozen.machine.host, time.time(), "decode_tps"))
    records = levelled(searched, again)
    measured = [r.measurement for r in records if r.verdict and r.verdict.feasible and r.measurement is not None]
    deepest = workload.depths[-1] if len(workload.depths) > 1 else None
    contenders = {
        cell: near_best * best
        for cell in workload.cells
        if cell.depth != deepest and (best := _best_decode(cell, measured)) is not None
    }
    return Precision(least=least, most=most, contender_tps=contenders)


def cells_told(kit: Kit) -> str:
    """Which cells a launch measures, and how often, for a person to read."""
    least, most = kit.frozen.definition.repeats, most_repeats(kit.frozen.definition)
    names = ", ".join(cell.name for cell in kit.frozen.workload.cells)
    if most == least:
        return f"cells: {names}"
    return f"cells: {names}; measured {least} to {most} times, {least} where a launch is slow or a cell is the deepest"


def _best_decode(cell: Cell, measured: list[Measurement]) -> float | None:
    results = [result for one in measured if (result := one.result(cell)) is not None]
    return max((result.decode_tps for result in results if result.decode_tps is not None), default=None)
