"""The way to stop processes for certain: ask, wait, kill, wait until nobody is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress

import psutil

from tuner.domain.errors import NotPermitted
from tuner.process.family import is_alive
from tuner.process.operating_system import ask_to_stop, kill_group

DEATH_WAIT_S = 30.0
"""How long a killed process may take to be gone: the system first takes back its memory, also that on the GPU."""

_PAUSE_S = 0.02


def end_processes(
    find: Callable[[], Iterable[psutil.Process]],
    *,
    group: int | None = None,
    grace_s: float,
    death_wait_s: float = DEATH_WAIT_S,
    hurry: Callable[[], bool] = lambda: False,
) -> set[psutil.Process]:
    """Ends all processes that `find` tells of, those that appear meanwhile included. Returns those it ended.

    Args:
        find: looks up the processes anew; asked again each time when all known ones are gone.
        group: a process group that is known to consist of such processes only.
        grace_s: how long they may take after having been asked, before they are killed.
        death_wait_s: how long they may take after having been killed.
        hurry: true when they must be killed without waiting any longer.

    Raises:
        NotPermitted: some are still there, and which.
    """
    seen: set[psutil.Process] = set()
    alive: set[psutil.Process] = set()

    def look() -> set[psutil.Process]:
        known = {process for process in alive if is_alive(process)}
        # A full search reads the environment of every process on the machine: only when it can be the last one.
        found = known or {process for process in find() if is_alive(process)}
        seen.update(found)
        return found

    alive = look()
    asked: set[psutil.Process] = set()
    deadline = time.monotonic() + grace_s
    while alive and not hurry() and time.monotonic() < deadline:
        ask_to_stop(alive - asked, None if asked else group)
        asked |= alive
        time.sleep(_PAUSE_S)
        alive = look()

    deadline = time.monotonic() + death_wait_s
    while alive:
        refused = _kill(alive, group)
        time.sleep(_PAUSE_S)
        alive = look()
        if alive and (alive <= refused or time.monotonic() >= deadline):
            pids = ", ".join(f"{process.pid}" for process in sorted(alive, key=lambda process: process.pid))
            raise NotPermitted(
                f"processes of the engine cannot be stopped: {pids}",
                advice=f"stop them with the rights they were started with: kill -9 {pids.replace(',', '')}",
            )
    return seen


def _kill(processes: set[psutil.Process], group: int | None) -> set[psutil.Process]:
    """Kills them, and returns those for which the system refused it."""
    if group is not None:
        kill_group(group)
    refused = set()
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            try:
                process.kill()
            except psutil.AccessDenied:
                refused.add(process)
    return refused
