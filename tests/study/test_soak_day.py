"""Twenty-four hours in one: five hundred trials with faults, kills, restarts of the machine, pauses and power caps."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest

from tests.bench import Bench, configurations
from tests.study.test_gpu_studies import Machine
from tests.study.test_soak import IMPATIENT, closed
from tuner.domain.verdict import Outcome

pytestmark = [pytest.mark.soak, pytest.mark.timeout(5400)]

TRIALS = 500
KILLS, REBOOTS, PAUSES = 20, 8, 8
CAPS_W = (350, 339)
AT_ONCE = "from tuner.study import settle\nsettle._PAUSE_AFTER_CRASH_S = 0.0"
_NOT_CHARGED = {Outcome.INTERRUPTED, Outcome.WILL_NOT_FIT}


def test_a_day_in_an_hour(bench: Bench, tmp_path: Path) -> None:
    machine = Machine(bench, tmp_path)
    bench.monkeypatch.setenv("FAKE_FAULT", "random@0.3?fit_target>=0,random@0.3?fit=off")
    words = bench.quick("--power-cap", "--trials", str(TRIALS), "--confirm-rounds", "2", "--after-crashes")
    words[words.index("64")] = "64,128"
    events = ["kill"] * KILLS + ["reboot"] * REBOOTS + ["pause"] * PAUSES
    random.Random(9).shuffle(events)
    rng, boots, interrupted = random.Random(10), 0, 0
    finished: dict[int, str] = {}
    caps_left_changed, began = 0, time.monotonic()

    def start() -> subprocess.Popen[str]:
        nonlocal words
        bench.monkeypatch.setenv("TUNER_BOOT_ID", f"boot-{boots}")
        process = machine.start(*words, prelude=f"{IMPATIENT}\n{AT_ONCE}")
        words = ["run", "s", "--after-crashes"]
        return process

    process = start()
    for place, event in enumerate(events):
        target = (place + 1) * (TRIALS - 20) // len(events) + rng.randint(-4, 4)
        while len(closed(bench)) < target and process.poll() is None:
            time.sleep(0.2)
        time.sleep(rng.random())
        assert process.poll() is None, f"it ended by itself: {process.communicate()}"
        if event == "pause":
            _pause(bench, process)
            continue
        process.send_signal(signal.SIGKILL)
        process.communicate()
        interrupted += 1
        caps_left_changed += (machine.nvidia_cap_w, machine.radeon_cap_w) != CAPS_W
        if event == "reboot":
            boots += 1
            # As the hardware does it: a restart takes every cap back.
            machine.nvml.set(0, cap_mw=CAPS_W[0] * 1000)
            machine.radeon_cap.write_text(f"{CAPS_W[1] * 10**6}\n")
            for engine in bench.engines():
                with suppress(psutil.Error):
                    engine.kill()
        now = closed(bench)
        assert all(now[number] == record for number, record in finished.items()), "a finished trial changed"
        finished = now
        _assert_sound(bench)
        process = start()
    out, err = process.communicate()
    assert process.returncode == 0, f"{out[-2000:]}\n{err}"

    records = bench.records()
    outcomes = Counter(record.verdict.outcome.value for record in records if record.verdict)
    seconds = time.monotonic() - began
    told = f"{len(records)} trials and {len(bench.records('confirm'))} confirmations in {seconds:.0f} s"
    print(
        f"\n{told}: {KILLS} kills, {REBOOTS} restarts, {PAUSES} pauses; caps were left changed {caps_left_changed} "
        f"times; {dict(outcomes)}",
        file=sys.stderr,
    )
    final = closed(bench)
    assert all(final[number] == record for number, record in finished.items())
    assert all(record.verdict is not None for record in [*records, *bench.records("confirm")])
    launched = sum(1 for r in records if r.verdict and r.verdict.outcome not in _NOT_CHARGED)
    assert TRIALS <= launched < TRIALS + 8, "several caps are measured on one launch"
    assert outcomes["INTERRUPTED"] + outcomes["HOST_CRASH"] <= interrupted
    assert outcomes["HOST_CRASH"] <= REBOOTS
    known = configurations(records)
    assert len(known) == len(set(known)), "nothing is measured twice"
    assert caps_left_changed, "no kill came while a cap was lowered"
    assert (machine.nvidia_cap_w, machine.radeon_cap_w) == CAPS_W
    assert not (machine.state / "power-caps.json").exists()
    bench.assert_nothing_left()
    _assert_sound(bench)


def _pause(bench: Bench, process: subprocess.Popen[str]) -> None:
    log = bench.study() / "run.log"
    before = log.read_text().count("paused, no engine runs")
    assert bench.tuner("pause", "s").code == 0
    bench.wait_for(lambda: log.read_text().count("paused, no engine runs") > before, of=process)
    records = bench.raw_records()
    time.sleep(2)
    assert bench.engines() == []
    assert bench.raw_records() == records
    assert bench.tuner("pause", "s", "--end").code == 0


def _assert_sound(bench: Bench) -> None:
    with closing(sqlite3.connect(bench.study() / "study.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
