"""The composite sampler on small surfaces with known optima, through the pool that a study uses."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import pytest
from optuna.storages import InMemoryStorage

from tests.builders import DEPTHS, measurement, profile, record
from tests.search.spaces import parameter, space
from tuner.domain.configuration import Configuration
from tuner.domain.errors import BadInput
from tuner.domain.record import BASELINE_NOTE, Stage, TrialRecord
from tuner.domain.verdict import Outcome
from tuner.domain.workload import Cell, Content, Workload
from tuner.search.canonical import CanonicalSpace
from tuner.search.composite import CompositeSampler
from tuner.search.features import Features
from tuner.search.learned import Learned
from tuner.search.pool import TrialPool
from tuner.search.recommend import believed_scores
from tuner.search.samplers import SAMPLERS, make_sampler, tpe
from tuner.search.space import violations

SPACE = space(
    parameter("chunk", [128, 256, 512, 1024, 2048], default=512),
    parameter("batch", [512, 1024, 2048, 4096], default=2048),
    parameter("cache", ["f16", "q8_0", "q5_1", "q4_0"]),
    parameter("spec", ["none", "draft", "ngram"]),
    parameter("drafts", low=1, high=8, default=3, when="spec == draft"),
    parameter("split", ["50,50", "30,70", "70,30", "90,10"]),
    parameter("threads", low=1, high=16, default=8),
    rules=["chunk <= batch"],
)
PROFILES = (profile("reader", prefill=0.8, decode=0.2), profile("writer", prefill=0.2, decode=0.8))
WORKLOAD = Workload(cells=tuple(Cell(content=Content.CODE, depth=depth) for depth in DEPTHS), predict_tokens=64)
BEST = {"chunk": 1024, "cache": "q8_0", "spec": "draft", "drafts": 4, "split": "30,70", "threads": 12}

Speed = Callable[[Configuration], tuple[float, float]]


def surface(configuration: Configuration) -> tuple[float, float]:
    """Prefill and decode: products of effects, with one optimum."""
    v = configuration.values
    prefill = 1000 * math.exp(-0.15 * abs(math.log2(float(v["chunk"]) / 1024)))
    prefill *= {"f16": 0.97, "q8_0": 1.0, "q5_1": 0.9, "q4_0": 0.93}[str(v["cache"])]
    split = {"50,50": 0.95, "30,70": 1.0, "70,30": 0.85, "90,10": 0.6}[str(v["split"])]
    threads = 1 - 0.002 * (float(v["threads"]) - 12) ** 2
    decode = 40 * split * threads * {"none": 1.0, "ngram": 1.05, "draft": 1.0}[str(v["spec"])]
    if v["spec"] == "draft":
        decode *= 1.5 - 0.05 * abs(float(v["drafts"]) - 4)
    return prefill * split, decode


def search(
    launches: int,
    *,
    speed: Speed = surface,
    fails: Callable[[Configuration], Outcome | None] = lambda _: None,
    noise: float = 0.01,
    seed: int = 0,
    pool: TrialPool | None = None,
    sampler: str = "composite",
) -> tuple[TrialPool, list[TrialRecord]]:
    """A search of so many trials; the baseline is the first."""
    rng = np.random.default_rng(seed)
    pool = pool or TrialPool(InMemoryStorage(), f"{seed}", SPACE, make_sampler(sampler, SPACE, PROFILES, WORKLOAD))
    if not pool.records():
        pool.enqueue({}, BASELINE_NOTE)
    while len(pool.records()) < launches:
        proposal = pool.ask()
        assert proposal is not None
        outcome = fails(proposal.configuration)
        prefill, decode = (value * math.exp(rng.normal(0, noise)) for value in speed(proposal.configuration))
        is_baseline = proposal.seed_name == BASELINE_NOTE
        done = record(
            proposal.number, proposal.configuration.values,
            None if outcome else measurement(prefill, decode), outcome=outcome or Outcome.OK,
            stage=Stage.BASELINE if is_baseline else Stage.SEARCH, note=BASELINE_NOTE if is_baseline else "",
            constraints={"outcome": 1.0 if outcome else 0.0},
        )  # fmt: skip
        pool.tell(done, None if outcome else (prefill, decode, 32768.0))
    return pool, pool.records()


def regret(records: list[TrialRecord], launches: int) -> float:
    """Of the first launches' best by what the model believes: share of the best true score, mean of the profiles."""
    believed = believed_scores(SPACE, PROFILES, WORKLOAD, records[:launches])
    best = surface(Configuration(values={"batch": 2048, **BEST}))
    lost = []
    for one in PROFILES:
        chosen = max(believed[one.name], key=lambda f: believed[one.name][f].mean)
        found = surface(next(r.configuration for r in records if r.configuration.fingerprint == chosen))
        scores = [one.log_score(measurement(*speeds), DEPTHS) for speeds in (found, best)]
        assert scores[0] is not None
        assert scores[1] is not None
        lost.append(1 - math.exp(scores[0] - scores[1]))
    return float(np.mean(lost))


