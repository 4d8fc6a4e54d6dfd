from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest
from families import Families, runs, wait_for

from tuner.process.leftovers import find_leftovers, stop_leftovers


def start(families: Families, *members: str, **env: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(families.argv(*members), env={**os.environ, **env}, start_new_session=True)
    families.wait_until_ready(members[0].partition(":")[0])
    return process


def test_only_the_given_prefix_counts(families: Families) -> None:
    mine = start(families, "mine", TUNER_MARKER=f"{families.marker}:7")
    other = start(families, "other", TUNER_MARKER=f"another-{families.marker}")
    unmarked = start(families, "unmarked")
    assert [leftover.pid for leftover in find_leftovers(f"{families.marker}:")] == [mine.pid]
    stop_leftovers(f"{families.marker}:", grace_s=5)
    assert families.living() == [pid for pid in families.pids() if pid in (other.pid, unmarked.pid)]
    for process in (other, unmarked):
        process.kill()
    for process in (mine, other, unmarked):
        process.wait()


def test_a_session_that_no_engine_began_is_spared(families: Families) -> None:
    """Somebody sets the variable by hand in a terminal: the terminal's shell must survive."""
    terminal = start(families, "terminal", "by_hand:marked", CHILD_MARKER=families.marker)
    assert [leftover.pid for leftover in stop_leftovers(families.marker, grace_s=5)] == [families.pid("by_hand")]
    assert runs(terminal.pid)
    terminal.kill()
    terminal.wait()


def test_the_caller_and_its_ancestors_are_spared(families: Families) -> None:
    """A tuner that is run below an engine of another one, or by a test, carries that one's marker itself."""
    inner = (
        "import json, subprocess, sys, os\n"
        "from tuner.process.leftovers import stop_leftovers\n"
        "sibling = subprocess.Popen(sys.argv[4:], start_new_session=True)\n"
        "stopped = stop_leftovers(os.environ['TUNER_MARKER'], 0.3)\n"
        "sibling.wait()\n"
        "print(json.dumps([sibling.pid, [leftover.pid for leftover in stopped]]))\n"
    )
    outer = "import subprocess, sys\nprint(subprocess.check_output([sys.executable, '-c', *sys.argv[4:]], text=True))\n"
    process = families.python(outer, inner, "", "", "", *families.argv("sibling"), TUNER_MARKER=families.marker)
    output, errors = process.communicate(timeout=15)
    assert process.returncode == 0, errors
    sibling, stopped = json.loads(output)
    assert stopped == [sibling]


def test_is_quick_on_a_busy_machine(families: Families) -> None:
    """Less than 100 ms of CPU time among a few hundred processes; the clock would also count what others do."""
    crowd = [subprocess.Popen(["/bin/sleep", "60"], start_new_session=True) for _ in range(200)]
    try:
        marked = start(families, "marked", TUNER_MARKER=families.marker)
        spent = []
        for _ in range(4):
            began = time.process_time()
            assert len(find_leftovers(families.marker)) == 1
            spent.append(time.process_time() - began)
        assert min(spent) < 0.1
        stop_leftovers(families.marker, grace_s=5)
        marked.wait()
    finally:
        for process in crowd:
            process.kill()
        for process in crowd:
            process.wait()


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="needs root, to become another user")
def test_processes_of_other_users_are_neither_found_nor_stopped(families: Families) -> None:
    other = subprocess.Popen(["/bin/sleep", "60"], env={"TUNER_MARKER": families.marker}, user=65534, group=65534)
    try:
        wait_for(lambda: runs(other.pid))
        assert stop_leftovers(families.marker, grace_s=0.1) == []
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
