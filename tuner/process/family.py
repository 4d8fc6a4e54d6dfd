"""Which processes belong to an engine: those of its session, those that carry its marker, and their descendants.

Each sign alone misses some. A worker that begins a session of its own leaves the engine's; an orphan is nobody's
descendant; a process that writes a title over its environment (the setproctitle package does) shows no marker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

import psutil

from tuner.process.operating_system import session_of

MARKER_VARIABLE = "TUNER_MARKER"
"""Set in an engine's environment, inherited by all its descendants."""


def marked_processes(accepts: Callable[[str], bool]) -> dict[psutil.Process, str]:
    """This user's processes whose marker is accepted, with the marker; neither the caller nor its ancestors."""
    me = psutil.Process()
    # By pid: ancestors can be out of sight (another user's, or outside a container), but never among the results.
    spared = {me.pid, *(ancestor.pid for ancestor in me.parents())}
    found: dict[psutil.Process, str] = {}
    for pid in psutil.pids():
        # Gone, a zombie, another user's, or (macOS) protected: none of them is known to be ours.
        with suppress(psutil.Error, OSError):
            process = psutil.Process(pid)
            marker = process.environ().get(MARKER_VARIABLE)
            if marker is None or pid in spared or not accepts(marker):
                continue
            if process.username() == me.username():
                found[process] = marker
    return found


def session_members(sessions: Iterable[int]) -> set[psutil.Process]:
    """All processes of the sessions and those that began them (on Windows: only these); not the caller's session."""
    wanted = set(sessions) - {session_of(psutil.Process().pid)}
    members = set()
    for pid in psutil.pids():
        if pid in wanted or session_of(pid) in wanted:
            with suppress(psutil.Error):
                members.add(psutil.Process(pid))
    return members


def with_descendants(processes: Iterable[psutil.Process]) -> set[psutil.Process]:
    """The processes and all their descendants, without those that are the caller or an ancestor of it."""
    roots = set(processes)
    pids = {process.pid for process in roots}
    family = set(roots)
    for root in roots:
        with suppress(psutil.Error):
            if root.ppid() not in pids:
                family.update(root.children(recursive=True))
    me = psutil.Process()
    return family - {me, *me.parents()}


def is_alive(process: psutil.Process) -> bool:
    """Whether it still runs. A zombie does not: it waits for its parent to read the exit code, and holds nothing.

    One kind of zombie does run: the first thread of a process is shown as one while others still work, or, after a
    kill, still give back memory. On Linux their number is told.
    """
    try:
        if not process.is_running():
            return False
        return process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False
    except psutil.Error:
        return True