def test_it_finds_the_optimum_of_a_smooth_surface_sooner_than_chance_does() -> None:
    ours = [regret(search(30, seed=seed)[1], 30) for seed in range(2)]
    chance = [regret(search(30, seed=seed, sampler="random")[1], 30) for seed in range(2)]
    assert np.mean(ours) < 0.04
    assert np.mean(ours) < 0.5 * np.mean(chance)


def test_nothing_is_proposed_twice_and_no_rule_is_broken_whatever_fails() -> None:
    def fails(configuration: Configuration) -> Outcome | None:
        if configuration.values["cache"] == "q5_1":
            return Outcome.CRASHED
        return Outcome.OUT_OF_MEMORY if configuration.values["chunk"] == 2048 else None

    _, records = search(35, fails=fails)
    prints = [r.configuration.fingerprint for r in records]
    assert len(prints) == len(set(prints))
    assert not any(violations(SPACE, r.configuration) for r in records)
    failed = [bool(r.verdict and r.verdict.outcome is not Outcome.OK) for r in records]
    assert sum(failed[20:]) <= 3, "what fails is learned, and left alone"


def test_after_a_restart_it_proposes_what_it_would_have_proposed() -> None:
    pool, records = search(12)
    sampler = make_sampler("composite", SPACE, PROFILES, WORKLOAD)
    again = TrialPool(InMemoryStorage(), "another name", SPACE, sampler)
    for one in records:
        again.enqueue(one.configuration.values, BASELINE_NOTE if one.is_baseline else f"seed {one.number}")
    for one in records:
        proposal = again.ask()
        assert proposal is not None
        assert proposal.configuration == one.configuration
        assert one.measurement is not None
        again.tell(one.model_copy(update={"number": proposal.number}), (1.0, 1.0, 1.0))
    ours, theirs = pool.ask(), again.ask()
    assert ours is not None
    assert theirs is not None
    assert ours.configuration == theirs.configuration


def test_one_launch_on_a_machine_that_stumbled_does_not_bury_what_it_tried() -> None:
    """The first one with the best cache is slow by luck: the value is looked at again, and found to be good."""
    stumbled: list[str] = []

    def speed(configuration: Configuration) -> tuple[float, float]:
        prefill, decode = surface(configuration)
        factor = 1.4 if configuration.values["cache"] == "q8_0" else 1.0
        if configuration.values["cache"] == "q8_0" and not stumbled:
            stumbled.append(configuration.fingerprint)
            return 0.6 * prefill * factor, 0.6 * decode * factor
        return prefill * factor, decode * factor

    _, records = search(35, speed=speed)
    assert stumbled
    again = [r for r in records if r.configuration.values["cache"] == "q8_0"][1:]
    assert len(again) >= 5


def test_a_cliff_does_not_hide_small_differences() -> None:
    def speed(configuration: Configuration) -> tuple[float, float]:
        prefill, decode = surface(configuration)
        return (prefill / 20, decode / 20) if configuration.values["split"] == "90,10" else (prefill, decode)

    _, records = search(30, speed=speed)
    assert regret(records, 30) < 0.06


def test_what_a_model_cannot_be_fitted_to_is_left_to_tpe_and_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def broken(*_: object) -> Learned:
        raise np.linalg.LinAlgError("singular")

    pool = TrialPool(
        InMemoryStorage(), "n", SPACE,
        lambda seed: CompositeSampler(SPACE, PROFILES, WORKLOAD, tpe(seed), told.append),
    )  # fmt: skip
    monkeypatch.setattr(Learned, "of", broken)
    _, records = search(10, pool=pool)
    assert len({r.configuration.fingerprint for r in records}) == 10
    assert len(told) == 1
    assert "TPE" in told[0]


def test_a_small_space_is_used_up() -> None:
    small = space(parameter("a", [1, 2, 3]), parameter("b", ["x", "y"]))
    pool = TrialPool(InMemoryStorage(), "n", small, make_sampler("composite", small, PROFILES, WORKLOAD))
    seen = set()
    while (proposal := pool.ask()) is not None:
        seen.add(proposal.configuration.fingerprint)
        speed = 100.0 + 10 * float(proposal.configuration.values["a"])
        done = record(proposal.number, proposal.configuration.values, measurement(speed, speed))
        pool.tell(done, (speed, speed, 32768.0))
    assert len(seen) == 6


def test_drift_is_taken_out_before_anything_is_learned() -> None:
    asked: list[int] = []

    def compared(records: object) -> list[TrialRecord]:
        asked.append(len(list(records)))  # type: ignore[call-overload]
        return list(records)  # type: ignore[call-overload]

    factory = make_sampler("composite", SPACE, PROFILES, WORKLOAD, compared=compared)
    search(8, pool=TrialPool(InMemoryStorage(), "n", SPACE, factory))
    assert asked[-1] == 7


