"""From a configuration to arguments and environment, for every engine that is told its parameters by flags."""

from __future__ import annotations

from tuner.domain.configuration import Configuration, Value
from tuner.domain.space import UNSET, Parameter, SearchSpace


def arguments(space: SearchSpace, configuration: Configuration) -> list[str]:
    """The flags of a configuration, in the order of the space."""
    argv: list[str] = []
    for parameter, value in _pairs(space, configuration):
        if parameter.target in ("flag", "model") and parameter.flag and value != UNSET:
            argv += [parameter.flag, written(value)]
        elif parameter.target == "switch":
            flag = parameter.flag if value else parameter.off_flag
            argv += [flag] if flag else []
    return argv


def environment(space: SearchSpace, configuration: Configuration) -> dict[str, str]:
    """The environment variables of a configuration."""
    return {
        parameter.environment: written(value)
        for parameter, value in _pairs(space, configuration)
        if parameter.environment and value != UNSET
    }


def chosen(space: SearchSpace, configuration: Configuration, target: str) -> str | None:
    """The value of the parameter that stands for a file (`model` or `binary`), if the space has one."""
    for parameter, value in _pairs(space, configuration):
        if parameter.target == target:
            return str(value)
    return None


def written(value: Value) -> str:
    """A value as a command line writes it."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _pairs(space: SearchSpace, configuration: Configuration) -> list[tuple[Parameter, Value]]:
    return [(p, configuration.values[p.name]) for p in space.parameters if p.name in configuration.values]
