"""A kill between any two writes to the storage: the next start makes the study whole again."""

from __future__ import annotations

import itertools
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from optuna.storages import RDBStorage

from tests.bench import Bench, bench_in, configurations
from tests.study.test_kill import SPACE
from tuner import wiring
from tuner.domain.frozen import FrozenStudy
from tuner.domain.record import Stage
from tuner.domain.verdict import Outcome, Verdict
from tuner.store.folder import StudyFolder
from tuner.study import run_trial
from tuner.study.run_study import run_study

# As Optuna's cache in front of this storage calls them.
WRITES = (
    "create_new_study",
    "_create_new_trial",
    "_set_trial_param",
    "set_trial_state_values",
    "set_trial_user_attr",
    "set_trial_system_attr",
)
KILLS = 14


class Killed(BaseException):
    """Not an Exception: nothing may tidy up after it."""


class Silent:
    """An observer that shows nothing."""

    def __getattr__(self, _: str) -> Any:
        return lambda *_, **__: None


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Iterator[tuple[Bench, FrozenStudy]]:
    """A bench whose launches need no engine: every one has the figures of a launch that was really measured."""
    with (
        pytest.MonkeyPatch.context() as monkeypatch,
        bench_in(tmp_path_factory.mktemp("writes"), tiny_model, monkeypatch) as bench,
    ):
        space = bench.file("space.toml", SPACE)
        assert bench.tuner(*bench.quick("--space", str(space), "--trials", "1", "--confirm-rounds", "2")).code == 0
        (measured,) = bench.records()
        frozen = StudyFolder(bench.study()).frozen()
        assert frozen is not None
        definition = frozen.definition.model_copy(update={"trials": 4})
        frozen = frozen.model_copy(update={"definition": definition})
        monkeypatch.setattr(wiring, "prepare", lambda *_, **__: frozen)
        ok = Verdict(outcome=Outcome.OK, reason="measured", constraints={"outcome": 0, "context": 0, "streams": 0})

        def launched(_kit: Any, trial: Any, _idle: Any) -> None:
            trial.close(ok, measured.measurement)

        monkeypatch.setattr(run_trial, "_launch_and_measure", launched)
        yield bench, frozen


def run(bench: Bench) -> None:
    with wiring.open_kit(StudyFolder(bench.study()), Silent()) as kit:
        run_study(kit)


def run_and_die(bench: Bench, at: int) -> bool:
    """Runs until the write of that number, which never happens. False where the study ends before."""
    count = itertools.count(1)
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name in WRITES:
            real = getattr(RDBStorage, name)

            def write(self: Any, *words: Any, _real: Any = real, **named: Any) -> Any:
                if next(count) == at:
                    raise Killed
                return _real(self, *words, **named)

            monkeypatch.setattr(RDBStorage, name, write)
        try:
            run(bench)
        except Killed:
            return True
    return False


def assert_whole(bench: Bench) -> None:
    searched, confirmed = bench.records(), bench.records("confirm")
    assert all(record.verdict is not None for record in [*searched, *confirmed])
    measured = configurations(searched)
    assert len(measured) == len(set(measured)) == 4
    seeds = [record for record in searched if record.stage is Stage.SEED and record.verdict]
    (seed,) = [record for record in seeds if record.verdict and record.verdict.outcome is Outcome.OK]
    assert seed.configuration.values == {"parallel": 1, "ubatch_size": 512}, "a seed is launched once, and whole"
    baselines = [record for record in searched if record.is_baseline and record.verdict]
    assert [record.verdict.outcome for record in baselines if record.verdict].count(Outcome.OK) == 1
    launches = Counter(
        record.configuration.fingerprint
        for record in confirmed
        if record.verdict and record.verdict.outcome is Outcome.OK
    )
    assert set(launches.values()) <= {2}, "each finalist has its rounds, no more"


def test_no_kill_between_two_writes_breaks_a_study(frozen: tuple[Bench, FrozenStudy]) -> None:
    bench, _ = frozen

    def afresh() -> None:
        for path in bench.study().glob("study.db*"):
            path.unlink()
        shutil.rmtree(bench.study() / "trials")

    afresh()
    writes = next(at for at in itertools.count(60, 10) if not run_and_die(bench, at))
    assert_whole(bench)
    moments = random.Random(7).sample(range(1, writes), KILLS)
    for at in moments:
        afresh()
        if run_and_die(bench, at):
            # And once more, while it settles what the first kill left.
            run_and_die(bench, 1 + at % 5)
        run(bench)
        assert_whole(bench)
