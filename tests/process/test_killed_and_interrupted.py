"""What becomes of an engine when its tuner, another Python here, is interrupted, killed, or just ends."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time

import pytest
from families import PROGRAM, Families, wait_for

from tuner.process.leftovers import find_leftovers, stop_leftovers

HOLDER = """
import os, sys, time
from pathlib import Path
from tuner.process.engine_process import EngineProcess
folder, log, marker, program, grace_s, *members = sys.argv[1:]
engine = EngineProcess([sys.executable, "-S", program, folder, *members], env=os.environ, log_path=Path(log),
                       marker=marker, stop_grace_s=float(grace_s))
print("begins", flush=True)
"""

IN_A_BLOCK = HOLDER + "\nwith engine:\n    time.sleep(60)\n"
WITHOUT_A_BLOCK = HOLDER + "\nengine.start()\nwhile not Path(folder, 'launcher').exists(): time.sleep(0.01)\n"
IN_A_BLOCK_WITH_SIGTERM_HANDLED = (
    "import signal\nsignal.signal(signal.SIGTERM, lambda *_: exit('asked to end'))\n" + IN_A_BLOCK
)


def holder(families: Families, code: str, grace_s: float, *members: str) -> subprocess.Popen[str]:
    return families.python(code, str(PROGRAM), str(grace_s), *members)


def end_of(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate(timeout=15)
    return process.returncode, errors


def test_ctrl_c_stops_the_engine(families: Families) -> None:
    tuner = holder(families, IN_A_BLOCK, 20, "launcher", "worker:own-session")
    families.wait_until_ready("launcher")
    tuner.send_signal(signal.SIGINT)
    code, errors = end_of(tuner)
    assert code == -signal.SIGINT, errors
    assert "KeyboardInterrupt" in errors
    assert families.living() == []


@pytest.mark.parametrize("further", [1, 4])
def test_ctrl_c_while_stopping_kills_at_once_and_is_raised(families: Families, further: int) -> None:
    tuner = holder(families, IN_A_BLOCK, 60, "launcher:ignores-term", "worker:ignores-term,own-session")
    families.wait_until_ready("launcher")
    tuner.send_signal(signal.SIGINT)
    wait_for((families.folder / "launcher.asked").exists)
    assert len(families.living()) == 2
    began = time.monotonic()
    for _ in range(further):
        tuner.send_signal(signal.SIGINT)
        time.sleep(0.005)
    code, errors = end_of(tuner)
    assert time.monotonic() - began < 5
    assert code == -signal.SIGINT, errors
    assert "KeyboardInterrupt" in errors
    assert families.living() == []


def test_other_signals_that_the_tuner_handles_hurry_it_too(families: Families) -> None:
    tuner = holder(families, IN_A_BLOCK_WITH_SIGTERM_HANDLED, 60, "launcher:ignores-term")
    families.wait_until_ready("launcher")
    tuner.send_signal(signal.SIGINT)
    wait_for((families.folder / "launcher.asked").exists)
    tuner.send_signal(signal.SIGTERM)
    code, errors = end_of(tuner)
    assert (code, "asked to end" in errors) == (1, True), errors
    assert families.living() == []


@pytest.mark.parametrize("seed", range(6))
def test_ctrl_c_at_any_moment_leaves_nothing(families: Families, seed: int) -> None:
    """From before the start until the end, in quick succession."""
    moment = random.Random(seed)
    tuner = holder(families, IN_A_BLOCK, 60, "launcher:ignores-term", "worker:own-session,ignores-term")
    assert tuner.stdout is not None
    assert tuner.stdout.readline() == "begins\n"
    time.sleep(moment.uniform(0, 0.02) if seed % 2 else moment.uniform(0, 0.3))
    while tuner.poll() is None:
        tuner.send_signal(signal.SIGINT)
        time.sleep(moment.uniform(0, 0.01))
    end_of(tuner)
    assert find_leftovers(families.marker) == []
    assert families.living() == []


def test_engine_without_a_block_ends_with_the_interpreter(families: Families) -> None:
    tuner = holder(families, WITHOUT_A_BLOCK, 20, "launcher:ignores-term", "worker")
    code, errors = end_of(tuner)
    assert code == 0, errors
    assert len(families.pids()) == 2
    wait_for(lambda: families.living() == [])


def test_fork_of_the_tuner_does_not_take_the_engine_with_it(families: Families) -> None:
    code = WITHOUT_A_BLOCK + "\nif os.fork() == 0:\n    sys.exit()\nos.wait()\nprint(engine.is_running(), flush=True)\n"
    tuner = holder(families, code, 20, "launcher")
    output, errors = tuner.communicate(timeout=15)
    assert output.split()[-1] == "True", errors


@pytest.mark.parametrize(
    "members",
    [
        ["launcher", "worker:ignores-term", "worker2:own-session,ignores-term"],
        ["launcher:exits", "worker:own-session,ignores-term"],
        ["launcher", "worker:hides-environment"],
        ["launcher", "middle:exits", "worker:hides-environment"],
        ["launcher", "worker:no-environment,own-session"],
    ],
    ids=" ".join,
)
def test_engine_of_a_killed_tuner_is_found_and_stopped_later(families: Families, members: list[str]) -> None:
    tuner = holder(families, IN_A_BLOCK, 20, *members)
    families.wait_until_ready(*members)
    os.kill(tuner.pid, signal.SIGKILL)
    assert end_of(tuner)[0] == -signal.SIGKILL
    living = families.living()
    assert living, "the kill of the tuner itself must not have stopped them, else this tests nothing"

    found = find_leftovers(families.marker[:-4])
    stopped = stop_leftovers(families.marker[:-4], grace_s=0.3)

    assert families.living() == []
    assert {leftover.pid for leftover in found} == {leftover.pid for leftover in stopped} <= set(living)
    assert {leftover.marker for leftover in stopped} == {families.marker}
    assert all("python" in leftover.name for leftover in stopped)
    assert all(abs(time.time() - leftover.started_at) < 30 for leftover in stopped)
    assert find_leftovers(families.marker) == []
    assert stop_leftovers(families.marker, grace_s=0.3) == []
