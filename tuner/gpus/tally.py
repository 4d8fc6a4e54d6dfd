"""Adds up the readings of one card, without keeping them."""

from __future__ import annotations

from collections.abc import Callable

from tuner.domain.gpu import SETTINGS, GpuIdentity, GpuReading, GpuUse

_COVERED = 0.9
"""Power must be known for this share of the time before energy is made of its mean."""


class Tally:
    """Peaks, means and shares over the readings so far. Fed by one thread; others may look meanwhile.

    Args:
        identity: whose readings these are.
        idle: what the card read before the engine was started.
    """

    def __init__(self, identity: GpuIdentity, idle: GpuReading) -> None:
        self._identity = identity
        self._idle = idle
        self._first: tuple[float, GpuReading] | None = None
        self._last: tuple[float, GpuReading] | None = None
        self._samples = 0
        self._power_s = 0.0
        self._power_ws = 0.0
        self._counted_j: float | None = 0.0
        self._counter_j: float | None = None
        self._clock_sum = 0.0
        self._clocks = 0
        self._told_reasons = 0
        self._throttled = 0
        self._reasons: dict[str, None] = {}
        self._spill_peak_mib: float | None = None
        self._power_peak_w: float | None = None
        self._temperature_max_c: float | None = None
        self._clock_min_mhz: float | None = None
        self._pcie_rx_peak_mib_s: float | None = None
        self.memory_peak_mib: float | None = None
        """The most memory in use so far."""

    def add(self, at_s: float, reading: GpuReading) -> None:
        """Takes a reading, `at_s` by a clock that only goes forward."""
        if reading == GpuReading():
            # Nothing was told, as by a card that is lost. The time that passes counts all the same.
            self._last = (at_s, reading)
            return
        self._samples += 1
        self._first = self._first or (at_s, reading)
        self._add_power(at_s, reading)
        self._add_energy(reading)
        self.memory_peak_mib = _known(max, self.memory_peak_mib, reading.used_mib)
        self._spill_peak_mib = _known(max, self._spill_peak_mib, reading.spill_mib)
        self._power_peak_w = _known(max, self._power_peak_w, reading.power_w)
        self._temperature_max_c = _known(max, self._temperature_max_c, reading.temperature_c)
        self._clock_min_mhz = _known(min, self._clock_min_mhz, reading.core_clock_mhz)
        self._pcie_rx_peak_mib_s = _known(max, self._pcie_rx_peak_mib_s, reading.pcie_rx_mib_s)
        if reading.core_clock_mhz is not None:
            self._clock_sum += reading.core_clock_mhz
            self._clocks += 1
        if reading.throttled_by is not None:
            self._told_reasons += 1
            self._reasons.update(dict.fromkeys(reading.throttled_by))
            self._throttled += not SETTINGS.issuperset(reading.throttled_by)
        self._last = (at_s, reading)

    def _add_power(self, at_s: float, reading: GpuReading) -> None:
        if self._last is None or reading.power_w is None or self._last[1].power_w is None:
            return
        passed_s = at_s - self._last[0]
        self._power_s += passed_s
        self._power_ws += passed_s * (reading.power_w + self._last[1].power_w) / 2

    def _add_energy(self, reading: GpuReading) -> None:
        if reading.energy_j is None:
            return
        if self._counter_j is not None and self._counted_j is not None:
            # A counter that went back began anew with its driver: what it had counted in between is lost.
            grown_j = reading.energy_j - self._counter_j
            self._counted_j = self._counted_j + grown_j if grown_j >= 0 else None
        self._counter_j = reading.energy_j

    def use(self, *, power_cap_w: float | None = None, complete: bool = True) -> GpuUse:
        """The sum of it so far.

        Args:
            power_cap_w: the cap that was in force all the time.
            complete: whether the card was read to the end. Otherwise a part of the energy would be taken for all.
        """
        spill = self._spill_peak_mib
        grown = None if spill is None or self._idle.spill_mib is None else max(0.0, spill - self._idle.spill_mib)
        return GpuUse(
            key=self._identity.key,
            name=self._identity.name,
            samples=self._samples,
            memory_idle_mib=self._idle.used_mib,
            memory_peak_mib=self.memory_peak_mib,
            spill_growth_mib=grown,
            power_mean_w=self._power_mean_w(),
            power_peak_w=self._power_peak_w,
            energy_j=self._energy_j() if complete else None,
            temperature_max_c=self._temperature_max_c,
            core_clock_mean_mhz=self._clock_sum / self._clocks if self._clocks else None,
            core_clock_min_mhz=self._clock_min_mhz,
            throttled_share=self._throttled / self._told_reasons if self._told_reasons else None,
            throttled_by=tuple(self._reasons),
            pcie_rx_peak_mib_s=self._pcie_rx_peak_mib_s,
            power_cap_w=power_cap_w,
        )

    def _power_mean_w(self) -> float | None:
        if self._power_s:
            return self._power_ws / self._power_s
        return self._power_peak_w  # Of a single reading, if there was one.

    def _energy_j(self) -> float | None:
        """By the counter if it ran from the first reading to the last, else by the power."""
        if self._first is None or self._last is None:
            return None
        (began_s, first), (ended_s, last) = self._first, self._last
        if None not in (first.energy_j, last.energy_j, self._counted_j) and ended_s > began_s:
            return self._counted_j
        passed_s = ended_s - began_s
        if self._power_s and self._power_s >= _COVERED * passed_s:
            return self._power_ws / self._power_s * passed_s
        return None


def _known(choose: Callable[[float, float], float], one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return choose(one, other)
