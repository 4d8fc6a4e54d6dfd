"""The power caps as they were before the tuner changed any, on disk: so that a later process can restore them."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from tuner.domain.errors import BadInput, NotPermitted
from tuner.domain.record import Owner


class SavedCap(BaseModel):
    """The cap of one card before it was changed."""

    model_config = ConfigDict(frozen=True)

    name: str
    cap_w: float
    command: str
    """What sets it by hand."""


class SavedCaps(BaseModel):
    """The file's content. While it is there, some cap may be another than its owner found."""

    model_config = ConfigDict(frozen=True)

    schema_version: int = 1
    owner: Owner
    """The process that changed the caps: while it lives, they are its own affair."""
    caps: dict[str, SavedCap]
    """By `GpuIdentity.key`."""


class CapFile:
    """The file of saved caps. What is written is on the disk before a method returns, in one piece or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> SavedCaps | None:
        """The content; None if there is no file, so that every cap is as it was.

        Raises:
            BadInput: it is damaged.
            NotPermitted: it cannot be read.
        """
        try:
            return SavedCaps.model_validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError as error:
            raise BadInput(
                "The file with the cards' former power caps is damaged",
                where=str(self.path),
                advice="set the caps by hand, or restart the machine, which resets them; then delete the file",
            ) from error
        except OSError as error:
            raise NotPermitted(
                f"The cards' former power caps cannot be read: {error.strerror}", where=str(self.path)
            ) from error

    def write(self, saved: SavedCaps) -> None:
        """Replaces the content.

        Raises:
            NotPermitted: the place cannot be written; the former content is as it was.
        """
        draft = self.path.with_name(self.path.name + ".tmp")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with draft.open("w", encoding="utf-8") as file:
                file.write(saved.model_dump_json(indent=1) + "\n")
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
            self._sync_folder()
        except OSError as error:
            raise NotPermitted(
                f"The cards' former power caps cannot be written down: {error.strerror}",
                where=str(self.path),
            ) from error

    def remove(self) -> None:
        """Says that every cap is as it was.

        Raises:
            NotPermitted: the file cannot be removed.
        """
        try:
            self.path.unlink(missing_ok=True)
            self._sync_folder()
        except OSError as error:
            raise NotPermitted(
                f"The file with the cards' former power caps cannot be removed: {error.strerror}",
                where=str(self.path),
                advice="every cap is as it was: delete it",
            ) from error

    def _sync_folder(self) -> None:
        """Makes the change of a name durable, where folders can be opened for that (not on Windows)."""
        if os.name != "posix":
            return
        descriptor = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
