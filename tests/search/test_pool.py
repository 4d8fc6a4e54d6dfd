"""The pool of trials, in real SQLite files."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.distributions import BaseDistribution
from optuna.samplers import RandomSampler
from optuna.storages import InMemoryStorage
from optuna.trial import FrozenTrial, TrialState

from tests.builders import measurement, record
from tests.search.spaces import parameter, space
from tuner.domain.configuration import Value
from tuner.domain.record import BASELINE_NOTE, Stage, TrialRecord
from tuner.domain.space import SearchSpace
from tuner.domain.verdict import Outcome
from tuner.search.pool import CONSTRAINTS, Proposal, TrialPool
from tuner.search.samplers import SamplerFactory, tpe
from tuner.search.space import complete, violations

SPACE = space(
    parameter("chunk", [128, 256, 512, 1024]),
    parameter("batch", [512, 2048]),
    parameter("spec", ["none", "draft"]),
    parameter("depth", low=1, high=6, default=3, when="spec == draft"),
    parameter("threads", low=1, high=8, default=8),
    rules=["chunk <= batch"],
)
SMALL = space(parameter("a", [1, 2]), parameter("b", ["x", "y"]), rules=["a != 2 or b == x"])

Opener = Callable[..., TrialPool]


@pytest.fixture(scope="module")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty pool: to make one takes a second, to copy it nothing."""
    path = tmp_path_factory.mktemp("empty") / "study.db"
    TrialPool.open_file(path, "night", SPACE)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


@pytest.fixture
def opened(tmp_path: Path, empty_file: Path) -> Opener:
    """Opens the same file; again, as a later run does: the earlier pool was told nothing of its end."""
    shutil.copyfile(empty_file, tmp_path / "study.db")

    def opener(of: SearchSpace = SPACE, sampler: SamplerFactory = RandomSampler) -> TrialPool:
        return TrialPool.open_file(tmp_path / "study.db", "night", of, sampler)

    return opener


def ask(pool: TrialPool) -> Proposal:
    proposal = pool.ask()
    assert proposal is not None
    return proposal


def opened_record(proposal: Proposal) -> TrialRecord:
    stage = Stage.SEARCH if proposal.seed_name is None else Stage.SEED
    return record(
        proposal.number, proposal.configuration.values, stage=stage, outcome=None, note=proposal.seed_name or ""
    )


def close(pool: TrialPool, proposal: Proposal, outcome: Outcome = Outcome.OK, *, known: bool = True) -> None:
    """Takes a proposal through its life: saved when launched, told when judged."""
    pool.save(opened_record(proposal))
    speed = float(proposal.configuration.values.get("chunk", 100))
    missed = {"outcome": 0.0 if outcome is Outcome.OK else 1.0}
    done = record(
        proposal.number, proposal.configuration.values, measurement(speed), outcome=outcome,
        note=proposal.seed_name or "", constraints=missed,
    )  # fmt: skip
    pool.tell(done, (speed, 40.0, 8192.0) if outcome is Outcome.OK and known else None)


def trials(path: Path, study: str = "search") -> list[optuna.trial.FrozenTrial]:
    return optuna.load_study(study_name=study, storage=f"sqlite:///{path}").get_trials()


def test_the_file_is_sqlite_in_wal_mode_and_can_be_read_while_it_is_written(opened: Opener, tmp_path: Path) -> None:
    pool = opened()
    reader = opened()
    close(pool, ask(pool))
    assert len(reader.records()) == 1
    with sqlite3.connect(tmp_path / "study.db") as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize("name", ["with space", "ünï?b#c%20d{e}'\"f"])
