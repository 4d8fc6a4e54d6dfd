"""How much faster one configuration is than another for a profile, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from pydantic import BaseModel, ConfigDict

CONFIDENCE = 0.95


class Gain(BaseModel):
    """A ratio to the baseline: 1.42 means that the profile's work is done 1.42 times as fast."""

    model_config = ConfigDict(frozen=True)

    ratio: float
    low: float | None = None
    """Lower end of the 95 % interval; None where launches were not repeated."""
    high: float | None = None

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
        interval = f"({self.low:.{digits}f} to {self.high:.{digits}f})"
        if self.low <= 1 <= self.high:
            return f"no measurable difference: {self.ratio:.2f}x baseline {interval}"
        return f"{self.ratio:.2f}x baseline {interval}"


def gain(scores: Sequence[Sequence[float]], candidate: int, baseline: int) -> Gain:
    """The gain of one group of launches over another.

    Args:
        scores: for each configuration the log scores of its launches; none of them empty for the two compared.
        candidate: index of the configuration in question.
        baseline: index of the configuration it is compared with.

    The interval counts the spread between launches, since that is what a user meets. Its variance is pooled over all
    configurations, and Student's t has the pooled degrees of freedom: with two launches each, a pair alone would have
    too few. Without any repeated launch there is no interval.
    """
    ours, theirs = scores[candidate], scores[baseline]
    difference = fmean(ours) - fmean(theirs)
    freedom = sum(max(0, len(group) - 1) for group in scores)
    if freedom == 0 or candidate == baseline:
        return Gain(ratio=math.exp(difference))
    squares = sum((value - fmean(group)) ** 2 for group in scores if group for value in group)
    error = math.sqrt(squares / freedom * (1 / len(ours) + 1 / len(theirs)))
    # Imported late, and not as scipy.stats.t, which alone takes a second to load.
    from scipy.special import stdtrit

    margin = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error
    return Gain(ratio=math.exp(difference), low=math.exp(difference - margin), high=math.exp(difference + margin))
