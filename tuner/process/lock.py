"""One tuner at a time on a study."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Self

from tuner.domain.errors import MissingFile, NotPermitted, StudyBusy
from tuner.process.operating_system import lock_at_once


class StudyLock:
    """Holds a study for the calling process, as a context manager.

    The operating system's own lock on a file: it vanishes with the process, however that ends, and engines do not
    inherit it. The file stays, since removing it would let two tuners lock two files of the same name; while it is
    held it contains the pid of the holder, for the message only.

    Args:
        path: the lock file, in the study folder; made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
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
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        except FileNotFoundError as error:
            raise MissingFile("the study folder does not exist", where=str(self._path.parent)) from error
        except OSError as error:
            raise NotPermitted(f"the study cannot be locked: {error.strerror}", where=str(self._path)) from error
        try:
            if not lock_at_once(descriptor):
                raise self._busy(descriptor)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        except OSError as error:
            os.close(descriptor)
            raise NotPermitted(
                f"the study cannot be locked: {error.strerror}",
                where=str(self._path),
                advice="keep the study on a local disk: some network file systems know no locks",
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
                "another tuner has just begun to work on this study", where=str(self._path), advice="wait for it to end"
            )
        return StudyBusy(
            f"another tuner, process {content}, is at work on this study",
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
