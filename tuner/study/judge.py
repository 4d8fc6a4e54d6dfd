"""From a measurement to a verdict's constraints and to what the search is told."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.domain.frozen import FrozenStudy
from tuner.domain.measurement import Measurement
from tuner.domain.profile import Profile
from tuner.domain.record import TrialRecord
from tuner.domain.spread import geometric_mean
from tuner.domain.verdict import Explanation, Outcome, Verdict
from tuner.domain.workload import Cell, Workload
from tuner.report.selection import baseline_of

_SHORT_OF_MEMORY = (Outcome.OUT_OF_MEMORY, Outcome.WILL_NOT_FIT)


def constraints(
    outcome: Outcome, measurement: Measurement | None, profiles: Sequence[Profile], *, memory_over_mib: float = 0.0
) -> dict[str, float]:
    """Constraint -> violation, always the same names: the outcome, memory, and what every profile finds missing.

    `memory_over_mib` is by how much the device that is worst off misses its memory; negative where there is room.

    A configuration that serves one profile is feasible in the study; each profile applies its own needs again.
    """
    missed: dict[str, float] = {
        "outcome": 0.0 if outcome is Outcome.OK else 1.0,
        "memory": max(memory_over_mib, 1.0) if outcome in _SHORT_OF_MEMORY else memory_over_mib,
        "context": 0.0,
        "streams": 0.0,
    }
    if measurement is not None:
        unmet = [profile.unmet_needs(measurement) for profile in profiles]
        least = min(unmet, key=lambda needs: sum(needs.values()))
        missed.update(least)
    return missed


def failed(frozen: FrozenStudy, why: Explanation, log: str, measurement: Measurement | None = None) -> Verdict:
    """The verdict of a launch that came to a bad end."""
    return Verdict(
        outcome=why.outcome,
        reason=why.reason,
        constraints=constraints(why.outcome, measurement, frozen.profiles),
        log=log,
        explanation=why,
    )


def reference_of(records: Sequence[TrialRecord]) -> Measurement | None:
    """The baseline's measurement, once there is one."""
    baseline = baseline_of(records)
    return baseline.measurement if baseline is not None else None


def told_objectives(
    record: TrialRecord, workload: Workload, reference: Measurement | None
) -> tuple[float, float, float] | None:
    """What the search learns of a closed trial: its objectives if it ran well, else None."""
    if record.verdict is None or record.verdict.outcome is not Outcome.OK or record.measurement is None:
        return None
    return objectives(record.measurement, workload, reference)


def objectives(
    measurement: Measurement, workload: Workload, reference: Measurement | None
) -> tuple[float, float, float] | None:
    """Prefill and decode speed (geometric means over all cells, tokens a second) and context of a slot in tokens.

    Cells that a trial which was cut short did not come to are taken to stand to the reference's as its others do: the
    search learns from it, but nobody is shown such a figure. None if one of the three could not be measured.
    """
    if measurement.actual.context_per_slot is None:
        return None
    cut = reference if measurement.cut_short is not None else None
    prefill = _filled_mean(
        [measurement.prefill_at(depth) for depth in workload.depths],
        [cut.prefill_at(depth) if cut else None for depth in workload.depths],
    )
    decode = _filled_mean(
        [_decode(measurement, cell) for cell in workload.cells],
        [_decode(cut, cell) if cut else None for cell in workload.cells],
    )
    if prefill is None or decode is None:
        return None
    return prefill, decode, float(measurement.actual.context_per_slot)


def _decode(measurement: Measurement, cell: Cell) -> float | None:
    result = measurement.result(cell)
    return result.decode_tps if result is not None else None


def _filled_mean(ours: Sequence[float | None], theirs: Sequence[float | None]) -> float | None:
    ratio = geometric_mean([a / b for a, b in zip(ours, theirs, strict=True) if a and b])
    return geometric_mean(
        [a if a is not None or b is None or ratio is None else ratio * b for a, b in zip(ours, theirs, strict=True)]
    )
