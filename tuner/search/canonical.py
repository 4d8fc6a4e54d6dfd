"""Configurations as tuples in the space's order, None where a parameter is switched off: quick to make and to compare.

The same completion and the same rules as in `space.py`, for the thousands of candidates that a sampler looks at. Every
expression's truth is remembered by the values that it names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tuner.domain.configuration import Configuration, Value
from tuner.domain.space import Parameter, SearchSpace
from tuner.search.expressions import evaluate, parse

Canonical = tuple[Value | None, ...]
"""One value a parameter, in the space's order; None for one that is switched off."""

_RANGE_STEPS = 33
"""Into how many values a continuous range is divided when all values of a parameter are asked for."""


class CanonicalSpace:
    """What a sampler needs to know of a search space."""

    def __init__(self, space: SearchSpace) -> None:
        self.space = space
        self.names = [parameter.name for parameter in space.parameters]
        self.defaults = [parameter.default for parameter in space.parameters]
        self.domains = [_domain(parameter) for parameter in space.parameters]
        self.free = [index for index, domain in enumerate(self.domains) if len(domain) > 1]
        """The parameters that have more than one value."""
        self._whens = [None if p.when is None else _Truth(p.when, self.names) for p in space.parameters]
        self._rules = [_Truth(rule.require, self.names) for rule in space.rules]

    def of(self, configuration: Configuration) -> Canonical:
        """A configuration's tuple."""
        return tuple(configuration.values.get(name) for name in self.names)

    def values(self, canonical: Canonical) -> dict[str, Value]:
        """The inverse: parameter -> value, without what is switched off."""
        return {name: value for name, value in zip(self.names, canonical, strict=True) if value is not None}

    def complete(self, full: list[Value | None]) -> Canonical:
        """The tuple of values for every parameter once `when` has switched some off."""
        while True:
            active = [
                value if value is None or when is None or when.of(full) is True else None
                for value, when in zip(full, self._whens, strict=True)
            ]
            if active == full:
                return tuple(active)
            full = active

    def keeps_rules(self, canonical: Canonical) -> bool:
        """Whether no rule is broken."""
        return all(rule.of(canonical) is not False for rule in self._rules)

    def random(self, rng: np.random.Generator) -> Canonical:
        """Independent, uniform values."""
        return self.complete([domain[int(rng.integers(len(domain)))] for domain in self.domains])

    def changed(self, canonical: Canonical, changes: Mapping[int, Value]) -> Canonical:
        """A tuple with some values changed; what this switches on starts at its default."""
        full: list[Value | None] = [
            default if value is None else value for value, default in zip(canonical, self.defaults, strict=True)
        ]
        for index, value in changes.items():
            full[index] = value
        return self.complete(full)

    def snapped(self, canonical: Canonical) -> Canonical:
        """The tuple with every number that is no value of its parameter, as a context cut by the engine, lowered."""
        full: list[Value | None] = list(canonical)
        for index, value in enumerate(canonical):
            domain = self.domains[index]
            if value is not None and value not in domain:
                lower = [each for each in domain if not isinstance(each, str) and float(each) <= float(value)]
                full[index] = max(lower, key=float, default=domain[0])
        return tuple(full)

    def neighbours(self, canonical: Canonical) -> Iterator[Canonical]:
        """Everything that differs in one active parameter and keeps the rules."""
        for index in self.free:
            if canonical[index] is None:
                continue
            for value in self.domains[index]:
                if value != canonical[index]:
                    found = self.changed(canonical, {index: value})
                    if self.keeps_rules(found):
                        yield found


class _Truth:
    """An expression over parameters, with its truth remembered by the values that it depends on."""

    def __init__(self, text: str, names: list[str]) -> None:
        parsed = parse(text)
        self._text = text
        self._places = [i for i, name in enumerate(names) if name in parsed.names() | parsed.words()]
        self._names = [names[place] for place in self._places]
        self._absent = dict.fromkeys(names)
        self._known: dict[tuple[Value | None, ...], bool | None] = {}

    def of(self, values: list[Value | None] | Canonical) -> bool | None:
        key = tuple([values[place] for place in self._places])
        if key not in self._known:
            self._known[key] = evaluate(self._text, {**self._absent, **dict(zip(self._names, key, strict=True))})
        return self._known[key]


def _domain(parameter: Parameter) -> tuple[Value, ...]:
    """All values; of a continuous range some, evenly spread."""
    if parameter.choices is not None:
        return parameter.choices
    low, high = parameter.low, parameter.high
    assert low is not None
    assert high is not None
    if isinstance(low, int) and isinstance(high, int) and high - low < _RANGE_STEPS * 8:
        return tuple(range(low, high + 1))
    spread = np.geomspace(low, high, _RANGE_STEPS) if parameter.log else np.linspace(low, high, _RANGE_STEPS)
    if isinstance(low, int) and isinstance(high, int):
        return tuple(dict.fromkeys(round(value) for value in spread))
    inner = [float(value) for value in spread[1:-1]]
    # The ends as they are written: a spread in logarithms misses them by a hair.
    return tuple(dict.fromkeys([float(low), *inner, float(parameter.default), float(high)]))
