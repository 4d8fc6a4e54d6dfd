"""Whether two clients measure the same speed: rounds in which both measured one after the other, held together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from scipy.special import stdtrit

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval, as a share of the mean."""
        return (self.high - self.low) / 2 / self.mean

    @property
    def holds_one(self) -> bool:
        """For a ratio: whether no difference can be told."""
        return self.low <= 1 <= self.high

    def told(self, digits: int) -> str:
        return f"{self.mean:.{digits}f} ({self.low:.{digits}f} to {self.high:.{digits}f})"


def speeds(values: Sequence[float]) -> Interval:
    """The mean speed of several rounds."""
    margin = _margin(values)
    return Interval(fmean(values), fmean(values) - margin, fmean(values) + margin)


def joint_ratio(ours: Sequence[float], theirs: Sequence[float]) -> Interval:
    """Ours over theirs, geometric mean over the rounds.

    Both measured in every round, so what the machine did to both is not counted as a difference between them: the
    interval is Student's over the rounds' logarithms. Needs two rounds or more.
    """
    logs = [math.log(a / b) for a, b in zip(ours, theirs, strict=True)]
    margin = _margin(logs)
    return Interval(math.exp(fmean(logs)), math.exp(fmean(logs) - margin), math.exp(fmean(logs) + margin))


def _margin(values: Sequence[float]) -> float:
    return float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2)) * stdev(values) / math.sqrt(len(values))
