"""How much faster one configuration is than another for a profile, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

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
_OTHER_KIND = 3.0
"""A pair whose variance is so many times that of all others is judged by itself."""
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


def gain(
    scores: Sequence[Sequence[float]],
    candidate: int,
    baseline: int,
    *,
    sessions: Sequence[Sequence[int]] | None = None,
    comparisons: int = 1,
    confidence: float = CONFIDENCE,
) -> Gain:
    """The gain of one group of launches over another.

    Args:
        scores: for each configuration the log scores of its launches; none of them empty for the two compared.
        candidate: index of the configuration in question.
        baseline: index of the configuration it is compared with.
        sessions: for each launch the session in which it was made; None: all in one. What all launches of a session
            have in common (another day, another room temperature) is taken out.
        comparisons: how many such gains are told together. Their intervals hold together, by Bonferroni's rule: each
            alone is wider, so that of five profiles not one in five is a winner by luck.
        confidence: of all intervals together.

    The interval counts the spread between launches, since that is what a user meets. Its variance is pooled over all
    configurations, and Student's t has the pooled degrees of freedom: with two launches each, a pair alone would have
    too few. It is never less than the pair's own. Without any repeated launch there is no interval.
    """
    fitted, outliers = _fitted(scores, candidate, baseline, sessions)
    ratio = math.exp(fitted.difference)
    ends = fitted.interval(comparisons, confidence)
    if ends is None or candidate == baseline:
        return Gain(ratio=ratio, outliers=outliers)
    return Gain(ratio=ratio, low=math.exp(ends[0]), high=math.exp(ends[1]), outliers=outliers)


def is_open(
    scores: Sequence[Sequence[float]],
    candidate: int,
    baseline: int,
    *,
    sessions: Sequence[Sequence[int]] | None = None,
    comparisons: int = 1,
) -> bool:
    """Whether more launches could still show a gain that is worth it, or take one away that is not proven yet."""
    fitted, _ = _fitted(scores, candidate, baseline, sessions)
    strictly = fitted.interval(comparisons, EARLY_CONFIDENCE)
    usually = fitted.interval(comparisons, CONFIDENCE)
    if candidate == baseline or strictly is None or usually is None:
        return False
    return strictly[0] <= 0 and usually[1] > math.log(_WORTH)


def outlying(scores: Sequence[Sequence[float]]) -> list[list[int]]:
    """For each group the places of the launches that lie far from their own group.

    The spread is judged over all groups together. Where more than a quarter of a group lies far, that is how the
    configuration behaves and no accident: nothing of it is left out.
    """
    deviations = [abs(value - median(group)) for group in scores if len(group) > 1 for value in group]
    spread = _NORMAL_MAD * median(deviations) if deviations else 0.0
    found = []
    for group in scores:
        limit = _FAR * spread if spread > 0 and len(group) >= _LEAST_GROUP else math.inf
        far = [place for place, value in enumerate(group) if abs(value - median(group)) > limit]
        found.append(far if len(far) <= len(group) // 4 else [])
    return found


def _fitted(
    scores: Sequence[Sequence[float]], candidate: int, baseline: int, sessions: Sequence[Sequence[int]] | None
) -> tuple[_Fit, int]:
    """The comparison of two groups, and how many of their launches were left out of it."""
    far = outlying(scores)
    places = [[i for i in range(len(group)) if i not in out] for group, out in zip(scores, far, strict=True)]
    kept = [[group[i] for i in inside] for group, inside in zip(scores, places, strict=True)]
    when = [[0 if sessions is None else sessions[g][i] for i in inside] for g, inside in enumerate(places)]
    return _Fit.of(kept, when, candidate, baseline), sum(len(far[place]) for place in {candidate, baseline})


@dataclass(frozen=True)
class _Fit:
    """Least squares: a launch's score is that of its configuration and that of its session, and noise."""

    difference: float
    error: float
    """Standard error of the difference."""
    freedom: int

    def interval(self, comparisons: int, confidence: float) -> tuple[float, float] | None:
        """Of the difference, by Student's t; None where nothing was repeated."""
        if self.freedom == 0:
            return None
        # Imported late, and not as scipy.stats.t, which alone takes a second to load.
        from scipy.special import stdtrit

        share = 1 - (1 - confidence) / max(1, comparisons)
        margin = float(stdtrit(self.freedom, (1 + share) / 2)) * self.error
        return self.difference - margin, self.difference + margin

    @classmethod
    def of(
        cls, scores: Sequence[Sequence[float]], sessions: Sequence[Sequence[int]], candidate: int, baseline: int
    ) -> _Fit:
        import numpy as np

        rows = [
            (g, when, value) for g, group in enumerate(scores) for when, value in zip(sessions[g], group, strict=True)
        ]
        groups, values = np.array([row[0] for row in rows]), np.array([row[2] for row in rows])
        names = sorted({row[1] for row in rows})
        design = np.zeros((len(rows), len(scores) + len(names) - 1))
        design[np.arange(len(rows)), groups] = 1.0
        for column, name in enumerate(names[1:], len(scores)):
            design[:, column] = [row[1] == name for row in rows]
        contrast = np.zeros(design.shape[1])
        contrast[candidate] += 1.0
        contrast[baseline] -= 1.0
        inverse = np.linalg.pinv(design)
        if len(names) > 1 and not np.allclose(contrast @ inverse @ design, contrast, atol=1e-6):
            # They were never launched in one session: all that is left is to compare across.
            return cls.of(scores, [[0] * len(group) for group in scores], candidate, baseline)
        rest = values - design @ (inverse @ values)
        freedom = len(rows) - int(np.linalg.matrix_rank(design))
        weights = contrast @ inverse
        variance = float(rest @ rest) / freedom if freedom else 0.0
        pair = np.isin(groups, (candidate, baseline))
        own_freedom = int(pair.sum()) - 2
        if own_freedom > 0:
            own = float(rest[pair] @ rest[pair]) / own_freedom
            others = float(rest[~pair] @ rest[~pair]) / max(1, freedom - own_freedom)
            # The steadiness of others says nothing of two that differ so much more from themselves.
            freedom = own_freedom if freedom > own_freedom and own > _OTHER_KIND * others else freedom
            variance = max(variance, own)
        return cls(float(weights @ values), math.sqrt(variance * float(weights @ weights)), freedom)


_NORMAL_MAD = 1.4826
"""Makes the median absolute deviation of normal values their standard deviation."""
