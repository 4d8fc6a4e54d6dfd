"""Engines that an earlier run left behind because it was killed."""

from __future__ import annotations

from dataclasses import dataclass

import psutil

from tuner.process.ending import end_processes
from tuner.process.family import marked_processes, session_members, with_descendants
from tuner.process.operating_system import session_of


@dataclass(frozen=True)
class Leftover:
    """A process that carries the marker of an engine."""

    pid: int
    name: str
    marker: str
    started_at: float
    """Seconds since the epoch."""


def find_leftovers(marker_prefix: str) -> list[Leftover]:
    """All processes of this user that carry a marker with the prefix, oldest first.

    Engines that the caller itself is running count, so ask before starting any; the caller and its ancestors do not.
    Processes that may not be looked into (another user's, or protected by the system) are passed over.
    """
    marked = marked_processes(lambda marker: marker.startswith(marker_prefix))
    leftovers = [leftover for process in marked if (leftover := _describe(process, marked[process]))]
    return sorted(leftovers, key=lambda leftover: leftover.started_at)


def stop_leftovers(marker_prefix: str, grace_s: float) -> list[Leftover]:
    """Ends what `find_leftovers` finds, with all members of their sessions and all descendants.

    Args:
        marker_prefix: the beginning of the markers; anything that carries one is ended, so it names the study.
        grace_s: seconds from the request to stop to the kill.

    Returns:
        The processes that carried a marker, oldest first.

    Raises:
        NotPermitted: processes are left that cannot be stopped, with their pids.
    """
    stopped: dict[psutil.Process, Leftover] = {}

    def find() -> set[psutil.Process]:
        marked = marked_processes(lambda marker: marker.startswith(marker_prefix))
        for process, marker in marked.items():
            if leftover := _describe(process, marker):
                stopped[process] = leftover
        # Only sessions that a marked process began: one that merely has a marked process in it may be a person's
        # terminal, in which the variable was set by hand.
        begun = [process.pid for process in marked if session_of(process.pid) == process.pid]
        return with_descendants(session_members(begun) | set(marked))

    end_processes(find, grace_s=grace_s)
    return sorted(stopped.values(), key=lambda leftover: leftover.started_at)


def _describe(process: psutil.Process, marker: str) -> Leftover | None:
    """None when it has ended meanwhile."""
    try:
        return Leftover(process.pid, process.name(), marker, process.create_time())
    except psutil.Error:
        return None
