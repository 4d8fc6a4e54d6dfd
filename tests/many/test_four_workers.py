"""Four workers on one study in a real PostgreSQL: one is killed, one is cut off for a minute.

Each worker has its own folder, state and name, as on a machine of its own; what they share is the database alone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from tests.bench import FAKE, RIGS, ROOT, Bench, configurations
from tests.many.postgres_server import IN_A_URL, PASSWORD, Cable
from tuner.domain.record import Stage, TrialRecord
from tuner.domain.verdict import Outcome
from tuner.search.pool import CONSTRAINTS

PRELUDE = """
from tuner.search import shared_storage
shared_storage.HEARTBEAT_S, shared_storage.GRACE_S = {heartbeat}, {grace}
shared_storage._LONGEST_WAIT_S = 2.0
"""


TWO_BUILDS = """#!/bin/sh
if [ -n "$OTHER_BUILD" ] && [ "$1" = --version ]; then {fake} "$@" 2>&1 | sed s/fa4e/0the/; else exec {fake} "$@"; fi
"""
"""An engine at one path that is another build on some machines."""


def replaced(words: list[str], option: str, value: str) -> list[str]:
    place = words.index(option) + 1
    return [*words[:place], value, *words[place + 1 :]]


def address(port: int) -> str:
    return f"postgresql://tuner:{IN_A_URL}@127.0.0.1:{port}/postgres"


class Crew:
    """Workers of one study, each as on a machine of its own."""

    def __init__(self, bench: Bench, port: int, study: str, *, heartbeat: float = 1, grace: float = 8) -> None:
        self.bench = bench
        self.port = port
        self.study = study
        self.prelude = PRELUDE.format(heartbeat=heartbeat, grace=grace)
        self.running: dict[str, subprocess.Popen[str]] = {}

    def folder(self, host: str) -> Path:
        return self.bench.folder / host

    def words(self, *more: str) -> list[str]:
        words = self.bench.quick("--confirm-rounds", "2", *more)
        words[words.index("--name") + 1] = self.study
        return words

    def begin(self, host: str, *words: str, port: int | None = None, **env: str) -> subprocess.Popen[str]:
        (self.folder(host) / "studies").mkdir(parents=True, exist_ok=True)
        out = (self.folder(host) / "out.txt").open("a")
        process = subprocess.Popen(
            [sys.executable, "-c", f"{self.prelude}\nfrom tuner.cli.app import main; main()", *words],
            cwd=self.folder(host),
            env={
                **os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *_also()]), "TUNER_HOST": host,
                "TUNER_STATE": str(self.folder(host) / "state"), "TUNER_STORAGE": address(port or self.port), **env,
            },
            stdout=out, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        out.close()
        self.bench.started.append(process)
        self.running[host] = process
        return process

    def said(self, host: str) -> str:
        return (self.folder(host) / "out.txt").read_text()

    def ended(self, host: str, timeout: float = 120) -> int:
        return self.running[host].wait(timeout)

    def trials(self, stage: str = "search") -> list[optuna.trial.FrozenTrial]:
        try:
            study = optuna.load_study(study_name=f"{self.study}/{stage}", storage=_driven(address(self.port)))
        except KeyError:
            return []
        return study.get_trials(deepcopy=False)

    def records(self, stage: str = "search") -> list[TrialRecord]:
        found = [trial.user_attrs["record"] for trial in self.trials(stage) if "record" in trial.user_attrs]
        return [TrialRecord.model_validate_json(text) for text in found]

    def wait_until(self, what: Callable[[], object], timeout: float = 90) -> None:
        deadline = time.monotonic() + timeout
        while not what():
            assert time.monotonic() < deadline, {host: self.said(host)[-1500:] for host in self.running}
            time.sleep(0.3)

    def caught(self, host: str, stop: Callable[[], None], let_go: Callable[[], None]) -> int:
        """Stops a worker in the middle of a trial of the search; the trial's number."""
        for _ in range(100):
            self.wait_until(lambda: self.open_trial(host) is not None)
            stop()
            time.sleep(0.5)  # What is on its way arrives.
            number = self.open_trial(host)
            if number is not None:
                return number
            let_go()
        raise AssertionError(f"{host} was never in the middle of a trial")

    def open_trial(self, host: str) -> int | None:
        return next((r.number for r in self.records() if r.owner.host == host and r.verdict is None), None)

    def assert_whole(self) -> None:
        """No trial lost, none measured twice, all constraints the same, each worker held against its own baseline."""
        trials, records = self.trials(), self.records()
        assert TrialState.RUNNING not in {trial.state for trial in trials}
        assert all(record.verdict is not None for record in records)
        known = configurations(records)
        assert len(known) == len(set(known)), "measured twice"
        told = [trial for trial in trials if trial.state in (TrialState.COMPLETE, TrialState.PRUNED)]
        assert {frozenset(trial.constraints) for trial in told} == {frozenset(CONSTRAINTS)}
        waiting = [t.system_attrs["fixed_params"] for t in trials if t.state is TrialState.WAITING]
        for record in records:
            if record.verdict is not None and record.verdict.outcome is Outcome.INTERRUPTED:
                asked = trials[record.number].system_attrs["fixed_params"]
                assert record.configuration.fingerprint in known or asked in waiting, "it was never asked again"
        anchored = {r.owner.host for r in self.records("confirm") if r.stage is Stage.ANCHOR}
        anchored |= {r.owner.host for r in records if r.stage is Stage.BASELINE}
        searched = {r.owner.host for r in records if r.stage in (Stage.SEARCH, Stage.SEED)}
        assert searched <= anchored

    def assert_secret_kept(self) -> None:
        for file in self.bench.folder.rglob("*"):
            if file.is_file():
                content = file.read_bytes()
                assert PASSWORD.encode() not in content, file
                assert IN_A_URL.encode() not in content, file
        for stage in ("search", "confirm", "workers"):
            for trial in self.trials(stage):
                assert PASSWORD not in json.dumps(trial.user_attrs)
                assert IN_A_URL not in json.dumps(trial.user_attrs)


