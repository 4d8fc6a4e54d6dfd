"""The composite sampler: Gaussian processes on what was measured, from which every profile's gain follows.

One process for the logarithm of prefill, one for that of decode, over features of what the engine really does with the
values. A profile's log score is a linear mix of them and of the context, so its expected improvement is a closed form;
half of the proposals serve the study's profiles in turn, half random weights, which is the Pareto front. A candidate's
worth is its expected improvement times the chance that it fits into memory times the chance that nothing else goes
wrong, divided by the time that it is expected to take. What was measured or has failed is never proposed again.

The sampler keeps nothing between two asks: the same told trials give the same proposal, also after a restart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from tuner.domain.configuration import Value
from tuner.domain.profile import Profile
from tuner.domain.record import TrialRecord
from tuner.domain.space import SearchSpace
from tuner.domain.workload import Workload
from tuner.search.candidates import CandidateSearch
from tuner.search.canonical import Canonical, CanonicalSpace
from tuner.search.distributions import distributions, from_optuna, to_optuna
from tuner.search.evidence import Aim
from tuner.search.features import Features
from tuner.search.learned import Learned
from tuner.search.records import record_of
from tuner.search.space import complete

Compared = Callable[[Sequence[TrialRecord]], list[TrialRecord]]
"""The search's records -> the same as they compare with each other, the machine's drift taken out."""


def unheard(message: str) -> None:
    """Where nobody listens to what a sampler has to say."""


class CompositeSampler(BaseSampler):
    """See the module. `note` is told once when `fallback` had to step in because the model failed."""

    def __init__(
        self,
        space: SearchSpace,
        profiles: Sequence[Profile],
        workload: Workload,
        fallback: BaseSampler,
        note: Callable[[str], None] = unheard,
        compared: Compared = list,
    ) -> None:
        self._told_space = space
        self._space = CanonicalSpace(space)
        self._features = Features(self._space)
        self._profiles, self._workload = tuple(profiles), workload
        self._fallback, self._note, self._compared = fallback, note, compared
        self._noted = False

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:  # noqa: ARG002
        return distributions(self._told_space)

    def sample_relative(
        self,
        study: Study,
        trial: FrozenTrial,
        search_space: dict[str, BaseDistribution],  # noqa: ARG002
    ) -> dict[str, Any]:
        records, drafted = _told(study)
        records = self._compared(records)
        try:
            learned = Learned.of(self._space, self._features, self._profiles, self._workload, records)
            if learned is not None:
                found = self._propose(learned, records, {self._canonical(params) for params in drafted})
                return {} if found is None else dict(to_optuna(self._told_space, self._space.values(found)))
        except (np.linalg.LinAlgError, FloatingPointError) as error:
            self._say(f"the search's model could not be fitted ({error}): Optuna's TPE proposes instead")
        inferred = self._fallback.infer_relative_search_space(study, trial)
        return self._fallback.sample_relative(study, trial, inferred)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._fallback.sample_independent(study, trial, param_name, param_distribution)

    def _canonical(self, params: Mapping[str, Value]) -> Canonical:
        return self._space.of(complete(self._told_space, from_optuna(self._told_space, params)))

    def _propose(self, learned: Learned, records: Sequence[TrialRecord], drafted: set[Canonical]) -> Canonical | None:
        """The most promising configuration that is not known; None when there is none left to find."""
        rng = _generator(records, len(drafted))
        aim, output = _aim(learned, rng)
        search = CandidateSearch(self._space, learned, aim, output, rng, learned.evidence.known | drafted)
        return search.best()

    def _say(self, message: str) -> None:
        if not self._noted:
            self._noted = True
            self._note(message)


def _aim(learned: Learned, rng: np.random.Generator) -> tuple[Aim, int]:
    """Whom the next proposal serves: the profiles in turn, or random weights; and its output in the processes."""
    turn, profiles = len(learned.evidence.launched), len(learned.aims) - 1
    # A single profile needs the front less.
    serves_front = turn % 2 == 1 if profiles > 1 else turn % 4 == 3
    if not serves_front:
        place = (turn // 2) % profiles
        return learned.aims[place], place
    prefill, decode, context = rng.dirichlet([1.0, 1.0, 0.5])
    return replace(learned.aims[-1], prefill=prefill, decode=decode, context=context), profiles


def _told(study: Study) -> tuple[list[TrialRecord], list[dict[str, Value]]]:
    """The records of all told trials, and the parameters that were drafted since the last of them."""
    records: list[TrialRecord] = []
    drafted: list[dict[str, Value]] = []
    for trial in study.get_trials(deepcopy=False):
        record = record_of(trial)
        if record is not None:
            records.append(record)
            drafted = []
        elif trial.state is not TrialState.RUNNING:
            drafted.append(trial.params)
    return records, drafted


def _generator(records: Sequence[TrialRecord], drafted: int) -> np.random.Generator:
    """Random numbers that follow from what was told: alike after a restart, different after every trial."""
    told = [(r.number, r.configuration.fingerprint, r.verdict.outcome if r.verdict else "") for r in records]
    digest = hashlib.sha256(f"{told} {drafted}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))