def test_the_model_corrects_the_luck_of_the_best_one_seen() -> None:
    _, records = search(30, noise=0.03)
    believed = believed_scores(SPACE, PROFILES, WORKLOAD, records)
    for one in PROFILES:
        measured = {
            r.configuration.fingerprint: one.log_score(r.measurement, DEPTHS)
            for r in records
            if r.measurement is not None
        }
        assert believed[one.name].keys() == measured.keys()
        luckiest = max(measured, key=lambda f: measured[f] or 0.0)
        assert believed[one.name][luckiest].mean < (measured[luckiest] or 0.0)


@pytest.mark.parametrize("name", [name for name in SAMPLERS if name != "gp"])
def test_every_sampler_has_a_name(name: str) -> None:
    _, records = search(6, sampler=name)
    assert len(records) == 6


def test_an_unknown_sampler_is_named_with_the_nearest() -> None:
    with pytest.raises(BadInput, match="no sampler `tpee`") as raised:
        make_sampler("tpee", SPACE, PROFILES, WORKLOAD)
    assert raised.value.advice == "did you mean tpe?"


def test_an_ask_after_three_hundred_trials_takes_no_more_than_a_few_launches_of_a_fit() -> None:
    """As a ratio, since machines differ: an ask at 300 trials against one at 60."""
    pool, _ = search(60, sampler="random")
    fresh = make_sampler("composite", SPACE, PROFILES, WORKLOAD)

    def seconds(of: TrialPool) -> float:
        study = TrialPool(InMemoryStorage(), "n", SPACE, fresh)
        for one in of.records():
            study.enqueue(one.configuration.values, f"seed {one.number}")
        for one in of.records():
            proposal = study.ask()
            assert proposal is not None
            study.tell(one.model_copy(update={"number": proposal.number}), (1.0, 1.0, 1.0))
        study.ask()
        started = time.process_time()
        study.ask()
        return time.process_time() - started

    few = seconds(pool)
    search(300, sampler="random", pool=pool)
    assert seconds(pool) < 12 * few


def test_a_word_among_numbers_leaves_the_matter_to_the_engine() -> None:
    """SGLang's space has such parameters, context and slots among them."""
    mixed = space(
        parameter("context", ["unset", 8192, 16384, 32768], role="context"),
        parameter("slots", ["unset", 1, 2, 4], role="streams"),
        parameter("steps", ["unset", 1, 2, 3, 4, 8]),
    )

    def true(values: dict[str, object]) -> float:
        steps = values["steps"]
        return 100.0 if steps == "unset" else 130.0 - 4 * abs(float(str(steps)) - 3)

    pool = TrialPool(InMemoryStorage(), "n", mixed, make_sampler("composite", mixed, PROFILES, WORKLOAD))
    for _ in range(16):
        proposal = pool.ask()
        assert proposal is not None
        speed = true(dict(proposal.configuration.values))
        done = record(proposal.number, proposal.configuration.values, measurement(speed, speed))
        pool.tell(done, (speed, speed, 32768.0))
    tried = [true(dict(r.configuration.values)) for r in pool.records()]
    assert max(tried) == 130.0
    features = Features(CanonicalSpace(mixed))
    rows = features.rows([("unset", "unset", steps) for steps in ("unset", 1, 2, 8)])
    unset, one, two, eight = rows
    assert np.linalg.norm(one - two) < np.linalg.norm(one - eight) <= 1
    assert min(np.linalg.norm(unset - one), np.linalg.norm(unset - two)) > 0.5


def test_of_two_that_promise_as_much_the_one_that_takes_less_time_is_tried() -> None:
    """A hundred seconds against a thousand: half of the space is as fast once it runs, and slow to load."""
    two = space(parameter("file", ["quick", "slow"]), *SPACE.parameters)

    def tried(slow_s: float) -> float:
        pool = TrialPool(InMemoryStorage(), "n", two, make_sampler("composite", two, PROFILES, WORKLOAD))
        pool.enqueue({"chunk": 128}, "a")
        pool.enqueue({"file": "slow", "chunk": 256}, "b")
        for _ in range(24):
            proposal = pool.ask()
            assert proposal is not None
            values = proposal.configuration.values
            speeds = surface(proposal.configuration)
            seconds = slow_s if values["file"] == "slow" else 100.0
            pool.tell(record(proposal.number, values, measurement(*speeds), seconds=seconds), (*speeds, 32768.0))
        return sum(r.configuration.values["file"] == "slow" for r in pool.records()[10:]) / 14

    assert tried(1000.0) <= 0.3
    assert tried(1000.0) < tried(100.0)
