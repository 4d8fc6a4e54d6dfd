"""Installs and removes what continues a study after a restart, for the user who asks and without other rights."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.domain.errors import NotPermitted
from tuner.process.service_files import launchd_agent, systemd_unit, windows_task

_COMMAND_S = 30.0


@dataclass(frozen=True)
class Service:
    """One study's service on this kind of system."""

    file: Path
    """What is written."""
    text: str
    enable: tuple[tuple[str, ...], ...]
    """Commands that make it take effect."""
    disable: tuple[tuple[str, ...], ...]
    """Commands that undo it, before the file is removed."""
    state: tuple[str, ...]
    """The command that tells how it is."""
    encoding: str = "utf-8"

    @classmethod
    def of(
        cls,
        study: str,
        argv: Sequence[str],
        folder: Path,
        env: Mapping[str, str],
        log: Path,
        system: str = sys.platform,
    ) -> Service:
        """The service that runs `argv` in `folder` for a study.

        Args:
            study: its name.
            argv: what is run.
            folder: where.
            env: variables that it needs.
            log: where its output goes, on systems without a journal.
            system: as `sys.platform`.
        """
        name = f"llm-tuner-{study}"
        home = Path.home()
        if system == "win32":
            file = folder / f"{name}.xml"
            create = ("schtasks", "/Create", "/F", "/TN", name, "/XML", str(file))
            delete, query = ("schtasks", "/Delete", "/F", "/TN", name), ("schtasks", "/Query", "/TN", name)
            return cls(file, windows_task(argv, folder, study), (create,), (delete,), query, encoding="utf-16")
        if system == "darwin":
            file = home / "Library" / "LaunchAgents" / f"{name}.plist"
            text = launchd_agent(argv, folder, env, name, log)
            load, unload = ("launchctl", "load", "-w", str(file)), ("launchctl", "unload", "-w", str(file))
            return cls(file, text, (load,), (unload,), ("launchctl", "list", name))
        config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        user = ("systemctl", "--user")
        return cls(
            file=config / "systemd" / "user" / f"{name}.service",
            text=systemd_unit(argv, folder, env, study),
            # Lingering: the user's units start at boot, without anyone logging in.
            enable=((*user, "daemon-reload"), (*user, "enable", name), ("loginctl", "enable-linger")),
            disable=((*user, "disable", name),),
            state=(*user, "status", "--no-pager", name),
        )

    def install(self) -> list[str]:
        """Writes the file and makes it take effect; the commands that failed, to be run by hand.

        Raises:
            NotPermitted: the file cannot be written.
        """
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.file.write_text(self.text, encoding=self.encoding)
        except OSError as error:
            raise NotPermitted(f"The service cannot be written: {error.strerror}", where=str(self.file)) from error
        return self._run(self.enable)

    def remove(self) -> list[str]:
        """Undoes it; the commands that failed. Nothing happens where it is not installed."""
        failed = self._run(self.disable)
        self.file.unlink(missing_ok=True)
        return failed

    def _run(self, commands: Sequence[Sequence[str]]) -> list[str]:
        return [" ".join(command) for command in commands if not _succeeds(command)]


def _succeeds(command: Sequence[str]) -> bool:
    if shutil.which(command[0]) is None:
        return False
    try:
        return subprocess.run(command, capture_output=True, timeout=_COMMAND_S, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
