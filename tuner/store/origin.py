"""Where a study comes from: whether this user made it on this machine, or trusts it.

A study's files name a program, its arguments and its environment. Whoever opens a folder that somebody else has made
must not run these unasked. So the folder holds a seal, made with a key that only this user has: a folder from elsewhere
has none that fits, whatever it says of itself.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from pathlib import Path

from tuner.domain.errors import NotPermitted


class Origin:
    """The seal of one study.

    Args:
        folder: the study's.
        key_path: the file with this user's key; made when it is first needed.
    """

    def __init__(self, folder: Path, key_path: Path) -> None:
        self._path = folder / "origin.json"
        self._place = str(folder.resolve())
        self._key_path = key_path

    def is_own(self) -> bool:
        """Whether this user has sealed the study at this place."""
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            key = self._key_path.read_bytes()
            return hmac.compare_digest(str(content["seal"]), self._seal(key, str(content["nonce"])))
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def made_by(self) -> str | None:
        """Who made or trusted it, as the folder says; None where it says nothing."""
        try:
            return str(json.loads(self._path.read_text(encoding="utf-8"))["made_by"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def seal(self, made_by: str) -> None:
        """Makes the study this user's own.

        Raises:
            NotPermitted: the key or the seal cannot be written.
        """
        nonce = secrets.token_hex(16)
        try:
            content = {"made_by": made_by, "nonce": nonce, "seal": self._seal(self._key(), nonce)}
            self._path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise NotPermitted(f"The study cannot be sealed: {error.strerror}", where=str(error.filename)) from error

    def _seal(self, key: bytes, nonce: str) -> str:
        return hmac.new(key, f"{self._place}\n{nonce}".encode(), hashlib.sha256).hexdigest()

    def _key(self) -> bytes:
        self._key_path.parent.mkdir(parents=True, exist_ok=True)
        try:
            # Of two that begin together one makes it, and only its user can read it.
            descriptor = os.open(self._key_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return self._key_path.read_bytes()
        with os.fdopen(descriptor, "wb") as file:
            key = secrets.token_bytes(32)
            file.write(key)
        return key
