"""How far repeated measurements of one thing lie apart: an interval of their median, and which of them are outliers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

_RESAMPLES = 1000
_CONFIDENCE = 0.95
_FAR = 5.0
"""So many robust standard deviations away is an outlier: by the median absolute deviation, as hyperfine does it."""
_LEAST_DEVIATION = 0.01
"""Of the median. Values that hardly differ at all have no outliers, however small their deviation is."""
_NORMAL_MAD = 1.4826
"""Makes the median absolute deviation of normal values their standard deviation."""


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % bootstrap interval of the median, in the values' unit; None for fewer than two.

    The same values give the same interval. Of fewer than six values it is about their whole range, which covers the
    true median less often than it says (two values: one time in two); that is told by their number.
    """
    if len(values) < 2:
        return None
    import numpy as np

    rng = np.random.default_rng(0)
    drawn = rng.choice(np.asarray(values, dtype=float), size=(_RESAMPLES, len(values)))
    low, high = np.quantile(np.median(drawn, axis=1), [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2])
    return float(low), float(high)


def relative_half_width(values: Sequence[float]) -> float | None:
    """Half the width of the median's interval, as a share of the median; None for fewer than two values."""
    interval = median_interval(values)
    middle = median(values) if values else 0.0
    return None if interval is None or middle <= 0 else (interval[1] - interval[0]) / 2 / middle


def outliers(values: Sequence[float]) -> list[int]:
    """The places of the values that lie far from all others; none among fewer than three.

    Where more than a quarter of them do, it is how the thing behaves and no accident: then none is an outlier.
    """
    if len(values) < 3:
        return []
    middle = median(values)
    deviations = [abs(value - middle) for value in values]
    limit = _FAR * max(_NORMAL_MAD * median(deviations), _LEAST_DEVIATION * abs(middle))
    far = [place for place, deviation in enumerate(deviations) if deviation > limit]
    return far if len(far) <= max(1, len(values) // 4) else []


def geometric_mean(values: Sequence[float | None]) -> float | None:
    """The geometric mean of values above zero; None where one is missing or there is none."""
    known = [value for value in values if value is not None and value > 0]
    if not known or len(known) < len(values):
        return None
    return math.exp(sum(map(math.log, known)) / len(known))
