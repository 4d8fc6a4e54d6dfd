"""One tuner at a time: on a study, and on a machine."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from tuner.domain.errors import MissingFile, NotPermitted, StudyBusy
from tuner.process.boot import CLOCK_SLACK_S
from tuner.process.family import is_alive
from tuner.process.operating_system import lock_at_once


class FileLock:
    """Holds something for the calling process, as a context manager.

    The operating system's own lock on a file: it vanishes with the process, however that ends, and engines do not
    inherit it. The file stays, since removing it would let two tuners lock two files of the same name; while it is
    held it contains the pid of the holder, for the message only.

    Args:
        path: the lock file; made if it is not there.
        what: is held, for the message.
        mode: of a new file.
    """

    def __init__(self, path: Path, what: str = "this study", mode: int = 0o644) -> None:
        self._path = path
        self._what = what
        self._mode = mode
        self._descriptor: int | None = None

    def __enter__(self) -> Self:
        """Takes the lock, or fails at once.

        Raises:
            StudyBusy: another process, which is named, has it.
            MissingFile: there is no such folder.
            NotPermitted: the file cannot be written, or its file system knows no locks.
        """
        # Python opens files so that programs it starts do not inherit them (PEP 446).
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, self._mode)
        except FileNotFoundError as error:
            raise MissingFile("the study folder does not exist", where=str(self._path.parent)) from error
        except OSError as error:
            raise NotPermitted(f"{self._what} cannot be locked: {error.strerror}", where=str(self._path)) from error
        try:
            if not lock_at_once(descriptor):
                raise self._busy(descriptor)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        except OSError as error:
            os.close(descriptor)
            raise NotPermitted(
                f"{self._what} cannot be locked: {error.strerror}",
                where=str(self._path),
                advice="keep the file on a local disk: some network file systems know no locks",
            ) from error
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return self

    def _busy(self, descriptor: int) -> StudyBusy:
        content = os.read(descriptor, 32).decode("ascii", "replace").strip()
        if not content.isdigit():  # Taken a moment ago, and not yet written.
            return StudyBusy(
                f"another tuner has just begun to work on {self._what}",
                where=str(self._path),
                advice="wait for it to end",
            )
        return StudyBusy(
            f"another tuner, process {content}, is at work on {self._what}",
            where=str(self._path),
            advice=f"wait for it to end, or stop it: kill {content}",
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None


def holder(path: Path) -> int | None:
    """The pid of the process that holds the lock at `path`, told without touching it; None if nobody does.

    What a killed process left in the file does not count, even where another one has its pid by now.
    """
    try:
        pid = int(path.read_text(encoding="ascii"))
        process = psutil.Process(pid)
        began = process.create_time()
        written = path.stat().st_mtime
    except (OSError, ValueError, psutil.Error):
        return None
    return pid if is_alive(process) and began <= written + CLOCK_SLACK_S else None


class MachineLock:
    """Holds parts of the machine for the calling process: two studies would measure each other.

    Args:
        folder: of the lock files, the same for all users; made if it is not there.
        parts: the keys of cards, or names of devices, or `cpu`.
    """

    def __init__(self, folder: Path, parts: set[str]) -> None:
        self._folder = folder
        self._parts = parts
        self._held = ExitStack()

    def __enter__(self) -> Self:
        """Takes all parts, or none.

        Raises:
            StudyBusy: another tuner is at work on one of them.
            NotPermitted: the files cannot be written.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise NotPermitted(f"the machine cannot be locked: {error.strerror}", where=str(self._folder)) from error
        with suppress(OSError):  # Another user's: then it is as it should be already.
            self._folder.chmod(0o1777)
        with ExitStack() as taken:
            # In the same order everywhere, so that of two that begin together one gets all.
            for part in sorted(self._parts):
                name = "".join(character if character.isalnum() else "-" for character in part)
                try:
                    taken.enter_context(FileLock(self._folder / f"{name}.lock", f"this machine ({part})", 0o666))
                except StudyBusy as busy:
                    busy.advice = f"{busy.advice}; on other cards: --side-by-side, where the two share nothing"
                    raise
            self._held = taken.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._held.close()
