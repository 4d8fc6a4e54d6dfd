"""From a measurement to a verdict's constraints and to what the search is told."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tuner.domain.measurement import Measurement
from tuner.domain.profile import Profile
from tuner.domain.record import TrialRecord
from tuner.domain.verdict import Outcome
from tuner.domain.workload import Workload

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


def told_objectives(record: TrialRecord, workload: Workload) -> tuple[float, float, float] | None:
    """What the search learns of a closed trial: its objectives if it ran well, else None."""
    if record.verdict is None or record.verdict.outcome is not Outcome.OK:
        return None
    return objectives(record.measurement, workload)


def objectives(measurement: Measurement | None, workload: Workload) -> tuple[float, float, float] | None:
    """Prefill and decode speed (geometric means over all cells, tokens a second) and context of a slot in tokens.

    None if one of them could not be measured.
    """
    if measurement is None or measurement.actual.context_per_slot is None:
        return None
    prefill = _geometric_mean([measurement.prefill_at(depth) for depth in workload.depths])
    decode = _geometric_mean(
        [result.decode_tps if (result := measurement.result(cell)) else None for cell in workload.cells]
    )
    if prefill is None or decode is None:
        return None
    return prefill, decode, float(measurement.actual.context_per_slot)


def _geometric_mean(speeds: Sequence[float | None]) -> float | None:
    known = [speed for speed in speeds if speed is not None and speed > 0]
    if not known or len(known) < len(speeds):
        return None
    return math.exp(sum(map(math.log, known)) / len(known))
