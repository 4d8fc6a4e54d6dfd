"""Starts llama-server programs, fake or real, for these tests, and ends them for certain."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

FAKE = (sys.executable, str(Path(__file__).with_name("llama_server.py")))
PATIENCE_S = 30


@dataclass
class Launched:
    """A server that was started. Its log is a file, as in a trial."""

    process: subprocess.Popen[bytes]
    log_file: Path
    client: httpx.Client
    url: str

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def wait(self) -> int:
        """Exit code, as subprocess gives it: minus the signal's number if it died of one."""
        return self.process.wait(PATIENCE_S)

    def wait_ready(self) -> None:
        """Until /health says so."""
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < deadline:
            with suppress(httpx.TransportError):
                if self.client.get("/health").status_code == 200:
                    return
            time.sleep(0.01)
        raise AssertionError(f"not ready (exit code {self.process.poll()}):\n{self.log}")

    def get(self, path: str) -> Any:
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, **body: Any) -> Any:
        answer = self.client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def events(self, path: str, **body: Any) -> list[str]:
        """The `data:` payloads of a streamed answer."""
        with self.client.stream("POST", path, json={**body, "stream": True}) as answer:
            return [line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith("data: ")]


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def launched(
    log_file: Path,
    arguments: Sequence[str],
    env: dict[str, str] | None = None,
    program: Sequence[str] = FAKE,
    ready: bool = True,
) -> Iterator[Launched]:
    """A server with these arguments; its whole process group is gone afterwards. `ready=False` does not wait."""
    port = free_port()
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("LLAMA_ARG_", "FAKE_"))}
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [*program, "--port", str(port), *arguments],
            stdout=log, stderr=log, env=inherited | (env or {}), start_new_session=True,
        )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    with httpx.Client(base_url=url, timeout=PATIENCE_S) as client:
        server = Launched(process, log_file, client, url)
        try:
            if ready:
                server.wait_ready()
            yield server
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def shape(value: Any) -> Any:
    """The keys of a JSON value, at every level; lists are described by their first element."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return None


def log_skeleton(log: str) -> list[str]:
    """Log lines without timestamps, numbers and quoted names: what a reader's patterns hold on to."""
    lines = []
    for line in log.splitlines():
        match = re.match(r"\d+\.\d\d\.\d{3}\.\d{3} ([EWI]) (.*)", line)
        if match:
            lines.append(re.sub(r"'[^']*'|-?\d+(\.\d+)?", "#", f"{match[1]} {' '.join(match[2].split())}"))
    return lines
