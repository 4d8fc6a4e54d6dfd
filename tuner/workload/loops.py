"""How much of a text repeats itself: a broken or badly quantised model goes round in circles."""

from __future__ import annotations

import re

_UNIT = re.compile(r"[^\W\d_\u2e80-\uffff]+|\d|[\u2e80-\uffff]|[^\w\s]|_")
"""A word, a digit, a Chinese character or a mark."""
_LENGTH = 6
"""Units in an n-gram: shorter ones return in any honest code or JSON."""
_LEAST_NGRAMS = 8
"""A text with fewer says nothing."""


def repeated_share(text: str) -> float | None:
    """The share of a text's n-grams that it already contained earlier, 0 to 1; None for a text that is too short."""
    units = _UNIT.findall(text)
    count = len(units) - _LENGTH + 1
    if count < _LEAST_NGRAMS:
        return None
    distinct = len({tuple(units[place : place + _LENGTH]) for place in range(count)})
    return 1 - distinct / count
