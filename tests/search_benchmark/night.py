"""One night: a sampler, a rig and a seed, through the tuner's own pool, and how far it got after so many launches."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import optuna

from tests.search_benchmark.simulated import Night, Simulated
from tuner.domain.configuration import Configuration, Value
from tuner.domain.profile import Profile
from tuner.domain.record import BASELINE_NOTE, TrialRecord
from tuner.search.pool import Proposal, TrialPool
from tuner.search.recommend import believed_scores
from tuner.search.samplers import SamplerFactory
from tuner.search.space import complete
from tuner.study.judge import reference_of, told_objectives

MISFITS_IN_A_ROW = 100
"""As in a study: a search that finds nothing else to propose ends."""


@dataclass(frozen=True)
class Told:
    """What one night came to."""

    records: tuple[TrialRecord, ...]
    launches: int
    wasted_on_memory: int
    seconds: float
    slowest_ask_s: float
    asks_s: float
    recommended: dict[int, dict[str, Configuration | None]]
    """Launches -> profile -> the configuration that would be recommended then."""


def run_night(
    study: Simulated, sampler: SamplerFactory, seed: int, checkpoints: Sequence[int], *, hours: float = math.inf,
    believes: bool = False,
) -> Told:  # fmt: skip
    """Launches until the last checkpoint, or until the hours are over."""
    pool = TrialPool(optuna.storages.InMemoryStorage(), f"benchmark {seed}", study.space, sampler)
    night = Night(study, seed)
    recommended: dict[int, dict[str, Configuration | None]] = {}
    slowest = spent = 0.0
    misfits = 0
    pool.enqueue(study.baseline, BASELINE_NOTE)
    while night.launched < checkpoints[-1] and night.seconds < 3600 * hours and misfits < MISFITS_IN_A_ROW:
        started = time.perf_counter()
        proposal = pool.ask()
        took = time.perf_counter() - started
        if proposal is None:
            break
        slowest, spent = max(slowest, took), spent + took
        is_baseline = proposal.seed_name == BASELINE_NOTE
        record = _launch(study, pool, night, proposal, baseline=is_baseline)
        if is_baseline:
            _enqueue_seeds(study, pool, record)
        loaded = record.verdict is not None and record.verdict.outcome.was_loaded
        misfits = 0 if loaded else misfits + 1
        if loaded and night.launched in checkpoints:
            recommended[night.launched] = recommend(study, pool.records(), believes=believes)
    records = pool.records()
    for checkpoint in checkpoints:
        recommended.setdefault(checkpoint, recommend(study, records, believes=believes))
    return Told(tuple(records), night.launched, night.wasted_on_memory, night.seconds, slowest, spent, recommended)


def _launch(study: Simulated, pool: TrialPool, night: Night, proposal: Proposal, *, baseline: bool) -> TrialRecord:
    record = night.run(proposal, baseline=baseline)
    reference = record.measurement if baseline else reference_of(pool.records())
    pool.tell(record, told_objectives(record, study.workload, reference))
    return record


def _enqueue_seeds(study: Simulated, pool: TrialPool, baseline: TrialRecord) -> None:
    """As a study does: the shipped seeds on top of the owner's own values, with the context that really ran."""
    context = study.space.with_role("context")
    for seed in study.space.seeds:
        values: dict[str, Value] = dict(study.baseline)
        if context is not None and context.name not in values:
            ran = baseline.measurement.actual.context_per_slot if baseline.measurement else None
            fitting = [c for c in context.choices or () if isinstance(c, int) and ran is not None and c <= ran]
            values[context.name] = max(fitting, default=context.default)
        pool.enqueue({**values, **seed.values}, seed.name)


def recommend(study: Simulated, records: Sequence[TrialRecord], *, believes: bool) -> dict[str, Configuration | None]:
    """The best for each profile: as measured, or as the model believes it to be."""
    if believes:
        believed = believed_scores(study.space, study.profiles, study.workload, records)
        by_print = {record.configuration.fingerprint: record.configuration for record in records}
        best = {name: max(table, key=lambda f: table[f].mean, default=None) for name, table in believed.items()}
        return {name: None if best[name] is None else by_print[best[name]] for name in best}
    return {profile.name: _best_measured(profile, records, study.workload.depths) for profile in study.profiles}


def _best_measured(profile: Profile, records: Sequence[TrialRecord], depths: tuple[int, ...]) -> Configuration | None:
    scored = [
        (score, record.number, record.configuration)
        for record in records
        if record.verdict is not None and record.verdict.feasible and record.measurement is not None
        if not profile.unmet_needs(record.measurement)
        if (score := profile.log_score(record.measurement, depths)) is not None
    ]
    return max(scored, key=lambda each: each[:2])[2] if scored else None


def true_score(study: Simulated, profile: Profile, configuration: Configuration | None) -> float:
    """The noise-free log score of a configuration; minus infinity where it does not run."""
    if configuration is None:
        return -math.inf
    is_baseline = configuration == complete(study.space, study.baseline)
    measured = study.measured(configuration, baseline=is_baseline)
    if study.fails(measured) is not None:
        return -math.inf
    score = profile.log_score(study.true_cells(measured), study.workload.depths)
    return -math.inf if score is None else score
