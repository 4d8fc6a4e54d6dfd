"""What a failure says that wants more of one thing, or less: which configurations it rules out, and where to go.

Of a share of memory one failure wants more (no room for a KV cache) and another less (no room to compute): told as mere
failures they would push the search away from both sides at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tuner.domain.configuration import Configuration, Value
from tuner.domain.record import TrialRecord
from tuner.domain.space import Parameter, SearchSpace
from tuner.domain.verdict import Outcome

_MOST_ON_A_LINE = 4
"""Launches that are spent on finding a value between two failures that want the opposite."""


@dataclass(frozen=True)
class Direction:
    """A parameter of a failed launch that must be larger, or smaller."""

    parameter: Parameter
    larger: bool
    at: float
    """The value that failed."""

    def is_no_better(self, value: Value | None) -> bool:
        """Whether a value lies where the launch failed, or beyond."""
        number = _number(value)
        if number is None:
            return False
        return number <= self.at if self.larger else number >= self.at


def directions(space: SearchSpace, record: TrialRecord) -> list[Direction]:
    """Where a failed launch wants to go, as far as the space has the parameters; empty for any other end."""
    explanation = record.verdict.explanation if record.verdict is not None else None
    found: list[Direction] = []
    for move in explanation.moves if explanation is not None else ():
        parameter = next((each for each in space.parameters if each.flag == move.flag), None)
        if parameter is None or parameter.name not in record.configuration.values:
            continue
        number = _number(record.configuration.values[parameter.name])
        at = number if number is not None else move.at
        if at is not None:
            found.append(Direction(parameter, move.larger, at))
    return found


def contradicts(space: SearchSpace, configuration: Configuration, failures: Iterable[TrialRecord]) -> bool:
    """Whether a failure with the same other values says that this one fails too: no better in anything it wanted."""
    for record in failures:
        wanted = directions(space, record)
        moved = {direction.parameter.name for direction in wanted}
        others = set(configuration.differences_from(record.configuration.values)) - moved
        if wanted and not others:
            values = configuration.values
            stays = record.configuration.values
            if all(
                each.is_no_better(values.get(name := each.parameter.name)) or values.get(name) == stays.get(name)
                for each in wanted
            ):
                return True
    return False


@dataclass(frozen=True)
class Step:
    """What to try in place of a value that failed."""

    parameter: Parameter
    value: Value | None
    """None where two failures that want the opposite leave nothing between them: then something else is short."""


def next_on_the_line(space: SearchSpace, record: TrialRecord, records: Sequence[TrialRecord]) -> Step | None:
    """What to try next in place of the value that failed, of the first parameter that the failure names.

    Only that parameter changes. The value lies in the middle of what earlier launches on the same line leave open.
    None where the failure names nothing, or where enough was tried.
    """
    wanted = directions(space, record)
    if not wanted:
        return None
    first = wanted[0]
    line = [each for each in records if _is_on_the_line(first.parameter.name, each, record)]
    if any(each.verdict is not None and each.verdict.outcome is Outcome.OK for each in line):
        return None
    told = [one for each in line for one in directions(space, each) if one.parameter.name == first.parameter.name]
    above = max((one.at for one in told if one.larger), default=None)
    below = min((one.at for one in told if not one.larger), default=None)
    candidates = [
        value
        for value, number in _numbers(first.parameter)
        if (above is None or number > above) and (below is None or number < below)
    ]
    if not candidates:
        return Step(first.parameter, None) if above is not None and below is not None else None
    return Step(first.parameter, candidates[len(candidates) // 2]) if len(line) <= _MOST_ON_A_LINE else None


def _is_on_the_line(name: str, one: TrialRecord, other: TrialRecord) -> bool:
    return set(one.configuration.differences_from(other.configuration.values)) <= {name}


def _numbers(parameter: Parameter) -> list[tuple[Value, float]]:
    """The values of a parameter that are numbers, in order."""
    if parameter.choices is None:
        low, high = parameter.low, parameter.high
        whole = isinstance(low, int) and isinstance(high, int)
        return [(value, float(value)) for value in range(int(low or 0), int(high or 0) + 1)] if whole else []
    numbered = [(choice, number) for choice in parameter.choices if (number := _number(choice)) is not None]
    return sorted(numbered, key=lambda pair: pair[1])


def _number(value: Value | None) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
