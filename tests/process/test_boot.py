from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from families import Families, wait_for

from tuner.domain.record import Owner
from tuner.process import boot
from tuner.process.boot import boot_id, owner_alive, this_process


def owner(pid: int, **changes: str) -> Owner:
    return this_process().model_copy(update={"pid": pid, **changes})


def test_boot_id_is_the_same_in_another_process(families: Families) -> None:
    process = families.python("from tuner.process.boot import boot_id; print(boot_id())")
    assert process.communicate()[0].strip() == boot_id() != ""


def test_boot_id_without_linux_is_the_time_of_the_boot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(boot, "_LINUX_BOOT_ID", tmp_path / "absent")
    monkeypatch.setattr(psutil, "boot_time", lambda: 1_700_000_002.0)
    first = boot_id()
    monkeypatch.setattr(psutil, "boot_time", lambda: 1_700_000_003.0)
    assert boot_id() == first
    monkeypatch.setattr(psutil, "boot_time", lambda: 1_700_000_302.0)
    assert boot_id() != first


def test_own_process_is_alive() -> None:
    assert owner_alive(this_process())
    assert owner_alive(this_process(), started_at=time.time())


def test_after_a_restart_nobody_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    before = this_process()
    monkeypatch.setenv(boot.BOOT_ID_VARIABLE, "the next boot")
    assert not owner_alive(before)
    assert owner_alive(this_process())


def test_of_another_host_nothing_is_known() -> None:
    assert not owner_alive(owner(os.getpid(), host="another"))


def test_another_python_is_alive_until_it_ends_even_when_nobody_collects_it() -> None:
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert owner_alive(owner(other.pid), started_at=time.time())
    other.kill()
    wait_for(lambda: psutil.Process(other.pid).status() == psutil.STATUS_ZOMBIE)
    assert not owner_alive(owner(other.pid))
    other.communicate()
    assert not owner_alive(owner(other.pid))


def test_pid_that_was_given_to_another_program_is_not_the_owner() -> None:
    other = subprocess.Popen(["/bin/sleep", "60"])
    wait_for(lambda: psutil.Process(other.pid).name() == "sleep")
    assert not owner_alive(owner(other.pid))
    other.kill()
    other.wait()


def test_pid_that_was_given_to_a_later_python_is_not_the_owner() -> None:
    """The record tells when it was begun; this Python started later."""
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert not owner_alive(owner(other.pid), started_at=time.time() - 60)
    other.kill()
    other.communicate()
