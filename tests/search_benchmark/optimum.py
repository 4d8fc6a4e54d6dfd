"""The best that a rig has for a profile, free of noise: what a search's regret is counted from.

The spaces have up to 10^13 configurations, so not all of them are enumerated: from many starts every single change and
then every pair of changes is tried, until none of them is better. Where several starts end in the same place, nothing
within two changes of it is better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations

import numpy as np

from tests.search_benchmark.simulated import Simulated
from tuner.domain.configuration import Configuration
from tuner.domain.measurement import Measurement
from tuner.domain.profile import Profile
from tuner.search.canonical import Canonical, CanonicalSpace

_STARTS = 40
_PAIRED = 3
"""Of the ends of the climbs those from which pairs are tried."""


class Optimum:
    """Climbs a rig's true surface; what was looked at is remembered for all profiles."""

    def __init__(self, study: Simulated, seed: int = 0) -> None:
        self._study = study
        self._space = CanonicalSpace(study.space)
        self._rng = np.random.default_rng(seed)
        self._known: dict[Canonical, Measurement | None] = {}

    def best(self, profile: Profile) -> tuple[float, Configuration]:
        """The highest log score that was found, and where."""
        defaults = self._space.complete(list(self._space.defaults))
        places = {name: place for place, name in enumerate(self._space.names)}
        starts = [defaults]
        for seed in self._study.space.seeds:
            changes = {places[name]: value for name, value in seed.values.items() if name in places}
            starts.append(self._space.changed(defaults, changes))
        starts += [self._space.random(self._rng) for _ in range(_STARTS)]
        ends = {self._climbed(profile, start, self._space.neighbours) for start in starts}
        ranked = sorted(ends, key=lambda end: -self._score(profile, end))[:_PAIRED]
        found = max((self._climbed(profile, end, self._pairs) for end in ranked), key=lambda e: self._score(profile, e))
        return self._score(profile, found), Configuration(values=self._space.values(found))

    def front(self) -> list[Measurement]:
        """Everything that was looked at and runs; the true front lies among it."""
        return [measurement for measurement in self._known.values() if measurement is not None]

    def _climbed(
        self, profile: Profile, start: Canonical, near: Callable[[Canonical], Iterable[Canonical]]
    ) -> Canonical:
        at, score = start, self._score(profile, start)
        while True:
            better = [(self._score(profile, one), one) for one in near(at)]
            best = max(better, default=(-math.inf, at), key=lambda pair: pair[0])
            if best[0] <= score + 1e-9:
                return at
            score, at = best

    def _pairs(self, canonical: Canonical) -> Iterator[Canonical]:
        """Every change of one or two parameters that keeps the rules."""
        yield from self._space.neighbours(canonical)
        active = [index for index in self._space.free if canonical[index] is not None]
        for a, b in combinations(active, 2):
            for one in self._space.domains[a]:
                for other in self._space.domains[b]:
                    if one != canonical[a] and other != canonical[b]:
                        found = self._space.changed(canonical, {a: one, b: other})
                        if self._space.keeps_rules(found):
                            yield found

    def _score(self, profile: Profile, canonical: Canonical) -> float:
        if canonical not in self._known:
            measured = self._study.measured(Configuration(values=self._space.values(canonical)))
            runs = self._space.keeps_rules(canonical) and self._study.fails(measured) is None
            self._known[canonical] = self._study.true_cells(measured) if runs else None
        measurement = self._known[canonical]
        if measurement is None or profile.unmet_needs(measurement):
            return -math.inf
        score = profile.log_score(measurement, self._study.workload.depths)
        return -math.inf if score is None else score
