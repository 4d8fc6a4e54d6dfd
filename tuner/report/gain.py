"""How much faster one configuration is than another for a profile, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median

from pydantic import BaseModel, ConfigDict

CONFIDENCE = 0.98
"""Nominal, so that the interval covers the truth in 95 of 100 studies: the confirm stage goes on until it is settled,
and stopping at a lucky moment costs the rest. `tests/report/test_claims.py` simulates it."""
EARLY_CONFIDENCE = 0.995
"""For the question whether to go on measuring: it is asked again and again, and each time could be answered by luck."""
_WORTH = 1.02
"""A gain that is certainly below two per cent is not worth another launch."""
_FAR = 5.0
"""So many robust standard deviations from its group's median a launch is an outlier. MAD, as hyperfine does it."""
_LEAST_GROUP = 5
"""In smaller groups nobody can say which launch is the odd one."""


class Gain(BaseModel):
    """A ratio to the baseline: 1.42 means that the profile's work is done 1.42 times as fast."""

    model_config = ConfigDict(frozen=True)

    ratio: float
    low: float | None = None
    """Lower end of the interval; None where launches were not repeated."""
    high: float | None = None
    outliers: int = 0
    """Launches that were left out because they lay far from all others of the same configuration."""

    @property
    def is_measurable(self) -> bool:
        """Whether the interval lies above 1."""
        return self.low is not None and self.low > 1

    def told(self) -> str:
        """For a person: `1.42x baseline (1.31 to 1.54)`."""
        if self.low is None or self.high is None:
            return f"{self.ratio:.2f}x baseline (not confirmed)"
        # Near 1 two digits would hide on which side of it an end lies.
        digits = 3 if min(abs(self.low - 1), abs(self.high - 1)) < 0.01 else 2
        without = f"; {self.outliers} outlying launch{'es' * (self.outliers > 1)} left out" if self.outliers else ""
        interval = f"({self.low:.{digits}f} to {self.high:.{digits}f}{without})"
        if self.low <= 1 <= self.high:
            return f"no measurable difference: {self.ratio:.2f}x baseline {interval}"
        return f"{self.ratio:.2f}x baseline {interval}"


def gain(scores: Sequence[Sequence[float]], candidate: int, baseline: int, *, confidence: float = CONFIDENCE) -> Gain:
    """The gain of one group of launches over another.

    Args:
        scores: for each configuration the log scores of its launches; none of them empty for the two compared.
        candidate: index of the configuration in question.
        baseline: index of the configuration it is compared with.
        confidence: of the interval.

    The interval counts the spread between launches, since that is what a user meets. Its variance is pooled over all
    configurations, and Student's t has the pooled degrees of freedom: with two launches each, a pair alone would have
    too few. Without any repeated launch there is no interval.
    """
    kept = _without_outliers(scores)
    outliers = sum(len(scores[place]) - len(kept[place]) for place in {candidate, baseline})
    scores = kept
    ours, theirs = scores[candidate], scores[baseline]
    difference = fmean(ours) - fmean(theirs)
    freedom = sum(max(0, len(group) - 1) for group in scores)
    if freedom == 0 or candidate == baseline:
        return Gain(ratio=math.exp(difference), outliers=outliers)
    squares = sum((value - fmean(group)) ** 2 for group in scores if group for value in group)
    error = math.sqrt(squares / freedom * (1 / len(ours) + 1 / len(theirs)))
    # Imported late, and not as scipy.stats.t, which alone takes a second to load.
    from scipy.special import stdtrit

    margin = float(stdtrit(freedom, (1 + confidence) / 2)) * error
    low, high = math.exp(difference - margin), math.exp(difference + margin)
    return Gain(ratio=math.exp(difference), low=low, high=high, outliers=outliers)


def is_open(scores: Sequence[Sequence[float]], candidate: int, baseline: int) -> bool:
    """Whether more launches could still show a gain that is worth it, or take one away that is not proven yet."""
    strictly = gain(scores, candidate, baseline, confidence=EARLY_CONFIDENCE)
    usually = gain(scores, candidate, baseline)
    if candidate == baseline or strictly.low is None or usually.high is None:
        return False
    return strictly.low <= 1 and usually.high > _WORTH


def _without_outliers(scores: Sequence[Sequence[float]]) -> list[list[float]]:
    """The groups without launches that lie far from their own group; the spread is judged over all groups together."""
    deviations = [abs(value - median(group)) for group in scores if len(group) > 1 for value in group]
    spread = _NORMAL_MAD * median(deviations) if deviations else 0.0
    kept = []
    for group in scores:
        limit = _FAR * spread if spread > 0 and len(group) >= _LEAST_GROUP else math.inf
        kept.append([value for value in group if abs(value - median(group)) <= limit])
    return kept


_NORMAL_MAD = 1.4826
"""Makes the median absolute deviation of normal values their standard deviation."""
