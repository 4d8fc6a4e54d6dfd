"""What does not fit is not launched: the engine's projection, corrected by what the study has seen.

The projection leaves things out: a draft model, buffers that grow under load, limits that nobody reports. So the error
is learned, a device at a time, with and without speculation apart: from launches that were measured, how much more they
held than projected; from launches that ran out of memory, how little is too much.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field

from tuner.domain.measurement import Measurement
from tuner.domain.memory import HOST, MemoryProjection
from tuner.domain.record import TrialRecord
from tuner.domain.verdict import Outcome
from tuner.study.collapse import SPILL_MIB
from tuner.study.kit import Kit

_SPREADS = 2.0
"""How many standard deviations of the error are kept as a margin."""
_BETWEEN = 0.5
"""Where between the largest that fitted and the smallest that did not the line is drawn."""

_Class = tuple[str, bool]
"""Device, and whether a draft is loaded."""


def worst_memory(kit: Kit, record: TrialRecord) -> tuple[str, float] | None:
    """The device that is worst off and the MiB by which it misses its memory, negative where there is room.

    From the engine's projection, corrected by what the study has learned, and from what the launch itself held at its
    peak. None where nothing is known.
    """
    over: dict[str, float] = {}
    if record.projection is not None:
        over = MemoryLimits.learned(kit.pool.records()).over(record.projection)
    if record.measurement is not None:
        for device, mib in _held_beyond(kit, record.measurement).items():
            over[device] = max(over.get(device, -math.inf), mib)
    return max(over.items(), key=lambda pair: pair[1]) if over else None


def _held_beyond(kit: Kit, measurement: Measurement) -> dict[str, float]:
    """Device -> MiB by which the most that was held exceeds what there is; what spilled to the host counts."""
    beyond: dict[str, float] = {}
    totals = {card.key: card.total_mib for card in kit.frozen.machine.cards}
    for use in measurement.gpus:
        total = totals.get(use.key)
        if use.device is not None and use.memory_peak_mib is not None and total is not None:
            spilled = use.spill_growth_mib or 0.0
            beyond[use.device] = spilled if spilled > SPILL_MIB else use.memory_peak_mib - total
    held = measurement.host_rss_peak_mib
    if held is not None and not any(facts.devices for facts in kit.frozen.engines):
        beyond[HOST] = held - kit.frozen.machine.memory_mib
    return beyond


def _held_mib(device: str, measurement: Measurement) -> float | None:
    """What a launch held on a device at its peak: as the driver saw it where it did, else the engine's own buffers."""
    for use in measurement.gpus:
        if use.device == device and use.memory_peak_mib is not None and use.memory_idle_mib is not None:
            return use.memory_peak_mib - use.memory_idle_mib
    return measurement.actual.buffers_mib.get(device)


@dataclass
class MemoryLimits:
    """What one study has learned about each device."""

    errors: dict[_Class, list[float]] = field(default_factory=dict)
    """MiB held beyond the projection, of every launch that was measured."""
    fitted: dict[_Class, float] = field(default_factory=dict)
    """The largest projection, in MiB, that ran."""
    failed: dict[_Class, float] = field(default_factory=dict)
    """The smallest projection, in MiB, that ran out of memory."""

    @classmethod
    def learned(cls, records: Iterable[TrialRecord]) -> MemoryLimits:
        """The limits that these trials show."""
        limits = cls()
        for record in records:
            if record.projection is not None and record.verdict is not None:
                limits._take(record, record.projection)
        return limits

    def over(self, projection: MemoryProjection) -> dict[str, float]:
        """Device -> MiB by which a launch would miss its memory; negative where there is room."""
        return {device: self._over(device, projection) for device in projection.needed_mib}

    def _over(self, device: str, projection: MemoryProjection) -> float:
        key = (device, projection.speculates)
        needed = projection.needed_mib[device]
        over = -math.inf
        if device in projection.free_mib:
            over = needed + self._margin(key) - projection.free_mib[device]
        if key in self.failed:
            over = max(over, needed - self._line(key))
        return over if over > -math.inf else -needed

    def _line(self, key: _Class) -> float:
        """The largest projection that is still launched after one ran out of memory."""
        failed, fitted = self.failed[key], self.fitted.get(key, 0.0)
        # A projection that failed once and fitted another time says that something else took the memory.
        return fitted + _BETWEEN * (failed - fitted) if fitted < failed else failed - 1.0

    def _margin(self, key: _Class) -> float:
        errors = self.errors.get(key, [])
        if not errors:
            return 0.0
        spread = statistics.stdev(errors) if len(errors) > 1 else abs(errors[0])
        # The mean of few launches is itself uncertain: the margin shrinks as evidence grows.
        return statistics.fmean(errors) + _SPREADS * spread / math.sqrt(len(errors))

    def _take(self, record: TrialRecord, projection: MemoryProjection) -> None:
        verdict, measurement = record.verdict, record.measurement
        assert verdict is not None
        for device, needed in projection.needed_mib.items():
            key = (device, projection.speculates)
            if verdict.outcome is Outcome.OUT_OF_MEMORY:
                blamed = verdict.explanation.device if verdict.explanation else None
                # A log that names no device leaves them all under suspicion.
                if blamed is None or blamed == device or blamed not in projection.needed_mib:
                    self.failed[key] = min(self.failed.get(key, needed), needed)
            elif verdict.outcome is Outcome.OK and measurement is not None:
                self.fitted[key] = max(self.fitted.get(key, needed), needed)
                held = _held_mib(device, measurement)
                if held is not None:
                    self.errors.setdefault(key, []).append(held - needed)
