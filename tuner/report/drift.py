"""The machine drifts: what the baseline, measured again and again during the search, says about the trials in between.

Every anchor is a launch of the baseline. Its speeds over those of the study's first one are the machine's level at that
time, one for prefill and one for decode. Between two anchors the level is interpolated. Where several machines work on
one study, each has its own anchors: how it differs from the first one is taken out like a drift. A difference that
cells differ by among themselves is noise and not drift, and is corrected by less than it seems (as James and Stein
shrink a mean).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, stdev

from tuner.domain.measurement import CellResult, Measurement
from tuner.domain.record import Stage, TrialRecord
from tuner.report.selection import baseline_of

_LAUNCH_NOISE = 0.01
"""What two launches of one configuration differ by in any case: standard deviation of the logarithm."""
_BEYOND_NOISE = 3.0
"""Standard deviations from which on a step is the machine's and no noise."""
_LEAST_STEP = 0.03
_METRICS = ("prefill_tps", "decode_tps")


@dataclass(frozen=True)
class Level:
    """How fast a machine was at one time, against the study's first baseline; logarithms of ratios."""

    host: str
    at: float
    """Seconds since the epoch."""
    change: dict[str, float]
    """Metric -> level."""
    noise: dict[str, float]
    """Metric -> standard deviation of the level."""


class Drift:
    """The level over time, of each machine."""

    def __init__(self, levels: Sequence[Level]) -> None:
        self._levels: dict[str, list[Level]] = {}
        for level in sorted(levels, key=lambda level: level.at):
            self._levels.setdefault(level.host, []).append(level)

    @classmethod
    def of(cls, searched: Sequence[TrialRecord], confirmed: Sequence[TrialRecord]) -> Drift:
        """The drift that a study's anchors show, if it has any."""
        baseline = baseline_of(searched)
        anchors = [r for r in confirmed if r.stage is Stage.ANCHOR and r.verdict and r.verdict.feasible]
        if baseline is None or baseline.measurement is None or not anchors:
            return cls([])
        still = dict.fromkeys(_METRICS, 0.0)
        levels = [Level(baseline.owner.host, _middle(baseline), still, dict.fromkeys(_METRICS, _LAUNCH_NOISE))]
        for anchor in anchors:
            if anchor.measurement is not None:
                found = {metric: _change(metric, anchor.measurement, baseline.measurement) for metric in _METRICS}
                change, noise = ({metric: pair[part] for metric, pair in found.items()} for part in (0, 1))
                levels.append(Level(anchor.owner.host, _middle(anchor), change, noise))
        return cls(levels)

    def at(self, host: str, moment: float, metric: str) -> float:
        """A machine's level at a time, interpolated: the logarithm of its speed over that of the first baseline.

        0 for a machine that has not measured the baseline yet.
        """
        levels = self._levels.get(host)
        if levels is None:
            return 0.0
        place = bisect_right([level.at for level in levels], moment)
        before, after = levels[max(0, place - 1)], levels[min(place, len(levels) - 1)]
        width = after.at - before.at
        share = min(1.0, max(0.0, (moment - before.at) / width)) if width > 0 else 0.0
        return (1 - share) * _shrunk(before, metric) + share * _shrunk(after, metric)

    def last_step(self, host: str) -> dict[str, float]:
        """Metric -> by what a machine's latest anchor differs from the one before, where that is beyond the noise."""
        levels = self._levels.get(host, [])
        if len(levels) < 2:
            return {}
        before, now = levels[-2:]
        steps = {metric: now.change[metric] - before.change[metric] for metric in _METRICS}
        limits = {m: max(_LEAST_STEP, _BEYOND_NOISE * math.hypot(now.noise[m], before.noise[m])) for m in _METRICS}
        return {metric: step for metric, step in steps.items() if abs(step) > limits[metric]}

    def last_interval(self, host: str) -> tuple[float, float]:
        """When a machine's last two anchors were measured: what it measured in between is what a step has touched."""
        before, now = self._levels[host][-2:]
        return before.at, now.at

    def corrected(self, record: TrialRecord) -> TrialRecord:
        """The record with the speeds it would have had when the study began."""
        if not self._levels or record.measurement is None:
            return record
        cells = tuple(self.corrected_cells(record.measurement.cells, record.owner.host, _middle(record)))
        return record.model_copy(update={"measurement": record.measurement.model_copy(update={"cells": cells})})

    def corrected_cells(self, cells: Sequence[CellResult], host: str, moment: float) -> list[CellResult]:
        """The same for cells that a machine measured at a time, in seconds since the epoch."""
        factor = {metric: math.exp(-self.at(host, moment, metric)) for metric in _METRICS}
        return [
            result.model_copy(
                update={
                    metric: None if (speed := getattr(result, metric)) is None else factor[metric] * speed
                    for metric in _METRICS
                }
            )
            for result in cells
        ]


def levelled(searched: Sequence[TrialRecord], confirmed: Sequence[TrialRecord]) -> list[TrialRecord]:
    """The search's records as they compare: drift taken out, and what was measured again with its new figures.

    For comparing only. What is shown and exported are the figures that were measured.
    """
    drift = Drift.of(searched, confirmed)
    again = {
        record.configuration.fingerprint: record
        for record in confirmed
        if record.stage is Stage.REMEASURE and record.verdict is not None and record.verdict.feasible
    }
    found = []
    for record in searched:
        newer = None if record.is_baseline else again.get(record.configuration.fingerprint)
        if newer is not None and record.verdict is not None and record.verdict.feasible:
            measurement = drift.corrected(newer).measurement
            found.append(record.model_copy(update={"measurement": measurement}))
        else:
            found.append(drift.corrected(record))
    return found


def _middle(record: TrialRecord) -> float:
    return record.started_at + (record.seconds or 0.0) / 2


def _shrunk(level: Level, metric: str) -> float:
    change, noise = level.change[metric], level.noise[metric]
    return change * (1 - (noise / change) ** 2) if abs(change) > noise else 0.0


def _change(metric: str, measured: Measurement, reference: Measurement) -> tuple[float, float]:
    """The logarithm of a metric's ratio to the reference, over all cells, and its standard deviation."""
    ratios = []
    for known in reference.cells:
        result = measured.result(known.cell)
        ours, theirs = getattr(result, metric) if result else None, getattr(known, metric)
        if ours and theirs:
            ratios.append(math.log(ours / theirs))
    if not ratios:
        return 0.0, _LAUNCH_NOISE
    spread = stdev(ratios) / math.sqrt(len(ratios)) if len(ratios) > 1 else 0.0
    return median(ratios), math.hypot(spread, _LAUNCH_NOISE)
