"""What a model sees of a configuration: for each parameter a few numbers between 0 and 1, near where effects are near.

Numbers are scaled, in logarithms where they span a factor of four; shares become shares; words that list several things
are told apart by what they list and by what comes first; types like `q8_0` also by their bits; among numbers a word
such as `unset` is a direction of its own. Two parameters with the same words (the types of keys and values) get one
more feature: whether they differ. A parameter that is switched off leaves no trace: it stands where its default would.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tuner.domain.configuration import Value
from tuner.search.canonical import Canonical, CanonicalSpace

Columns = tuple[float, ...]
_HALF = math.sqrt(0.5)
"""Two different words are then exactly 1 apart."""
_FIRST = 0.5
_MIDDLE = 0.5
_LOG_SPAN = 4.0


class Features:
    """The features of one space, in groups: one for each parameter that varies, then the derived ones."""

    def __init__(self, space: CanonicalSpace) -> None:
        self._space = space
        self._coders = {index: _coder(space.domains[index]) for index in space.free}
        self._pairs = _alike(space)
        self._known: dict[tuple[int, Value], Columns] = {}
        widths = [len(self._columns(i, space.defaults[i])) for i in space.free] + [1] * len(self._pairs)
        ends = np.cumsum(widths)
        self.groups = [slice(int(end - width), int(end)) for width, end in zip(widths, ends, strict=True)]
        """Which columns belong together."""

    def rows(self, canonicals: Sequence[Canonical]) -> NDArray[np.float64]:
        """One row of features a configuration."""
        if not canonicals:
            return np.empty((0, self.groups[-1].stop if self.groups else 0))
        return np.array([self._row(canonical) for canonical in canonicals])

    def _row(self, canonical: Canonical) -> list[float]:
        row: list[float] = []
        for index in self._space.free:
            value = canonical[index]
            row += self._columns(index, self._space.defaults[index] if value is None else value)
        row += [
            float(None not in (canonical[a], canonical[b]) and canonical[a] != canonical[b]) for a, b in self._pairs
        ]
        return row

    def _columns(self, index: int, value: Value) -> Columns:
        key = (index, value)
        if key not in self._known:
            self._known[key] = self._coders[index](value)
        return self._known[key]


def distances(one: NDArray[np.float64], other: NDArray[np.float64], groups: Sequence[slice]) -> NDArray[np.float64]:
    """Squared distances by group: shape (groups, rows of `one`, rows of `other`)."""
    result = np.zeros((len(groups), len(one), len(other)))
    for place, group in enumerate(groups):
        for column in range(group.start, group.stop):
            difference = one[:, column, None] - other[None, :, column]
            result[place] += difference * difference
    return result


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _coder(domain: tuple[Value, ...]) -> Callable[[Value], Columns]:
    if all(isinstance(value, bool) for value in domain):
        return lambda value: (float(value),)
    if all(_is_number(value) for value in domain):
        return _number_coder([float(value) for value in domain])
    numbers = [float(value) for value in domain if _is_number(value)]
    if len(numbers) > 1:
        return _mixed_coder(numbers, [str(value) for value in domain if not _is_number(value)])
    words = [str(value) for value in domain]
    shares = [_shares(word) for word in words]
    if all(found is not None for found in shares):
        return lambda value: tuple((_shares(str(value)) or [])[:-1])
    return _word_coder(words)


def _number_coder(numbers: list[float]) -> Callable[[Value], Columns]:
    low, high = min(numbers), max(numbers)
    if low > 0 and high / low >= _LOG_SPAN:
        return lambda value: (math.log(max(float(value), 1e-9) / low) / math.log(high / low),)
    return lambda value: ((float(value) - low) / (high - low),)


def _mixed_coder(numbers: list[float], words: list[str]) -> Callable[[Value], Columns]:
    """Numbers and words such as `unset`, which stand beside the middle of the numbers."""
    number, word = _number_coder(numbers), _word_coder(words)
    no_word = tuple(0.0 for _ in word(""))

    def code(value: Value) -> Columns:
        return (*number(value), *no_word) if _is_number(value) else (_MIDDLE, *word(value))

    return code


def _word_coder(words: list[str]) -> Callable[[Value], Columns]:
    parts = sorted({part for word in words for part in word.split(",")})
    lists = any("," in word for word in words)
    bits = [_bits(word) for word in words]
    known = [found for found in bits if found is not None]
    ordered = len(known) == len(words) and len(set(known)) > 1 and not lists
    low, high = (math.log(min(known)), math.log(max(known))) if ordered else (0.0, 1.0)

    def code(value: Value) -> Columns:
        listed = str(value).split(",")
        columns = [_HALF * (part in listed) for part in parts]
        if lists:
            columns += [_FIRST * (part == listed[0]) for part in parts]
        if ordered:
            columns.append((math.log(_bits(str(value)) or min(known)) - low) / (high - low))
        return tuple(columns)

    return code


def _shares(word: str) -> list[float] | None:
    """`40,60` as shares that sum to one; None for anything else."""
    try:
        parts = [float(part) for part in word.split(",")]
    except ValueError:
        return None
    return [part / sum(parts) for part in parts] if len(parts) > 1 and sum(parts) > 0 else None


def _bits(word: str) -> int | None:
    """The number in a type's name: 8 of `q8_0`, 16 of `bf16`."""
    found = re.search(r"[a-z](\d+)", word)
    return int(found[1]) if found and int(found[1]) > 0 else None


def _alike(space: CanonicalSpace) -> list[tuple[int, int]]:
    """Pairs of parameters that take the same words."""
    wordy = [i for i in space.free if len(space.domains[i]) > 2 and all(isinstance(v, str) for v in space.domains[i])]
    return [(a, b) for a in wordy for b in wordy if a < b and space.domains[a] == space.domains[b]]
