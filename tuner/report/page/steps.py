"""What one flag was worth: configurations that differ in that flag alone, held beside each other."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from tuner.domain.configuration import Value
from tuner.domain.measurement import Measurement
from tuner.domain.spread import geometric_mean
from tuner.domain.workload import Workload
from tuner.report.drift import levelled
from tuner.report.page.source import Source

_CONFIDENCE = 0.95
_LEAST_FREEDOM = 2
"""With fewer repeated launches nobody knows the noise."""


@dataclass(frozen=True)
class Effect:
    """By how much a change of one flag made something faster; a ratio."""

    ratio: float
    low: float | None
    high: float | None
    pairs: int
    """Pairs of configurations that differ in nothing else."""
    confirmed: bool
    """Whether all of them were launched in the confirm stage."""

    @property
    def is_measurable(self) -> bool:
        """Whether 1 lies outside of the interval."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high


@dataclass(frozen=True)
class Step:
    """A change of one flag, everything else alike."""

    name: str
    before: Value | None
    now: Value | None
    prefill: Effect | None
    decode: Effect | None

    @property
    def pairs(self) -> int:
        """The pairs it was seen in."""
        return max(effect.pairs for effect in (self.prefill, self.decode) if effect is not None)

    @property
    def size(self) -> float:
        """How far it moved what it moved most: a logarithm."""
        return max(abs(math.log(effect.ratio)) for effect in (self.prefill, self.decode) if effect is not None)


@dataclass
class _Group:
    """One configuration and the logarithms of its launches' speeds."""

    values: Mapping[str, Value]
    speeds: dict[str, list[float]]
    confirmed: dict[str, list[float]]

    def mean(self, metric: str, *, confirmed: bool) -> tuple[float, int] | None:
        found = (self.confirmed if confirmed else self.speeds).get(metric, [])
        return (fmean(found), len(found)) if found else None


def steps(source: Source) -> list[Step]:
    """All changes of one flag that this study happens to show, the largest first.

    What a flag needs to exist at all (the draft's length, where drafting is switched on) goes with it.
    """
    groups = _groups(source)
    noise = {metric: _noise(groups, metric) for metric in ("prefill", "decode")}
    pairs = _pairs(source, groups)
    told = sum(1 for found in pairs.values() if found)
    steps = []
    for (name, before, now), found in pairs.items():
        prefill, decode = (_effect(found, metric, noise[metric], told) for metric in ("prefill", "decode"))
        if prefill is not None or decode is not None:
            steps.append(Step(name, before, now, prefill, decode))
    return sorted(steps, key=lambda step: (-step.size, step.name))


def log_speeds(measurement: Measurement, workload: Workload) -> dict[str, float]:
    """The logarithms of prefill and decode, geometric means over depths and cells; what is incomplete is left out."""
    prefill = geometric_mean([measurement.prefill_at(depth) for depth in workload.depths])
    results = [measurement.result(cell) for cell in workload.cells]
    decode = geometric_mean([result.decode_tps if result is not None else None for result in results])
    return {name: math.log(speed) for name, speed in (("prefill", prefill), ("decode", decode)) if speed is not None}


def _groups(source: Source) -> list[_Group]:
    found: dict[str, _Group] = {}
    searched = levelled(source.searched, source.confirmed)
    for record, confirmed in [*((r, False) for r in searched), *((r, True) for r in source.confirm_launches)]:
        if record.measurement is None or record.verdict is None or not record.verdict.feasible:
            continue
        values = record.configuration.values
        if record.is_baseline and source.baseline is not None:
            values = source.baseline.configuration.values
        key = "baseline" if record.is_baseline else record.configuration.fingerprint
        group = found.setdefault(key, _Group(values, defaultdict(list), defaultdict(list)))
        for metric, speed in log_speeds(record.measurement, source.frozen.workload).items():
            (group.confirmed if confirmed else group.speeds)[metric].append(speed)
    return list(found.values())


