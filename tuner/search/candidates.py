"""The search for the best candidate: random ones, changed good ones, and then one parameter after the other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from tuner.search.canonical import Canonical, CanonicalSpace
from tuner.search.evidence import Aim
from tuner.search.learned import Learned

Array = NDArray[np.float64]

_RANDOM, _CHANGED = 300, 400
"""Candidates drawn at random, and near the best that were measured."""
_PARENTS = 8
_IMPROVED, _ROUNDS = 3, 3
"""Of these the best few are improved one parameter at a time, for so many rounds."""
_LEAST_CHANCE = 1e-9
_LEAST_LIKELY, _UNLIKELY = 0.25, -100.0
"""What is less likely to come to its end than this is proposed only where nothing else is left: once the rest is nearly
exhausted, hope alone would go on launching what has always failed."""
_WORTH = 0.01
"""What a gain must exceed to count, as a logarithm: else the search would chase noise among its best ones."""


class CandidateSearch:
    """One proposal: maximises, over what is not `known`, the expected improvement times the chance of coming to an end,
    per second that the launch takes."""

    def __init__(
        self,
        space: CanonicalSpace,
        learned: Learned,
        aim: Aim,
        output: int,
        rng: np.random.Generator,
        known: set[Canonical],
    ) -> None:
        self._space, self._learned, self._aim, self._output = space, learned, aim, output
        self._rng = rng
        self._seen = set(known)
        measured = [
            canonical for canonical in learned.evidence.configurations if learned.evidence.meets(canonical, aim)
        ]
        self._measured = measured or learned.evidence.configurations
        self._scores = learned.predict(self._measured, aim, output).mean
        # While nothing meets the needs, everything that does is an improvement.
        self._incumbent = float(self._scores.max() if measured else self._scores.min())

    def best(self) -> Canonical | None:
        """The candidate with the highest worth; None when nothing new was found."""
        candidates = self._new([*self._random(), *self._changed()])
        worth = self._worth(candidates)
        for _ in range(_ROUNDS):
            order = np.argsort(-worth, kind="stable")[:_IMPROVED]
            nearby = self._new(near for place in order for near in self._space.neighbours(candidates[place]))
            if not nearby:
                break
            best_before = worth.max(initial=-math.inf)
            candidates, worth = candidates + nearby, np.concatenate([worth, self._worth(nearby)])
            if worth.max() <= best_before:
                break
        return candidates[int(np.argmax(worth))] if candidates else None

    def _random(self) -> Iterable[Canonical]:
        return (self._space.random(self._rng) for _ in range(_RANDOM))

    def _changed(self) -> Iterable[Canonical]:
        """Good configurations with one to three values changed, some of them taken from another good one."""
        order = np.argsort(-self._scores, kind="stable")[:_PARENTS]
        parents = [self._space.snapped(self._measured[place]) for place in order]
        rng = self._rng
        for _ in range(_CHANGED):
            parent = parents[int(rng.integers(len(parents)))]
            count = 1 + int(rng.integers(3))
            other = parents[int(rng.integers(len(parents)))] if rng.random() < 0.3 else None
            changes = {}
            for index in rng.choice(self._space.free, size=min(count, len(self._space.free)), replace=False):
                domain = self._space.domains[index]
                inherited = None if other is None else other[index]
                changes[int(index)] = domain[int(rng.integers(len(domain)))] if inherited is None else inherited
            yield self._space.changed(parent, changes)

    def _new(self, candidates: Iterable[Canonical]) -> list[Canonical]:
        """Those that were not seen yet, keep the rules and meet the aim's needs."""
        kept = []
        for candidate in candidates:
            if candidate in self._seen:
                continue
            self._seen.add(candidate)
            if self._space.keeps_rules(candidate) and self._learned.evidence.meets(candidate, self._aim):
                kept.append(candidate)
        return kept

    def _worth(self, candidates: Sequence[Canonical]) -> Array:
        """Logarithm of expected improvement times chance, per second that it costs."""
        if not candidates:
            return np.empty(0)
        found = self._learned.predict(candidates, self._aim, self._output)
        deviation = np.maximum(found.deviation, 1e-9)
        improvement = log_improvement((found.mean - self._incumbent - _WORTH) / deviation) + np.log(deviation)
        unlikely = np.where(found.chance < _LEAST_LIKELY, _UNLIKELY, 0.0)
        return improvement + np.log(np.maximum(found.chance, _LEAST_CHANCE)) + unlikely - found.cost


def log_improvement(z: Array) -> Array:
    """Logarithm of the expected improvement of a standard normal above -z, also where it underflows."""
    density = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    plain = density + z * ndtr(z)
    # The expansion of the tail: exact enough from five standard deviations on.
    far = -0.5 * z * z - 0.5 * math.log(2 * math.pi) - 2 * np.log(np.maximum(np.abs(z), 1.0))
    return np.where(z > -5, np.log(np.maximum(plain, 1e-300)), far)
