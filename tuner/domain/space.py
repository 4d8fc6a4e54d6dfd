"""The search space of one study: parameters, rules and seeds, resolved for one machine, model and engine build."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from pydantic import BaseModel, ConfigDict

from tuner.domain.configuration import Value

UNSET = "unset"
"""The value that leaves a flag or a variable out."""


class Parameter(BaseModel):
    """One thing that may be changed. Exactly one of `choices` and (`low`, `high`) is set."""

    model_config = ConfigDict(frozen=True)

    name: str
    about: str
    """One line that a person learns from."""
    target: Literal["flag", "switch", "environment", "model", "binary", "power_cap"] = "flag"
    """What a value is applied to. A switch is a pair of flags without a value."""
    flag: str | None = None
    """The flag's long spelling; for a switch the spelling that turns it on."""
    off_flag: str | None = None
    """For a switch: the spelling that turns it off."""
    environment: str | None = None
    """The variable's name, for an environment parameter. The value `unset` leaves it out."""
    cards: tuple[str, ...] = ()
    """For a power cap: the keys of the cards that are held to it, see `GpuIdentity.key`."""
    unit: str | None = None
    choices: tuple[Value, ...] | None = None
    low: int | float | None = None
    high: int | float | None = None
    log: bool = False
    default: Value
    """What the engine does when it is not told; lies in the domain."""
    when: str | None = None
    """An expression over other parameters; while it is false this one is absent."""
    role: Literal["context", "streams"] | None = None
    """What the tuner itself must know about a parameter: it sets the context, or the number of parallel streams."""

    def contains(self, value: Value) -> bool:
        """Whether `value` lies in the domain."""
        if self.choices is not None:
            return any(type(value) is type(choice) and value == choice for choice in self.choices)
        if isinstance(value, str | bool) or self.low is None or self.high is None:
            return False
        return self.low <= value <= self.high


class Rule(BaseModel):
    """A condition that every configuration must meet, with its reason."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    require: str
    because: str


class Seed(BaseModel):
    """A configuration worth trying early, given as its differences from the defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    because: str
    values: dict[str, Value]


class Dropped(BaseModel):
    """Something of the space file that does not apply here, and why."""

    model_config = ConfigDict(frozen=True)

    name: str
    reason: str


class SearchSpace(BaseModel):
    """What a study searches. Frozen when the study is created: the domain never changes afterwards."""

    model_config = ConfigDict(frozen=True)

    engine: str
    parameters: tuple[Parameter, ...]
    rules: tuple[Rule, ...] = ()
    seeds: tuple[Seed, ...] = ()
    dropped: tuple[Dropped, ...] = ()

    @cached_property
    def by_name(self) -> dict[str, Parameter]:
        """Parameter name -> parameter."""
        return {parameter.name: parameter for parameter in self.parameters}

    def with_role(self, role: str) -> Parameter | None:
        """The parameter that plays `role`, if the space has one."""
        return next((parameter for parameter in self.parameters if parameter.role == role), None)

    def changes_to(self, now: SearchSpace) -> list[str]:
        """What another space can try and this one cannot, or the other way round, in words."""
        told = []
        for name in dict.fromkeys([*now.by_name, *self.by_name]):
            then, today = self.by_name.get(name), now.by_name.get(name)
            if then is None or today is None:
                told.append(f"{name} can {'be tuned now' if then is None else 'not be tuned any more'}")
                continue
            choices = set(then.choices or ()), set(today.choices or ())
            told += [f"{name} can be {value} now" for value in sorted(map(str, choices[1] - choices[0]))]
            told += [f"{name} cannot be {value} any more" for value in sorted(map(str, choices[0] - choices[1]))]
        return told