def _also() -> list[str]:
    """Where psycopg lies, if that is not where Python looks by itself."""
    import psycopg

    return [str(Path(psycopg.__file__).parent.parent)]


def _driven(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://")


@pytest.fixture
def cable(postgres: int) -> Iterator[Cable]:
    made = Cable(postgres)
    yield made
    made.close()


def slow_engines(bench: Bench) -> None:
    """A trial takes some seconds, so that something can happen while it runs."""
    bench.monkeypatch.setenv("FAKE_TIME_SCALE", "0.05")


def test_two_workers_share_a_study_and_its_rounds(bench: Bench, postgres: int) -> None:
    crew = Crew(bench, postgres, "pair")
    program = bench.file("server", f'#!/bin/sh\nenv >> "{bench.folder}/engine-env.txt"\nexec {FAKE} "$@"\n')
    program.chmod(0o755)
    crew.begin("a", *replaced(crew.words("--trials", "6"), "--binary", str(program)))
    crew.wait_until(lambda: len(crew.records()) >= 1)
    # The second knows nothing but the name: it says what it would run, and is trusted.
    crew.begin("b", "run", "pair", "--trust")
    assert crew.ended("a") == 0, crew.said("a")
    assert crew.ended("b") == 0, crew.said("b")
    crew.assert_whole()
    assert Counter(record.owner.host for record in crew.records()).keys() == {"a", "b"}
    assert "made by" in crew.said("b")
    assert "made by" not in crew.said("a")
    launched = [r for r in crew.records() if r.verdict and r.verdict.outcome is not Outcome.WILL_NOT_FIT]
    assert 6 <= len(launched) <= 7
    rounds = [r for r in crew.records("confirm") if r.stage is Stage.CONFIRM]
    assert rounds
    for host in {r.owner.host for r in rounds}:
        assert any(r.is_baseline for r in rounds if r.owner.host == host), "compared with another machine's baseline"
    # What the engine was given is among the files that are looked through.
    assert (bench.folder / "engine-env.txt").stat().st_size
    crew.assert_secret_kept()
    for file in ("trials", "run.log", "frozen.json"):
        assert (crew.folder("b") / "studies" / "pair" / file).exists()


@pytest.mark.by_name
@pytest.mark.parametrize(
    ("env", "told"),
    [({"OTHER_BUILD": "1"}, "engine:"), ({"FAKE_RIG": str(RIGS / "two_gpus.toml")}, "gpus was")],
    ids=["build", "cards"],
)
def test_a_machine_that_differs_is_refused_with_what_differs(
    bench: Bench, postgres: int, env: dict[str, str], told: str
) -> None:
    study = f"alike-{len(told)}"
    crew = Crew(bench, postgres, study)
    program = bench.file("server", TWO_BUILDS.format(fake=FAKE))
    program.chmod(0o755)
    crew.begin("a", *replaced(crew.words("--trials", "1"), "--binary", str(program)))
    assert crew.ended("a") == 0, crew.said("a")
    crew.begin("b", "run", study, "--trust", **env)
    assert crew.ended("b") == 2
    assert "is not like a" in crew.said("b")
    assert told in crew.said("b")
    assert {record.owner.host for record in [*crew.records(), *crew.records("confirm")]} == {"a"}


@pytest.mark.by_name
def test_what_a_joining_machine_would_run_is_not_run_unasked(bench: Bench, postgres: int) -> None:
    crew = Crew(bench, postgres, "asked")
    crew.begin("a", *crew.words("--trials", "1"))
    assert crew.ended("a") == 0, crew.said("a")
    crew.begin("b", "run", "asked")
    assert crew.ended("b") == 2
    assert "--trust" in crew.said("b")
    assert {record.owner.host for record in crew.records()} == {"a"}


@pytest.mark.by_name
def test_a_worker_that_was_killed_is_taken_over(bench: Bench, postgres: int) -> None:
    slow_engines(bench)
    crew = Crew(bench, postgres, "killed", heartbeat=1, grace=4)
    for host in ("a", "b"):
        crew.begin(host, *crew.words("--trials", "7"))
    crew.caught(
        "a",
        lambda: crew.running["a"].send_signal(signal.SIGSTOP),
        lambda: crew.running["a"].send_signal(signal.SIGCONT),
    )
    crew.running["a"].send_signal(signal.SIGKILL)
    crew.running["a"].wait()
    assert crew.ended("b") == 0, crew.said("b")
    crew.assert_whole()
    assert any("a fell silent" in record.verdict.reason for record in crew.records() if record.verdict)


@pytest.mark.by_name
@pytest.mark.timeout(900)
def test_one_is_killed_and_one_is_cut_off_for_a_minute(bench: Bench, postgres: int, cable: Cable) -> None:
    slow_engines(bench)
    crew = Crew(bench, postgres, "night", heartbeat=2, grace=90)
    words = crew.words("--trials", "40")
    crew.begin("a", *words)
    crew.wait_until(lambda: len(crew.records()) >= 1)
    for host in ("b", "c"):
        crew.begin(host, *words)
    crew.begin("d", *words, port=cable.port)
    crew.wait_until(lambda: {r.owner.host for r in crew.records()} == {"a", "b", "c", "d"}, 180)
    cut_in = crew.caught("d", cable.cut, cable.mend)
    began = time.monotonic()
    killed_in = crew.caught(
        "b",
        lambda: crew.running["b"].send_signal(signal.SIGSTOP),
        lambda: crew.running["b"].send_signal(signal.SIGCONT),
    )
    crew.running["b"].send_signal(signal.SIGKILL)
    crew.running["b"].wait()
    during = len(crew.records())
    time.sleep(max(0.0, 60 - (time.monotonic() - began)))
    assert len(crew.records()) > during, "the others went on"
    cable.mend()
    for host in ("a", "c", "d"):
        assert crew.ended(host, 600) == 0, crew.said(host)
    crew.assert_whole()
    crew.assert_secret_kept()
    by_number = {record.number: record for record in crew.records()}
    kept, lost = by_number[cut_in].verdict, by_number[killed_in].verdict
    assert kept is not None
    assert kept.outcome is not Outcome.INTERRUPTED, "what a machine measured while it was cut off is kept"
    assert lost is not None
    assert lost.outcome is Outcome.INTERRUPTED
    print(
        f"\n{len(crew.records())} trials, {len(crew.records('confirm'))} launched again; by machine "
        f"{dict(Counter(r.owner.host for r in crew.records()))}",
        file=sys.stderr,
    )
