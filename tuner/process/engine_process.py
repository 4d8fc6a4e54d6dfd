"""One engine: started in a session of its own, watched, and stopped with everything it started."""

from __future__ import annotations

import subprocess
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from tuner.domain.errors import EngineNotFound, NotPermitted
from tuner.domain.memory import MemoryPeak
from tuner.process.deferred_signals import deferred_signals
from tuner.process.ending import end_processes
from tuner.process.family import MARKER_VARIABLE, marked_processes, session_members, with_descendants
from tuner.process.memory_watch import MemoryWatch
from tuner.process.operating_system import CREATION_FLAGS, exit_code, kill_group


class EngineProcess:
    """A running engine, as a context manager: started on entry; on leaving, by whatever way, nothing of it is left.

    Two states: running from `start` until the program ends by itself or `stop` ends it. An engine whose first
    process has ended counts as ended, even when workers of it live on; `stop` ends those as well.

    Ctrl-C in a terminal does not reach the engine, only the tuner. When the tuner ends without leaving the block but
    in an orderly way, the engine is killed; after a kill of the tuner see `tuner.process.leftovers`.

    Args:
        argv: the program and its arguments. A bare name is searched in the PATH of `env`.
        env: the complete environment of the engine. Two variables are added: TUNER_MARKER, and SPT_NOENV (unless
            set), which tells the setproctitle package, used by several engines for their workers, to leave the
            environment readable: otherwise it destroys the marker.
        log_path: where stdout and stderr are appended to. A file and no pipe: it cannot fill up and stall the engine.
        marker: the value of TUNER_MARKER. Unique to this start: processes that carry it are stopped with the engine.
        stop_grace_s: seconds from the request to stop to the kill.
        cwd: the working directory; the caller's own by default.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        log_path: Path,
        marker: str,
        stop_grace_s: float = 10.0,
        cwd: Path | None = None,
    ) -> None:
        self._argv = tuple(argv)
        self._env = {"SPT_NOENV": "1", **env, MARKER_VARIABLE: marker}
        self._log_path = log_path
        self._marker = marker
        self._stop_grace_s = stop_grace_s
        self._cwd = cwd
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        # Weakly: a thread that held this object would keep the backstop from its work.
        myself = weakref.ref(self)
        self._memory = MemoryWatch(lambda: None if (alive := myself()) is None else alive.rss_mib())

    def start(self) -> None:
        """Starts the program; returns as soon as it runs, long before it is ready.

        Raises:
            EngineNotFound: there is no such program, or it is not made for this machine.
            NotPermitted: the program may not be executed, or the log not be written.
        """
        if self._process is not None:
            raise RuntimeError("an EngineProcess starts once")
        try:
            log = self._log_path.open("ab")
        except OSError as error:
            raise NotPermitted(
                f"the engine's log cannot be written: {error.strerror}", where=str(self._log_path)
            ) from error
        with log, deferred_signals():
            try:
                self._process = subprocess.Popen(
                    self._argv,
                    env=self._env,
                    cwd=self._cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    creationflags=CREATION_FLAGS,
                )
            except OSError as error:
                raise self._explain(error) from error
            # Kills the engine when this object, or the interpreter, ends before `stop` did its work.
            self._backstop = weakref.finalize(self, _kill, self._process)
        self._memory.start()

    def _explain(self, error: OSError) -> EngineNotFound | NotPermitted:
        program = self._argv[0]
        if isinstance(error, PermissionError):
            return NotPermitted(
                "the engine's program may not be executed", where=program, advice="name the program itself; chmod +x it"
            )
        if self._cwd is not None and not self._cwd.is_dir():
            return EngineNotFound("the engine's working directory does not exist", where=str(self._cwd))
        if isinstance(error, FileNotFoundError) and not Path(program).exists():
            return EngineNotFound("there is no such engine program", where=program, advice="check the path, or PATH")
        return EngineNotFound(
            f"the engine's program does not run on this machine: {error.strerror}",
            where=program,
            advice="take a build for this operating system and processor; for a script, check its first line",
        )

    @property
    def pid(self) -> int:
        """The pid of the program that was started; also the number of its session and process group."""
        return self._started().pid

    @property
    def returncode(self) -> int | None:
        """The exit code of the program, None while it runs; negative for a signal, as in `subprocess`."""
        return exit_code(self._started())

    def is_running(self) -> bool:
        """Whether the program that was started still runs."""
        return self._process is not None and self.returncode is None

    def rss_mib(self) -> float | None:
        """Resident memory of the engine's whole tree in MiB, from the operating system; None if unknown.

        Model files that are mapped into memory count as far as they are resident. Memory that processes share counts
        once for each of them.
        """
        if self._process is None or self._stopped:
            return None
        total = 0
        for process in self._near_family():
            try:
                total += process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
            except psutil.Error:
                return None
        return total / 2**20 if total else None

    def dead_children(self) -> list[str]:
        """Processes below it that have ended and that nobody has asked about, as `name (pid 4711)`.

        A short one is nothing to worry about; one that stays can be a worker whose launcher waits for it for ever.
        """
        if self._process is None or self._stopped:
            return []
        found = []
        with suppress(psutil.Error):
            for child in psutil.Process(self._process.pid).children(recursive=True):
                with suppress(psutil.Error):
                    if child.status() == psutil.STATUS_ZOMBIE:
                        found.append(f"{child.name()} (pid {child.pid})")
        return found

    def memory_peak(self) -> MemoryPeak:
        """The most host memory that the engine's whole tree held until now."""
        return self._memory.peak()

    def stop(self) -> None:
        """Ends the engine and everything it started; returns when nothing of it is left.

        Asks first (SIGTERM; Ctrl-Break on Windows) and kills after `stop_grace_s`. A Ctrl-C meanwhile has the rest
        killed at once, and is raised when nothing is left. Nothing happens when it was never started, or has been
        stopped already. May be called again after an error.

        Raises:
            NotPermitted: processes are left that cannot be stopped, with their pids.
        """
        self._stop(self._stop_grace_s)

    def _stop(self, grace_s: float) -> None:
        if self._process is None or self._stopped:
            return
        self._memory.stop()
        with deferred_signals() as arrived:
            # As long as its exit code was not collected, the pid is ours, and with it the number of the group.
            group = self._process.pid if self._process.returncode is None else None
            end_processes(self._family, group=group, grace_s=grace_s, hurry=lambda: bool(arrived))
            self._process.wait()
            self._backstop.detach()
            self._stopped = True

    def _family(self) -> set[psutil.Process]:
        return self._near_family() | with_descendants(marked_processes(self._marker.__eq__))

    def _near_family(self) -> set[psutil.Process]:
        """What is found without reading every environment of the machine; misses orphans with their own session."""
        return with_descendants(session_members([self.pid]))

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the engine was not started")
        return self._process

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._stop(grace_s=0)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.stop()
        except KeyboardInterrupt:
            # Where it came before `stop` held it back, the engine still runs.
            self._stop(grace_s=0)
            raise


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The last resort. Does nothing in a fork of the tuner: there the engine is no child, and so counts as ended."""
    if exit_code(process) is None:
        kill_group(process.pid)
        process.kill()
        process.wait()
