"""What was learned from the told trials: processes for prefill, decode, room in memory and failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from tuner.domain.profile import Profile
from tuner.domain.record import TrialRecord
from tuner.domain.workload import Workload
from tuner.search.canonical import Canonical, CanonicalSpace
from tuner.search.evidence import Aim, Evidence
from tuner.search.features import Features
from tuner.search.gaussian_process import GaussianProcess

Array = NDArray[np.float64]

_LEAST_MEASURED = 4
"""With fewer measured trials there is nothing to fit."""
_NOISE = 0.02
"""Expected relative spread of a speed from launch to launch."""
_USELESS = 0.15
"""From so far below the baseline on, as a logarithm, the speed is of little interest."""
_ROOM_NOISE = 0.004
_COST_NOISE, _COSTS_DIFFER = 0.1, 0.1
"""Expected relative spread of a launch's time; from what spread of their logarithms on it is part of the choice."""
_FAILURE_NOISE = 0.2
_MOST_TRIALS = 400
"""Trials that a process is given: beyond, the best and the latest."""
_DOUBT = 0.02
"""Least chance of failure: nothing is certain before it ran."""


@dataclass(frozen=True)
class Prediction:
    """The log score of some configurations for one aim, and the chance that they come to their end."""

    mean: Array
    deviation: Array
    chance: Array
    cost: Array
    """Logarithm of the seconds that a launch takes; the same for all where launches do not differ in it."""


class Learned:
    """The fitted processes of one moment. Raises LinAlgError where they cannot be fitted."""

    def __init__(self, features: Features, profiles: Sequence[Profile], workload: Workload, evidence: Evidence) -> None:
        self.evidence = evidence
        self._features = features
        self.aims = [*(Aim.of(profile, workload) for profile in profiles), Aim.even(profiles, workload)]
        """The profiles' aims in their order, and last the raw metrics."""
        outputs = [evidence.outputs(aim) for aim in self.aims]
        self._baseline = next((place for place, r in enumerate(evidence.measured) if r.is_baseline), None)
        self._prefill = self._speeds(np.column_stack([prefill for prefill, _ in outputs]))
        self._decode = self._speeds(np.column_stack([decode for _, decode in outputs]))
        self._room = self._chances(*evidence.room(), noise=_ROOM_NOISE)
        self._failure = self._chances(*evidence.failures(), noise=_FAILURE_NOISE)
        self._cost = self._costs()

    @classmethod
    def of(
        cls,
        space: CanonicalSpace,
        features: Features,
        profiles: Sequence[Profile],
        workload: Workload,
        records: Sequence[TrialRecord],
    ) -> Learned | None:
        """What these trials teach; None while too few were measured."""
        evidence = Evidence(space, workload, records)
        if len(evidence.measured) < _LEAST_MEASURED or not features.groups:
            return None
        return cls(features, profiles, workload, evidence)

    def predict(self, canonicals: Sequence[Canonical], aim: Aim, output: int) -> Prediction:
        """What an aim would score; `output` is its place among `aims`."""
        x = self._features.rows(canonicals)
        contexts = np.log([max(self.evidence.context(canonical), 1.0) for canonical in canonicals])
        prefill, decode = self._prefill.predict(x), self._decode.predict(x)
        mean = aim.prefill * prefill.mean[:, output] + aim.decode * decode.mean[:, output] + aim.context * contexts
        deviation = np.hypot(aim.prefill * prefill.deviation[:, output], aim.decode * decode.deviation[:, output])
        chance = np.ones(len(canonicals))
        if self._room is not None:
            room = self._room.predict(x)
            chance *= ndtr(room.mean[:, 0] / np.hypot(room.deviation[:, 0], _ROOM_NOISE))
        if self._failure is not None:
            chance *= 1 - np.clip(self._failure.predict(x).mean[:, 0], _DOUBT, 1.0)
        cost = np.zeros(len(canonicals)) if self._cost is None else self._cost.predict(x).mean[:, 0]
        return Prediction(mean, deviation, chance, cost)

    def _speeds(self, table: Array) -> GaussianProcess:
        rows = np.flatnonzero(~np.isnan(table).any(axis=1))
        if len(rows) < _LEAST_MEASURED:
            raise np.linalg.LinAlgError("too few complete measurements")
        if len(rows) > _MOST_TRIALS:
            best = rows[np.argsort(-table[rows].mean(axis=1), kind="stable")[: _MOST_TRIALS // 2]]
            rows = np.unique(np.concatenate([best, rows[-_MOST_TRIALS // 2 :]]))
        x = self._features.rows([self.evidence.configurations[row] for row in rows])
        table = _softened(table, table[rows].min(axis=0) if self._baseline is None else table[self._baseline])
        return GaussianProcess(x, table[rows], self._features.groups, _NOISE, slow_outliers=True)

    def _chances(self, canonicals: Sequence[Canonical], ends: Array, noise: float) -> GaussianProcess | None:
        """A process on what happened; None while only one thing ever happened."""
        kept = slice(-_MOST_TRIALS, None)
        if len(ends) == 0 or np.ptp(ends[kept]) == 0:
            return None
        return GaussianProcess(self._features.rows(canonicals[kept]), ends[kept, None], self._features.groups, noise)

    def _costs(self) -> GaussianProcess | None:
        """A process on what whole launches took; None where that hardly differs."""
        canonicals, costs = self.evidence.costs()
        canonicals, costs = canonicals[-_MOST_TRIALS:], costs[-_MOST_TRIALS:]
        if len(costs) < _LEAST_MEASURED or costs.std() < _COSTS_DIFFER:
            return None
        return GaussianProcess(self._features.rows(canonicals), costs[:, None], self._features.groups, _COST_NOISE)


def _softened(table: Array, baseline: Array) -> Array:
    """Log speeds with what is far below the baseline brought nearer: by how much a cliff is bad is of no use to anyone.

    Without it, one setting that spills into host memory decides what the processes think of all others.
    """
    short = np.maximum(baseline - _USELESS - table, 0.0)
    return np.where(short > 0, baseline - _USELESS - _USELESS * np.log1p(short / _USELESS), table)
