"""What differs between operating systems: the only file of this room with calls that some of them lack."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress

import psutil

if sys.platform == "win32":
    import msvcrt

    CREATION_FLAGS = subprocess.CREATE_NEW_PROCESS_GROUP
    """For `subprocess.Popen`: the child leads a process group of its own, so that Ctrl-C does not reach it."""

    _LOCKED_BYTE = 1 << 30
    # Windows locks are mandatory: a byte far behind the content is locked, so that others can read the content.

    def session_of(pid: int) -> int | None:  # noqa: ARG001
        """None: Windows has no sessions in the POSIX sense; an engine is found by its tree and its marker."""
        return None

    def exit_code(process: subprocess.Popen[bytes]) -> int | None:
        """The exit code, or None while the process runs."""
        return process.poll()

    def ask_to_stop(processes: Iterable[psutil.Process], group: int | None) -> None:  # noqa: ARG001
        """Sends Ctrl-Break to the group. Windows has nothing softer than a kill for a single process."""
        if group is not None:
            with suppress(OSError):
                os.kill(group, signal.CTRL_BREAK_EVENT)

    def kill_group(group: int) -> None:
        """Nothing: Windows cannot kill a group; its members are killed one by one."""

    def lock_at_once(descriptor: int) -> bool:
        """Takes the exclusive lock of an open file, or returns False where another process has it."""
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return True

else:
    import fcntl

    CREATION_FLAGS = 0
    """For `subprocess.Popen`: nothing, `start_new_session` does the work here."""

    def session_of(pid: int) -> int | None:
        """The id of the session of a process: the pid of the process that began it. None where it is not told."""
        try:
            return os.getsid(pid)
        except OSError:
            return None

    def exit_code(process: subprocess.Popen[bytes]) -> int | None:
        """The exit code, or None while the process runs; negative for a signal, as in `subprocess`.

        The process is left a zombie where the system can do that (macOS: from Python 3.13): as long as it is one,
        the system gives its pid, which is also the number of its group and session, to nobody else.
        """
        if process.returncode is not None or not hasattr(os, "waitid"):
            return process.poll()
        try:
            ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # Something else in this process collected it: `poll` knows what to make of it.
            return process.poll()
        if ended is None:
            return None
        status: int = ended.si_status
        return status if ended.si_code == os.CLD_EXITED else -status

    def ask_to_stop(processes: Iterable[psutil.Process], group: int | None) -> None:  # noqa: ARG001
        """Sends SIGTERM to each process, once: for llama-server a second one means to drop everything.

        All of them are asked, as by Ctrl-C in a terminal: a launcher that is a shell script passes nothing on.
        """
        for process in processes:
            with suppress(psutil.Error):
                process.terminate()

    def kill_group(group: int) -> None:
        """Sends SIGKILL to a process group. At one stroke: nobody in it can fork away in between."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)

    def lock_at_once(descriptor: int) -> bool:
        """Takes the exclusive lock of an open file, or returns False where another process has it.

        Raises:
            OSError: the file system knows no locks.
        """
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
