"""Whether the process that began a trial is still there: tells a running trial from an interrupted or fatal one."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import psutil

from tuner.domain.record import Owner
from tuner.process.family import is_alive

BOOT_ID_VARIABLE = "TUNER_BOOT_ID"
"""A hook for tests: when set, its value is the boot id, so that a test can have the machine restart."""

HOST_VARIABLE = "TUNER_HOST"
"""A name for this machine where its own changes, as a container's does, or where two workers share one machine."""

_LINUX_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

CLOCK_SLACK_S = 5.0
"""A process's start is told in whole clock ticks since the boot, and the time of the boot in whole seconds."""


def boot_id() -> str:
    """Names the present run of the operating system: it differs after a restart, and only then.

    Linux keeps one (/proc/sys/kernel/random/boot_id). Elsewhere it is the time of the boot, which such systems work
    out from the clock and correct by seconds now and then; so it is rounded to minutes.
    """
    if override := os.environ.get(BOOT_ID_VARIABLE):
        return override
    try:
        return _LINUX_BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return f"booted-at-{round(psutil.boot_time() / 60) * 60}"


def host_name() -> str:
    """What this machine is called in records."""
    return os.environ.get(HOST_VARIABLE) or socket.gethostname()


def this_process() -> Owner:
    """The calling process, as the owner of what it records."""
    return Owner(host=host_name(), boot_id=boot_id(), pid=os.getpid())


def owner_alive(owner: Owner, *, started_at: float | None = None) -> bool:
    """Whether the process that the record names is still running, and is the same one.

    Args:
        owner: from a record. Of another host nothing is known: False, so look at `owner.host` first where that counts.
        started_at: when the record was begun, in seconds since the epoch. A process with this pid that started later
            cannot have written it. Without it only the look of the process tells that its pid was given to another.
    """
    if (owner.host, owner.boot_id) != (host_name(), boot_id()):
        return False
    try:
        process = psutil.Process(owner.pid)
        if not is_alive(process):
            return False
        if started_at is not None and process.create_time() > started_at + CLOCK_SLACK_S:
            return False
        return owner.pid == os.getpid() or _looks_like_tuner(process)
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def _looks_like_tuner(process: psutil.Process) -> bool:
    """A Python, or a launcher called after the tuner: what else has got a pid again is most likely neither."""
    names = [process.name(), *(Path(argument).name for argument in process.cmdline()[:1])]
    return any("python" in name.lower() or "tuner" in name.lower() for name in names)
