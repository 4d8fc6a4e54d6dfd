"""The tuner is killed, interrupted and started twice: what was measured stays, and no engine is left."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import time
from contextlib import closing

import pytest

from tests.bench import Bench, configurations
from tuner.domain.record import TrialRecord
from tuner.domain.verdict import Outcome

SPACE = """
schema_version = 1
engine = "llama_server"
[parameters.parallel]
flag = "--parallel"
choices = [1, 2, 4]
default = 4
about = "Slots."
[parameters.ubatch_size]
flag = "--ubatch-size"
choices = [256, 512, 1024]
default = 512
about = "Chunks."
[[seeds]]
name = "the one that hangs"
because = "a test"
values = { parallel = 1 }
"""

Raw = dict[tuple[str, int], str]


def finished(bench: Bench) -> Raw:
    """The records of all trials that have a verdict, as they lie in the storage."""
    return {
        (stage, number): text
        for stage in ("search", "confirm")
        for number, text in bench.raw_records(stage).items()
        if "verdict" in json.loads(text)
    }


def outcomes(bench: Bench) -> list[Outcome]:
    return [record.verdict.outcome for record in bench.records() if record.verdict is not None]


def integrity(bench: Bench) -> str:
    if not (bench.study() / "study.db").is_file():
        return "ok"
    with closing(sqlite3.connect(bench.study() / "study.db")) as connection:
        (state,) = connection.execute("PRAGMA integrity_check").fetchone()
    return str(state)


def open_record(bench: Bench) -> TrialRecord | None:
    return next((record for record in bench.records() if record.verdict is None), None)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_killed_five_times_it_loses_nothing_and_measures_nothing_twice(bench: Bench) -> None:
    moments = random.Random(20)
    assert bench.tuner("init", *bench.quick()[1:5], "--name", "s").code == 0
    toml = (bench.study() / "study.toml").read_text().replace("depths = []", "depths = [64]")
    (bench.study() / "study.toml").write_text(toml)
    known: Raw = {}
    for _ in range(5):
        process = bench.start("run", "s", "--trials", "9", "--confirm-rounds", "2")
        # From its first write to some trials later.
        bench.wait_for((bench.study() / "frozen.json").is_file, process)
        time.sleep(moments.uniform(0.0, 5.0))
        process.kill()
        process.communicate()
        now = finished(bench)
        assert known.items() <= now.items(), "what is finished never changes"
        known = now
        assert integrity(bench) == "ok"
    said = bench.tuner("run", "s", "--trials", "9", "--confirm-rounds", "2")
    assert said.code == 0, said.err
    now = finished(bench)
    assert known.items() <= now.items()
    assert integrity(bench) == "ok"
    bench.assert_nothing_left()
    measured = configurations(bench.records())
    assert len(measured) == len(set(measured)) == 9
    baselines = [record for record in bench.records() if record.is_baseline and record.verdict]
    assert [record.verdict.outcome for record in baselines if record.verdict][-1] is Outcome.OK
    # The seeds that a kill took away were all launched again, each as a whole.
    space: dict[str, list[dict[str, object]]] = bench.frozen()["space"]  # type: ignore[assignment]
    seeds = {str(seed["name"]): seed["values"] for seed in space["seeds"]}
    launched = {record.note: record for record in bench.records() if record.note in seeds}
    ran = [record.note for record in bench.records() if record.note in seeds and record.verdict
           and record.verdict.outcome is not Outcome.INTERRUPTED]  # fmt: skip
    assert sorted(ran) == sorted(set(ran))
    for name, record in launched.items():
        values = seeds[name]
        assert isinstance(values, dict)
        assert values.items() <= record.configuration.values.items()


def start_slow_study(bench: Bench) -> subprocess.Popen[str]:
    """A study whose launches hang after the baseline. Returns when one of them runs."""
    bench.monkeypatch.setenv("FAKE_FAULT", "hang_request?parallel=1")
    space = bench.file("space.toml", SPACE)
    process = bench.start(*bench.quick("--trials", "5", "--confirm-rounds", "2", "--space", str(space)))
    bench.wait_for(lambda: (bench.study() / "frozen.json").is_file() and len(bench.raw_records()) > 1, process)
    bench.wait_for(bench.engines, process)
    return process


def test_ctrl_c_stops_in_order_and_says_how_to_continue(bench: Bench) -> None:
    process = start_slow_study(bench)
    process.send_signal(signal.SIGINT)
    code, out, err = ended(process)
    assert code == 130
    assert "Continue with: tuner run s" in out
    assert "Traceback" not in out + err
    bench.assert_nothing_left()
    assert outcomes(bench) == [Outcome.OK, Outcome.INTERRUPTED]
    before = finished(bench)

    bench.monkeypatch.delenv("FAKE_FAULT")
    said = bench.tuner("run", "s")
    assert said.code == 0, said.err
    assert before.items() <= finished(bench).items()
    measured = configurations(bench.records())
    assert len(measured) == len(set(measured)) == 5
    interrupted, *rest = [record for record in bench.records() if not record.is_baseline]
    assert interrupted.configuration in [record.configuration for record in rest], "it was launched again"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_polite_kill_stops_as_ctrl_c_does(bench: Bench, number: signal.Signals) -> None:
    process = start_slow_study(bench)
    process.send_signal(number)
    code, out, err = ended(process)
    assert code == 130
    assert "Continue with: tuner run s" in out
    assert "Traceback" not in out + err
    bench.assert_nothing_left()
    assert outcomes(bench) == [Outcome.OK, Outcome.INTERRUPTED]


def test_ctrl_c_twice_leaves_at_once(bench: Bench) -> None:
    process = start_slow_study(bench)
    process.kill()  # the seed that hangs must not end politely either
    process.communicate()
    bench.monkeypatch.setenv("FAKE_FAULT", "ignore_sigterm?parallel=1,hang_request?parallel=1")
    process = bench.start("run", "s")
    known = len(bench.raw_records())
    bench.wait_for(lambda: len(bench.raw_records()) > known and bench.engines(), process)
    time.sleep(0.5)  # until the engine has its handler
    process.send_signal(signal.SIGINT)
    time.sleep(0.7)
    assert process.poll() is None, "it waits for the engine to end by itself"
    asked = time.monotonic()
    process.send_signal(signal.SIGINT)
    code, out, err = ended(process)
    assert time.monotonic() - asked < 5
    assert code == 130
    assert "Traceback" not in out + err
    bench.assert_nothing_left()


def test_a_trial_that_took_the_machine_down_is_never_launched_again(bench: Bench) -> None:
    bench.monkeypatch.setenv("TUNER_BOOT_ID", "before")
    process = start_slow_study(bench)
    culprit = open_record(bench)
    assert culprit is not None
    process.kill()
    process.communicate()
    for engine in bench.engines():  # as a restart would
        engine.kill()
        engine.wait(10)

    bench.monkeypatch.setenv("TUNER_BOOT_ID", "after")
    bench.monkeypatch.delenv("FAKE_FAULT")
    said = bench.tuner("run", "s")
    assert said.code == 0, said.err
    fate = [record for record in bench.records() if record.configuration == culprit.configuration]
    assert [record.verdict.outcome for record in fate if record.verdict] == [Outcome.HOST_CRASH]
    assert len(configurations(bench.records())) == len(set(configurations(bench.records())))
    assert "HOST_CRASH" in bench.tuner("status", "s").out


def test_a_baseline_that_took_the_machine_down_is_not_tried_again(bench: Bench) -> None:
    bench.monkeypatch.setenv("TUNER_BOOT_ID", "before")
    bench.monkeypatch.setenv("FAKE_FAULT", "hang_load")
    process = bench.start(*bench.quick("--trials", "2"))
    bench.wait_for(lambda: (bench.study() / "frozen.json").is_file() and bench.engines(), process)
    process.kill()
    process.communicate()
    bench.engines()[0].kill()

    bench.monkeypatch.setenv("TUNER_BOOT_ID", "after")
    for _ in range(2):
        said = bench.tuner("run", "s")
        assert said.code == 2
        assert "The machine went down while the baseline ran" in said.err
        assert "try:" in said.err
    assert len(bench.records()) == 1


def test_a_second_tuner_on_a_study_is_turned_away_and_readers_are_not(bench: Bench) -> None:
    process = start_slow_study(bench)
    before = finished(bench)
    said = bench.tuner("run", "s")
    assert said.code == 2
    assert f"process {process.pid}" in said.err
    assert "try:" in said.err

    status = bench.tuner("status", "s", "--json")
    assert status.code == 0
    assert json.loads(status.out)["running"] is True
    assert bench.tuner("best", "s").code == 0
    assert process.poll() is None
    assert bench.engines(), "neither of them has stopped its engine"
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == 130
    assert before.items() <= finished(bench).items()
    assert json.loads(bench.tuner("status", "s", "--json").out)["running"] is False


def test_a_night_off_is_not_charged(bench: Bench) -> None:
    """The hours between a kill and the next start are nobody's."""
    process = start_slow_study(bench)
    process.kill()
    process.communicate()
    used = json.loads(bench.tuner("status", "s", "--json").out)["used_s"]
    with closing(sqlite3.connect(bench.study() / "study.db")) as database, database:
        for row, text in database.execute(
            "SELECT trial_user_attribute_id, value_json FROM trial_user_attributes WHERE key = 'record'"
        ).fetchall():
            record = json.loads(json.loads(text))
            for name in {"started_at", "finished_at"} & record.keys():
                record[name] -= 36000
            database.execute(
                "UPDATE trial_user_attributes SET value_json = ? WHERE trial_user_attribute_id = ?",
                (json.dumps(json.dumps(record)), row),
            )
    bench.monkeypatch.delenv("FAKE_FAULT")
    assert bench.tuner("run", "s", "--trials", "2").code == 0
    assert json.loads(bench.tuner("status", "s", "--json").out)["used_s"] < used + 300
