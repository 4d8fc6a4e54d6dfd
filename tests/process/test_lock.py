from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest
from families import PROGRAM, Families, runs, wait_for

from tuner.domain.errors import MissingFile, NotPermitted, StudyBusy
from tuner.process import lock
from tuner.process.leftovers import stop_leftovers
from tuner.process.lock import FileLock

HOLDER = """
import os, sys, time
from pathlib import Path
from tuner.process.engine_process import EngineProcess
from tuner.process.lock import FileLock
folder, log, marker, program, path = sys.argv[1:]
with FileLock(Path(path)):
    with EngineProcess([sys.executable, "-S", program, folder, "server"], env=os.environ, log_path=Path(log),
                       marker=marker):
        while not Path(folder, "server").exists(): time.sleep(0.01)
        print("ready", flush=True)
        time.sleep(60)
"""


def holder(families: Families, path: Path) -> subprocess.Popen[str]:
    process = families.python(HOLDER, str(PROGRAM), str(path))
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_holder_is_named_and_its_end_frees_the_lock(families: Families, tmp_path: Path) -> None:
    path = tmp_path / "lock"
    tuner = holder(families, path)
    with pytest.raises(StudyBusy) as raised, FileLock(path):
        pytest.fail("two tuners on one study")
    assert f"process {tuner.pid}," in raised.value.what
    assert raised.value.where == str(path)
    assert raised.value.advice
    assert str(tuner.pid) in raised.value.advice
    tuner.send_signal(signal.SIGINT)
    tuner.communicate(timeout=15)
    with FileLock(path):
        assert path.read_text() == f"{os.getpid()}\n"


def test_who_holds_a_lock_is_told_without_touching_it(families: Families, tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert lock.holder(path) is None
    tuner = holder(families, path)
    assert lock.holder(path) == tuner.pid
    tuner.kill()
    tuner.communicate(timeout=15)
    assert path.read_text() == f"{tuner.pid}\n", "a kill leaves the pid in the file"
    assert lock.holder(path) is None
    with FileLock(path):
        assert lock.holder(path) == os.getpid()
        os.utime(path, (1.0, 1.0))
        assert lock.holder(path) is None, "whoever wrote this before we began had our pid by chance"
    stop_leftovers(families.marker, grace_s=5)


def test_killed_holder_frees_the_lock_although_its_engine_lives(families: Families, tmp_path: Path) -> None:
    path = tmp_path / "lock"
    tuner = holder(families, path)
    tuner.kill()
    tuner.communicate(timeout=15)
    assert runs(families.pid("server"))
    with FileLock(path):
        assert path.read_text() == f"{os.getpid()}\n"
    stop_leftovers(families.marker, grace_s=5)


def test_no_program_inherits_the_lock_even_if_started_carelessly(tmp_path: Path) -> None:
    def is_free() -> bool:
        try:
            with FileLock(tmp_path / "lock"):
                return True
        except StudyBusy:
            return False

    with FileLock(tmp_path / "lock"):
        heir = subprocess.Popen(["/bin/sleep", "60"], close_fds=False)
    try:
        # A while: Linux lets the parent go on a moment before it closes the files of the program it starts.
        wait_for(is_free, seconds=5)
        assert heir.poll() is None
    finally:
        heir.kill()
        heir.wait()


def test_lock_is_free_again_after_the_block(tmp_path: Path) -> None:
    study_lock = FileLock(tmp_path / "lock")
    for _ in range(2):
        with study_lock, pytest.raises(StudyBusy), study_lock:
            pytest.fail("locked twice")
        with pytest.raises(ValueError, match="inside"), study_lock:
            raise ValueError("inside")


def test_a_long_pid_does_not_show_through_a_shorter_one(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("4194303000000000\n")
    with FileLock(path):
        assert path.read_text() == f"{os.getpid()}\n"
    assert path.read_text() == ""


def test_holder_that_has_not_written_its_pid_yet_is_no_other_error(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with FileLock(path):
        path.write_text("")
        with pytest.raises(StudyBusy), FileLock(path):
            pytest.fail("locked twice")


def test_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingFile) as raised, FileLock(tmp_path / "absent" / "lock"):
        pytest.fail("locked nothing")
    assert raised.value.where == str(tmp_path / "absent")


def test_lock_that_cannot_be_opened_is_not_permitted(tmp_path: Path) -> None:
    with pytest.raises(NotPermitted), FileLock(tmp_path):
        pytest.fail("locked a folder")


def test_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> bool:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(lock, "lock_at_once", refuse)
    before = psutil.Process().num_fds()
    with pytest.raises(NotPermitted, match="not supported"), FileLock(tmp_path / "lock"):
        pytest.fail("locked without locks")
    assert psutil.Process().num_fds() == before
