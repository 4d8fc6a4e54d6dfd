"""What can be said of a configuration without launching anything."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

import numpy as np

from tuner.domain.configuration import Configuration, Value
from tuner.domain.errors import BadInput
from tuner.domain.space import Parameter, Rule, SearchSpace
from tuner.search.expressions import evaluate


def complete(space: SearchSpace, values: Mapping[str, Value]) -> Configuration:
    """The configuration that `values` and the defaults make: parameters switched off by `when` are left out.

    Two sets of values with the same completion are the same configuration: the engine would not see a difference.

    Raises:
        BadInput: a name or a value that the space does not have.
    """
    for name, value in values.items():
        _check(space, name, value)
    full = {parameter.name: values.get(parameter.name, parameter.default) for parameter in space.parameters}
    while True:
        seen = _with_absent(space, full)
        active = {name: value for name, value in full.items() if _is_active(space.by_name[name], seen)}
        if active == full:
            return Configuration(values=active)
        full = active


def _with_absent(space: SearchSpace, values: Mapping[str, Value]) -> dict[str, Value | None]:
    """The values, and None for every parameter that is switched off."""
    return {**dict.fromkeys(space.by_name), **values}


def _is_active(parameter: Parameter, values: Mapping[str, Value | None]) -> bool:
    return parameter.when is None or evaluate(parameter.when, values) is True


def _check(space: SearchSpace, name: str, value: Value) -> None:
    parameter = space.by_name.get(name)
    if parameter is None:
        nearest = get_close_matches(name, space.by_name, n=1)
        advice = f"did you mean `{nearest[0]}`?" if nearest else f"it has: {', '.join(space.by_name)}"
        raise BadInput(f"The search space has no parameter `{name}`", advice=advice)
    if not parameter.contains(value):
        domain = parameter.choices if parameter.choices is not None else f"{parameter.low} to {parameter.high}"
        raise BadInput(f"Parameter `{name}` cannot be {value!r}; it can be: {domain}")


def violations(space: SearchSpace, configuration: Configuration) -> list[Rule]:
    """The rules that a configuration breaks. A rule about a parameter that is switched off is met."""
    values = _with_absent(space, configuration.values)
    return [rule for rule in space.rules if evaluate(rule.require, values) is False]


def random_values(space: SearchSpace, rng: np.random.Generator) -> dict[str, Value]:
    """One independent, uniform value for every parameter."""
    return {parameter.name: _random_value(parameter, rng) for parameter in space.parameters}


def _random_value(parameter: Parameter, rng: np.random.Generator) -> Value:
    if parameter.choices is not None:
        return parameter.choices[int(rng.integers(len(parameter.choices)))]
    assert parameter.low is not None
    assert parameter.high is not None
    if isinstance(parameter.low, int) and isinstance(parameter.high, int):
        return int(rng.integers(parameter.low, parameter.high + 1))
    return float(rng.uniform(parameter.low, parameter.high))
