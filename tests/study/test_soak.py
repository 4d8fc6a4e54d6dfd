"""A long night: hundreds of trials, four in ten of them faulty, and a tuner that is killed again and again."""

from __future__ import annotations

import random
import signal
import sqlite3
import sys
import time
from collections import Counter
from contextlib import closing

import pytest

from tests.bench import Bench, configurations
from tuner.domain.verdict import Outcome

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

TRIALS = 300
KILLS = 20
IMPATIENT = """
from tuner.process import engine_process
from tuner.study import start
from tuner.workload import patience
patience._SILENCE_S = patience._STALL_S = 1.5
patience._LEAST_PREFILL_TPS = 1000
start._LEAST_START_S = 4.0
engine_process.EngineProcess.__init__.__kwdefaults__["stop_grace_s"] = 0.5
"""
"""The tuner's deadlines, for an engine that starts at once: its faults would take the night otherwise."""


def test_nothing_is_lost_and_nothing_is_left(bench: Bench) -> None:
    rng = random.Random(20)
    # The baseline alone says nothing of where things are placed.
    bench.monkeypatch.setenv("FAKE_FAULT", "random@0.4?fit_target>=0,random@0.4?fit=off")
    words = bench.quick("--trials", str(TRIALS), "--confirm-rounds", "2")
    words[words.index("64")] = "64,128"
    finished: dict[int, str] = {}
    kills = 0
    began = time.monotonic()
    while True:
        process = bench.start(*words, prelude=IMPATIENT)
        words = ["run", "s"]
        if kills == KILLS:
            out, err = process.communicate()
            assert process.returncode == 0, f"{out[-2000:]}\n{err}"
            break
        # The kills lie anywhere in the night, however fast the machine is.
        target = len(finished) + rng.randint(1, 2 * TRIALS // KILLS - 3)
        while len(finished_now := closed(bench)) < min(target, TRIALS - 5) and process.poll() is None:
            time.sleep(0.2)
        time.sleep(rng.random())
        assert process.poll() is None, f"it ended by itself: {process.communicate()}"
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += 1
        finished_now = closed(bench)
        for number, record in finished.items():
            assert finished_now[number] == record, "a finished trial was lost or changed"
        finished = finished_now
        with closing(sqlite3.connect(bench.study() / "study.db")) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)

    records = bench.records()
    outcomes = Counter(record.verdict.outcome for record in records if record.verdict)
    print(
        f"\n{len(records)} trials, {kills} kills, {time.monotonic() - began:.0f} s: {dict(outcomes)}", file=sys.stderr
    )
    final = closed(bench)
    assert all(final[number] == record for number, record in finished.items())
    assert all(record.verdict is not None for record in records)
    launched = sum(count for outcome, count in outcomes.items() if outcome not in _NOT_CHARGED)
    assert launched == TRIALS
    assert outcomes[Outcome.INTERRUPTED] <= kills, "a kill loses at most the trial that runs"
    known = configurations(records)
    assert len(known) == len(set(known)), "nothing is measured twice"
    failed = sum(count for outcome, count in outcomes.items() if outcome not in {Outcome.OK, *_NOT_CHARGED})
    assert failed > 0.2 * TRIALS, "the night was not hard enough"
    assert len(outcomes) >= 6
    bench.assert_nothing_left()
    with closing(sqlite3.connect(bench.study() / "study.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


_NOT_CHARGED = {Outcome.INTERRUPTED, Outcome.WILL_NOT_FIT}


def closed(bench: Bench) -> dict[int, str]:
    """Trial number -> record, of all that have a verdict which is not an interruption."""
    return {
        number: record
        for number, record in bench.raw_records().items()
        if '"verdict"' in record and '"INTERRUPTED"' not in record
    }
