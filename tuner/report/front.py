"""The Pareto front over prefill, decode and context: what can be had of one only by giving up another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tuner.domain.frozen import FrozenStudy
from tuner.domain.record import TrialRecord
from tuner.domain.spread import geometric_mean
from tuner.report.drift import levelled


class FrontPoint(NamedTuple):
    """One feasible trial that no other one beats in all three."""

    record: TrialRecord
    prefill_tps: float
    """Geometric mean over the study's depths, cold."""
    decode_tps: float
    """Geometric mean over the study's cells."""
    context_tokens: int
    """Of a slot."""


def front(
    frozen: FrozenStudy, searched: Sequence[TrialRecord], confirmed: Sequence[TrialRecord] = ()
) -> list[FrontPoint]:
    """The front of a study's search, fastest decode first.

    Compared without the machine's drift; the figures are those that were measured. Of trials that are alike in all
    three the first stays.
    """
    own = {record.number: record for record in searched}
    level = levelled(searched, confirmed)
    compared = [(point, own[record.number]) for record in level if (point := _point(frozen, record))]
    kept = [
        record
        for place, (point, record) in enumerate(compared)
        if not any(_beats(other, point, earlier=at < place) for at, (other, _) in enumerate(compared) if at != place)
    ]
    points = [FrontPoint(record, *point) for record in kept if (point := _point(frozen, record))]
    return sorted(points, key=lambda point: -point.decode_tps)


def _point(frozen: FrozenStudy, record: TrialRecord) -> tuple[float, float, int] | None:
    measurement = record.measurement
    if record.verdict is None or not record.verdict.feasible or measurement is None:
        return None
    workload = frozen.workload
    prefill = geometric_mean([measurement.prefill_at(depth) for depth in workload.depths])
    results = [measurement.result(cell) for cell in workload.cells]
    decode = geometric_mean([result.decode_tps if result is not None else None for result in results])
    context = measurement.actual.context_per_slot
    return None if prefill is None or decode is None or context is None else (prefill, decode, context)


def _beats(other: tuple[float, float, int], point: tuple[float, float, int], *, earlier: bool) -> bool:
    if not all(theirs >= ours for theirs, ours in zip(other, point, strict=True)):
        return False
    return other != point or earlier