def test_the_file_is_where_it_was_asked_for(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / name
    folder.mkdir()
    path = folder / "study.db"
    pool = TrialPool.open_file(path, "night", SMALL)
    close(pool, ask(pool))
    assert len(TrialPool.open_file(path, "night", SMALL).records()) == 1
    assert {file.name for file in tmp_path.iterdir()} == {name}
    assert path.stat().st_size > 0


def test_nothing_is_proposed_twice_whatever_became_of_it_and_all_proposals_keep_the_rules(opened: Opener) -> None:
    outcomes = [
        Outcome.OK,
        Outcome.OUT_OF_MEMORY,
        Outcome.CRASHED,
        Outcome.DEGRADED,
        Outcome.HOST_CRASH,
        Outcome.INVALID,
    ]
    pool = opened(sampler=tpe)
    seen: set[str] = set()
    for index in range(14):
        if index == 9:
            pool = opened(sampler=tpe)
        proposal = ask(pool)
        assert proposal.configuration == complete(SPACE, proposal.configuration.values)
        assert violations(SPACE, proposal.configuration) == []
        assert proposal.configuration.fingerprint not in seen
        seen.add(proposal.configuration.fingerprint)
        close(pool, proposal, outcomes[index % len(outcomes)], known=index % 4 != 0)
    assert len(pool.records()) == len(seen) == 14


def test_what_another_run_has_open_is_known_too(opened: Opener) -> None:
    pool = opened(SMALL)
    first = ask(pool)
    pool.save(opened_record(first))
    other = opened(SMALL)
    found = set()
    while (proposal := other.ask()) is not None:
        close(other, proposal)
        found.add(proposal.configuration.fingerprint)
    assert first.configuration.fingerprint not in found


def all_configurations(of: SearchSpace) -> set[str]:
    combinations = product(*[one.choices or () for one in of.parameters])
    every = [complete(of, dict(zip(of.by_name, values, strict=True))) for values in combinations]
    return {configuration.fingerprint for configuration in every if not violations(of, configuration)}


def test_a_small_space_is_searched_to_its_end_which_is_noticed(opened: Opener) -> None:
    pool = opened(SMALL)
    found = []
    while (proposal := pool.ask()) is not None:
        found.append(proposal.configuration.fingerprint)
        close(pool, proposal)
    assert len(found) == len(set(found))
    assert set(found) == all_configurations(SMALL)
    assert len(found) == 3
    assert opened(SMALL).ask() is None


def test_a_space_with_a_single_configuration(opened: Opener) -> None:
    of = space(parameter("a", [1]), parameter("b", ["x"]))
    pool = opened(of)
    proposal = ask(pool)
    assert proposal.configuration.values == {"a": 1, "b": "x"}
    close(pool, proposal)
    assert pool.ask() is None


def test_the_queue_is_served_first_in_its_order_and_survives(opened: Opener) -> None:
    queue: list[tuple[str, dict[str, Value]]] = [
        ("one", {"chunk": 256}), ("two", {"spec": "draft", "depth": 5}), ("three", {"threads": 3}),
    ]  # fmt: skip
    pool = opened()
    for name, values in queue:
        pool.enqueue(values, name)
    first = ask(pool)
    assert (first.seed_name, first.configuration) == ("one", complete(SPACE, queue[0][1]))
    close(pool, first)
    pool = opened()
    assert pool.origins() == {"one", "two", "three"}
    for name, values in queue[1:]:
        proposal = ask(pool)
        assert (proposal.seed_name, proposal.configuration) == (name, complete(SPACE, values))
        close(pool, proposal)
    assert ask(pool).seed_name is None


def test_what_is_queued_but_known_or_against_the_rules_is_passed_over(opened: Opener) -> None:
    pool = opened()
    pool.enqueue({"chunk": 256}, "one")
    close(pool, ask(pool))
    pool.enqueue({"chunk": 256, "depth": 6}, "the same, for depth is switched off")
    pool.enqueue({"chunk": 1024, "batch": 512}, "breaks a rule")
    pool.enqueue({"chunk": 1024, "batch": 2048}, "two")
    assert ask(pool).seed_name == "two"


def test_the_baseline_is_measured_whatever_it_breaks(opened: Opener) -> None:
    pool = opened()
    for _ in range(2):
        pool.enqueue({"chunk": 1024, "batch": 512}, BASELINE_NOTE)
        proposal = ask(pool)
        assert proposal.seed_name == BASELINE_NOTE
        close(pool, proposal, Outcome.CRASHED)


# ---- kills -----------------------------------------------------------------------------------------------------------


def interrupt(pool: TrialPool, open_record: TrialRecord) -> None:
    """What a later start does with a trial that a kill left open."""
    verdict = record(0, outcome=Outcome.INTERRUPTED).verdict
    pool.tell(open_record.model_copy(update={"verdict": verdict, "finished_at": 2000.0}), None)


@pytest.mark.parametrize("seeded", [True, False])
def test_an_interrupted_trial_is_asked_again_as_what_it_was(opened: Opener, seeded: bool) -> None:
    pool = opened()
    if seeded:
        pool.enqueue({"chunk": 256, "threads": 2}, "one")
    killed = ask(pool)
    pool.save(opened_record(killed))
    later = opened()
    (left,) = later.records()
    assert left.verdict is None
    interrupt(later, left)
    again = ask(later)
    assert again.configuration == killed.configuration
    assert again.seed_name == killed.seed_name
    assert again.number != killed.number
    close(later, again)
    assert ask(later).configuration != killed.configuration


def test_what_was_killed_before_its_record_was_written_is_asked_again(opened: Opener) -> None:
    pool = opened()
    pool.enqueue({"chunk": 256}, "one")
    killed = ask(pool)
    later = opened()
    assert later.records() == []
    later.drop_unrecorded()
    again = ask(later)
    assert (again.configuration, again.seed_name) == (killed.configuration, "one")
    close(later, again)
    later.drop_unrecorded()
    assert [r.verdict.outcome for r in later.records() if r.verdict] == [Outcome.OK]


def test_an_interrupted_baseline_that_is_queued_anew_is_measured_once(opened: Opener) -> None:
    pool = opened()
    pool.enqueue({}, BASELINE_NOTE)
    proposal = ask(pool)
    pool.save(opened_record(proposal))
    later = opened()
    interrupt(later, later.records()[0])
    later.enqueue({}, BASELINE_NOTE)
    close(later, ask(later))
    assert ask(later).seed_name != BASELINE_NOTE


@pytest.mark.parametrize("outcome", [Outcome.HOST_CRASH, Outcome.OUT_OF_MEMORY])
def test_what_brought_the_machine_down_or_did_not_fit_is_never_asked_again(opened: Opener, outcome: Outcome) -> None:
    pool = opened(SMALL)
    killed = ask(pool)
    pool.save(opened_record(killed))
    later = opened(SMALL)
    later.drop_unrecorded()
    (left,) = later.records()
    verdict = record(0, outcome=outcome).verdict
    later.tell(left.model_copy(update={"verdict": verdict, "finished_at": 2000.0}), None)
    later.enqueue(killed.configuration.values, "asked for by a seed")
    found = set()
    while (proposal := later.ask()) is not None:
        differences = proposal.configuration.differences_from(killed.configuration.values)
        assert outcome is Outcome.OUT_OF_MEMORY or len(differences) > 1, "too near to what brought the machine down"
        found.add(proposal.configuration.fingerprint)
        close(later, proposal)
    assert killed.configuration.fingerprint not in found
    if outcome is Outcome.OUT_OF_MEMORY:
        assert found == all_configurations(SMALL) - {killed.configuration.fingerprint}


def test_the_neighbourhood_of_a_host_crash_is_left_alone_also_by_seeds(opened: Opener) -> None:
    pool = opened()
    crashed = ask(pool)
    close(pool, crashed, Outcome.HOST_CRASH)
    values = crashed.configuration.values
    threads = 1 if values["threads"] != 1 else 2
    pool.enqueue({**values, "threads": threads}, "one step away")
    pool.enqueue({**values, "threads": threads, "chunk": 128 if values["chunk"] != 128 else 256}, "two steps away")
    for _ in range(30):
        proposal = ask(pool)
        assert proposal.seed_name != "one step away"
        assert len(proposal.configuration.differences_from(values)) > 1
        close(pool, proposal)
    assert "two steps away" in {record.note for record in pool.records()}


def test_a_record_can_be_saved_again_and_comes_back_whole(opened: Opener) -> None:
    pool = opened()
    proposal = ask(pool)
    pool.save(opened_record(proposal))
    fuller = opened_record(proposal).model_copy(update={"folder": "trials/0000", "note": "ünï\n\x00'\""})
    pool.save(fuller)
    assert opened().records() == [fuller]


def test_after_a_restart_the_sampler_does_not_draw_the_same_again(opened: Opener) -> None:
    pool = opened()
    first = ask(pool)
    pool.save(opened_record(first))
    interrupt(pool, opened_record(first))
    ask(pool)
    later = ask(opened())
    assert later.configuration != first.configuration
    # Another study of the same space draws otherwise; the same one alike.
    one, two, same = (ask(TrialPool(InMemoryStorage(), name, SPACE)).configuration for name in ["one", "two", "one"])
    assert one != two
    assert one == same


# ---- what the sampler learns from ------------------------------------------------------------------------------------


def test_every_told_trial_has_all_constraints_in_one_order(opened: Opener, tmp_path: Path) -> None:
    pool = opened()
    for number, outcome in enumerate(
        [Outcome.OK, Outcome.OUT_OF_MEMORY, Outcome.OK, Outcome.CRASHED, Outcome.DEGRADED]
    ):
        close(pool, ask(pool), outcome, known=number != 2)
    told = trials(tmp_path / "study.db")
    assert [trial.state.name for trial in told] == ["COMPLETE", "PRUNED", "PRUNED", "PRUNED", "PRUNED"]
    assert len({tuple(trial.constraints) for trial in told}) == 1
    assert set(told[0].constraints) == set(CONSTRAINTS)
    assert [trial.constraints["outcome"] for trial in told] == [0, 1, 0, 1, 1]
    assert told[0].values == [float(pool.records()[0].configuration.values["chunk"]), 40.0, 8192.0]


class Watching(RandomSampler):
    """Keeps what a sampler could learn from whenever it is asked."""

    seen: list[optuna.trial.FrozenTrial]

    def before_trial(self, study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:  # noqa: ARG002
        self.seen = [told for told in study.get_trials() if "record" in told.user_attrs]


def test_the_sampler_sees_every_told_trial_of_the_search_and_none_of_the_confirm_stage(opened: Opener) -> None:
    made: list[Watching] = []

    def watching(seed: int) -> Watching:
        made.append(Watching(seed))
        return made[-1]

    pool = opened(sampler=watching)
    for outcome in (Outcome.OK, Outcome.CRASHED, Outcome.INTERRUPTED):
        close(pool, ask(pool), outcome)
    close(pool, ask(pool))
    for _ in range(4):
        number = pool.open_confirmation()
        open_record = record(number, {"chunk": 256}, stage=Stage.CONFIRM, outcome=None)
        pool.save(open_record, confirm=True)
        pool.tell(record(number, {"chunk": 256}, measurement(), stage=Stage.CONFIRM), None, confirm=True)
    assert [r.number for r in pool.records(confirm=True)] == [0, 1, 2, 3]
    later = opened(sampler=watching)
    for which, sampler in ((pool, made[0]), (later, made[1])):
        close(which, ask(which))
        assert {trial.state.name for trial in sampler.seen} == {"COMPLETE", "PRUNED"}
        stages = [TrialRecord.model_validate_json(trial.user_attrs["record"]).stage for trial in sampler.seen]
        assert Stage.CONFIRM not in stages
        told = [r for r in which.records()[:-1] if r.verdict and r.verdict.outcome is not Outcome.INTERRUPTED]
        assert len(sampler.seen) == len(told)
        assert len({tuple(trial.constraints) for trial in sampler.seen}) == 1


def test_confirm_trials_that_a_kill_left_are_settled(opened: Opener) -> None:
    pool = opened()
    number = pool.open_confirmation()
    pool.save(record(number, {}, stage=Stage.CONFIRM, outcome=None), confirm=True)
    pool.open_confirmation()
    later = opened()
    later.drop_unrecorded()
    (left,) = later.records(confirm=True)
    verdict = record(0, outcome=Outcome.INTERRUPTED).verdict
    later.tell(left.model_copy(update={"verdict": verdict}), None, confirm=True)
    assert later.open_confirmation() == 2
    assert later.records() == []


def test_what_is_told_draws_the_sampler_to_where_it_is_fast() -> None:
    """Not a benchmark: only that what is told arrives, the right way round."""
    pool = TrialPool(InMemoryStorage(), "night", SPACE)

    def measure() -> int:
        proposal = ask(pool)
        values = proposal.configuration.values
        speed = int(values["chunk"]) * (1 + int(values["threads"])) * (2 if values["spec"] == "draft" else 1)
        pool.save(opened_record(proposal))
        pool.tell(record(proposal.number, values, measurement()), (float(speed), float(speed), 8192.0))
        return speed

    for chunk, threads, spec in product((128, 256, 512, 1024), (1, 4, 8), ("none", "draft")):
        pool.enqueue({"chunk": chunk, "batch": 2048, "threads": threads, "spec": spec}, "known")
    known = [measure() for _ in range(24)]
    drawn = [measure() for _ in range(6)]
    assert sum(drawn) / len(drawn) > 1.5 * sum(known) / len(known)


class Shuffled(InMemoryStorage):
    """Tells attributes in another order every time, as a database server may."""

    def get_all_trials(self, study_id: int, deepcopy: bool = True, states: object = None) -> list[FrozenTrial]:  # noqa: ARG002
        found = super().get_all_trials(study_id, True, states)  # type: ignore[arg-type]
        for trial in found:
            trial.system_attrs = dict(
                random.Random(trial.number).sample(list(trial.system_attrs.items()), len(trial.system_attrs))
            )
        return found


def test_samplers_see_constraints_in_one_order_however_the_storage_tells_them() -> None:
    seen: set[tuple[str, ...]] = set()

    class Witness(RandomSampler):
        def sample_relative(
            self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
        ) -> dict[str, Any]:
            seen.update(tuple(one.constraints) for one in study.get_trials(states=(TrialState.COMPLETE,)))
            return super().sample_relative(study, trial, search_space)

    pool = TrialPool(Shuffled(), "night", SPACE, Witness)
    for _ in range(8):
        close(pool, ask(pool))
    assert seen == {CONSTRAINTS}


def test_of_two_that_have_the_same_in_mind_one_gives_way(opened: Opener) -> None:
    """As two machines that draw at the same moment: neither sees the other's record yet."""
    first, second = opened(), opened()
    values: dict[str, Value] = {"chunk": 1024, "batch": 2048, "spec": "none", "threads": 2}
    first.enqueue(values, "one")
    second.enqueue(values, "other")
    ours, theirs = ask(first), ask(second)
    assert ours.configuration.values["chunk"] == 1024
    assert theirs.configuration != ours.configuration
    assert theirs.number != ours.number


def test_numbers_of_what_is_added_beside_are_its_own(opened: Opener) -> None:
    first, second = opened(), opened()
    one = first.open_beside(complete(SPACE, {"chunk": 128, "batch": 512}))
    other = second.open_beside(complete(SPACE, {"chunk": 256, "batch": 512}))
    assert one != other
