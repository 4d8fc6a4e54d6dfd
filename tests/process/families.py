"""Families of real processes for the tests (see family_program.py)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import psutil

from tuner.process.engine_process import EngineProcess

PROGRAM = Path(__file__).with_name("family_program.py")


def runs(pid: int) -> bool:
    """Whether a process runs, found out otherwise than the code under test does. A zombie does not run."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1
    except psutil.NoSuchProcess:
        return False


def wait_for(condition: Callable[[], bool], seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


class Families:
    """Starts families of processes and knows who is in them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "pids"
        self.folder.mkdir()
        self.log = folder / "engine.log"
        self.marker = f"test-{uuid.uuid4().hex}"

    def argv(self, *members: str) -> list[str]:
        return [sys.executable, "-S", str(PROGRAM), str(self.folder), *members]

    def engine(self, *members: str, grace_s: float = 0.3) -> EngineProcess:
        return EngineProcess(
            self.argv(*members), env=os.environ, log_path=self.log, marker=self.marker, stop_grace_s=grace_s
        )

    def wait_until_ready(self, *members: str) -> None:
        """Waits until all run, and those that are to exit have done so."""
        for member in members:
            name, _, traits = member.partition(":")
            wait_for((self.folder / name).exists)
            wait_for(lambda name=name, exits="exits" in traits: not (exits and runs(self.pid(name))))

    def pid(self, name: str) -> int:
        return int((self.folder / name).read_text())

    def pids(self) -> list[int]:
        return [int(note.read_text()) for note in self.folder.iterdir() if not note.suffix]

    def living(self) -> list[int]:
        return [pid for pid in self.pids() if runs(pid)]

    def python(self, code: str, *arguments: str, **env: str) -> subprocess.Popen[str]:
        """Another Python that runs `code`, with the folder, the log and the marker as its first arguments."""
        return subprocess.Popen(
            [sys.executable, "-c", code, str(self.folder), str(self.log), self.marker, *arguments],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