def _noise(groups: Sequence[_Group], metric: str) -> tuple[float, int] | None:
    """Variance between launches of one configuration, and its degrees of freedom; None where too few were repeated."""
    repeated = [group.confirmed[metric] for group in groups if len(group.confirmed.get(metric, ())) > 1]
    freedom = sum(len(speeds) - 1 for speeds in repeated)
    if freedom < _LEAST_FREEDOM:
        return None
    return sum(variance(speeds) * (len(speeds) - 1) for speeds in repeated) / freedom, freedom


_Key = tuple[str, Value | None, Value | None]


def _pairs(source: Source, groups: Sequence[_Group]) -> dict[_Key, list[tuple[_Group, _Group]]]:
    """Parameter, value before and after -> the pairs that differ in it alone."""
    found: dict[_Key, list[tuple[_Group, _Group]]] = {}
    for name in source.frozen.space.by_name:
        along = {name, *_dependents(source, name)}
        alike: dict[frozenset[tuple[str, Value]], list[_Group]] = defaultdict(list)
        for group in groups:
            rest = frozenset((other, value) for other, value in group.values.items() if other not in along)
            alike[rest].append(group)
        for together in alike.values():
            for place, one in enumerate(together):
                for other in together[place + 1 :]:
                    first, second = one.values.get(name), other.values.get(name)
                    if type(first) is type(second) and first == second:
                        continue
                    before, after = _ordered(source, name, one, other)
                    key = (name, before.values.get(name), after.values.get(name))
                    found.setdefault(key, []).append((before, after))
    return found


def _dependents(source: Source, name: str) -> set[str]:
    """The parameters that exist only for some values of this one."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    return {parameter.name for parameter in source.frozen.space.parameters if word.search(parameter.when or "")}


def _ordered(source: Source, name: str, one: _Group, other: _Group) -> tuple[_Group, _Group]:
    """The baseline's value first, where one of them is it; else in the order of the search space."""
    parameter = source.frozen.space.by_name[name]
    base = source.baseline.configuration.values.get(name) if source.baseline is not None else None

    def place(group: _Group) -> tuple[int, float]:
        value = group.values.get(name)
        if value is None or value == base:
            return (0, 0.0)
        if parameter.choices is not None:
            return (1, float(parameter.choices.index(value)) if value in parameter.choices else 99.0)
        return (1, float(value)) if isinstance(value, int | float) else (2, 0.0)

    return (one, other) if place(one) <= place(other) else (other, one)


def _effect(
    pairs: Sequence[tuple[_Group, _Group]], metric: str, noise: tuple[float, int] | None, told: int
) -> Effect | None:
    """The mean over the pairs; only those of the confirm stage, where there are any."""
    for confirmed in (True, False):
        known = [
            (ours, theirs)
            for before, after in pairs
            if (theirs := before.mean(metric, confirmed=confirmed))
            and (ours := after.mean(metric, confirmed=confirmed))
        ]
        if known:
            break
    else:
        return None
    changes = [ours[0] - theirs[0] for ours, theirs in known]
    middle = fmean(changes)
    if noise is None:
        return Effect(math.exp(middle), None, None, len(known), confirmed)
    spread, freedom = noise
    error = spread * sum(1 / ours[1] + 1 / theirs[1] for ours, theirs in known) / len(known) ** 2
    if len(changes) > 1 and variance(changes) / len(changes) > error:
        # Beside other flags it is worth something else: that is no noise, and makes the mean less certain.
        error, freedom = variance(changes) / len(changes), len(changes) - 1
    from scipy.special import stdtrit

    share = 1 - (1 - _CONFIDENCE) / max(1, told)
    margin = float(stdtrit(freedom, (1 + share) / 2)) * math.sqrt(error)
    return Effect(math.exp(middle), math.exp(middle - margin), math.exp(middle + margin), len(known), confirmed)
