"""What the tuner's sampler is compared with: Optuna's own, chance, and what people do by hand."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from tests.search_benchmark.simulated import Simulated
from tuner.domain.profile import Profile
from tuner.domain.space import SearchSpace
from tuner.domain.workload import Workload
from tuner.search.distributions import distributions, to_optuna
from tuner.search.records import record_of
from tuner.search.samplers import SamplerFactory, make_sampler


def tpe_defaults(seed: int) -> BaseSampler:
    """Optuna's TPE as it comes: parameters apart, ten random trials first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TPESampler(seed=seed)


BELIEVING = ("composite",)
"""Strategies of which the model chooses what is recommended; of the others it is the best that was measured."""


class OneFlagAtATime(BaseSampler):
    """By hand: the best so far (for the first profile), one flag changed after the other, every value of it tried."""

    def __init__(self, space: SearchSpace, profile: Profile, workload: Workload, seed: int) -> None:
        self._space, self._profile, self._workload = space, profile, workload
        self._distributions = distributions(space)
        self._random = RandomSampler(seed)
        self._plan: list[tuple[str, Any]] = []

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:  # noqa: ARG002
        return self._distributions

    def sample_relative(
        self,
        study: Study,
        trial: FrozenTrial,  # noqa: ARG002
        search_space: dict[str, BaseDistribution],  # noqa: ARG002
    ) -> dict[str, Any]:
        if not self._plan:
            self._plan = [(n, v) for n, d in self._distributions.items() for v in _values(d)]
        name, value = self._plan.pop(0)
        return self._best(study) | {name: value}

    def sample_independent(self, study: Study, trial: FrozenTrial, name: str, distribution: BaseDistribution) -> Any:
        return self._random.sample_independent(study, trial, name, distribution)

    def _best(self, study: Study) -> dict[str, Any]:
        scored = []
        for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
            record = record_of(trial)
            if record is None or record.measurement is None or self._profile.unmet_needs(record.measurement):
                continue
            score = self._profile.log_score(record.measurement, self._workload.depths)
            if score is not None:
                scored.append((score, record.number, record.configuration.values))
        return dict(to_optuna(self._space, max(scored)[2] if scored else {}))


def _values(distribution: BaseDistribution) -> list[Any]:
    if isinstance(distribution, CategoricalDistribution):
        return list(distribution.choices)
    if isinstance(distribution, IntDistribution):
        return list(range(distribution.low, distribution.high + 1))
    assert isinstance(distribution, FloatDistribution)
    return [distribution.low, (distribution.low + distribution.high) / 2, distribution.high]


def strategies() -> dict[str, Callable[[Simulated], SamplerFactory]]:
    """Name -> the factory of its sampler for a study."""

    def named(name: str) -> Callable[[Simulated], SamplerFactory]:
        return lambda study: make_sampler(name, study.space, study.profiles, study.workload)

    def by_hand(study: Simulated) -> SamplerFactory:
        return lambda seed: OneFlagAtATime(study.space, study.profiles[0], study.workload, seed)

    found: dict[str, Callable[[Simulated], SamplerFactory]] = {
        "random": named("random"),
        "by hand": by_hand,
        "tpe defaults": lambda _: tpe_defaults,
        "tpe": named("tpe"),
        "composite": named("composite"),
    }
    if find_spec("torch") is not None:
        found["gp"] = named("gp")
    return found
