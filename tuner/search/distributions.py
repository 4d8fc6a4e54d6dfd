"""How a parameter is told to Optuna: numbers in order become an index, words a category.

A parameter with a single value is not told at all: there is nothing to choose.
"""

from __future__ import annotations

from collections.abc import Mapping

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from tuner.domain.configuration import Value
from tuner.domain.space import Parameter, SearchSpace


def distributions(space: SearchSpace) -> dict[str, BaseDistribution]:
    """One flat, immutable space: every parameter in every trial, also those that `when` will switch off."""
    told = {parameter.name: _distribution(parameter) for parameter in space.parameters}
    return {name: distribution for name, distribution in told.items() if distribution is not None}


def to_optuna(space: SearchSpace, values: Mapping[str, Value]) -> dict[str, Value]:
    """Parameter values as Optuna's internal ones, defaults for what `values` leaves out."""
    told: dict[str, Value] = {}
    for name in distributions(space):
        parameter = space.by_name[name]
        value = values.get(name, parameter.default)
        told[name] = _ladder(parameter).index(value) if _is_ladder(parameter) else value
    return told


def from_optuna(space: SearchSpace, params: Mapping[str, Value]) -> dict[str, Value]:
    """The inverse of `to_optuna`; parameters with a single value are added."""
    values: dict[str, Value] = {}
    for parameter in space.parameters:
        if parameter.name not in params:
            values[parameter.name] = parameter.default
        elif _is_ladder(parameter):
            values[parameter.name] = _ladder(parameter)[int(params[parameter.name])]
        else:
            values[parameter.name] = params[parameter.name]
    return values


def _is_ladder(parameter: Parameter) -> bool:
    """Whether the choices are numbers, so that their order means something."""
    return parameter.choices is not None and all(
        isinstance(choice, int | float) and not isinstance(choice, bool) for choice in parameter.choices
    )


def _ladder(parameter: Parameter) -> list[Value]:
    return sorted(parameter.choices or (), key=float)


def _distribution(parameter: Parameter) -> BaseDistribution | None:
    if parameter.choices is not None:
        if len(parameter.choices) == 1:
            return None
        if _is_ladder(parameter):
            return IntDistribution(0, len(parameter.choices) - 1)
        return CategoricalDistribution(parameter.choices)
    low, high = parameter.low, parameter.high
    assert low is not None
    assert high is not None
    if low == high:
        return None
    if isinstance(low, int) and isinstance(high, int):
        return IntDistribution(low, high, log=parameter.log)
    return FloatDistribution(float(low), float(high), log=parameter.log)
