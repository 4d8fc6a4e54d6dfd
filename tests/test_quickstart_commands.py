"""What the quickstart printed must work as it was printed: run by name after `tuner quickstart` (see .ci/run)."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parent.parent

pytestmark = [pytest.mark.by_name, pytest.mark.real_engine]


def printed_profiles() -> list[dict[str, str]]:
    tuner = [sys.executable, "-c", "from tuner.cli.app import main; main()"]
    done = subprocess.run(
        [*tuner, "best", "quickstart", "--json"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    return list(json.loads(done.stdout)["profiles"])


@pytest.fixture
def shell() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Servers started from a shell; stopped at the end with all that they started."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for server in started:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def test_there_is_a_command_for_each_profile() -> None:
    names = {profile["name"] for profile in printed_profiles()}
    assert names == {"coding-agent", "chat", "long-document", "creative-writing", "two-users"}


def test_each_printed_command_starts_a_healthy_server(shell: list[subprocess.Popen[bytes]]) -> None:
    lines = {profile["command_line"] for profile in printed_profiles()}
    assert lines
    for line in sorted(lines):
        port = int(shlex.split(line)[shlex.split(line).index("--port") + 1])
        wait_for_port(port)
        server = subprocess.Popen(
            ["sh", "-c", line], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        shell.append(server)
        assert becomes_healthy(server, port), line
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=30)
        shell.remove(server)


def wait_for_port(port: int) -> None:
    """Until the server before has let go of the port."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return
        time.sleep(0.2)
    pytest.fail(f"something else listens on port {port}")


def becomes_healthy(server: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + 120
    while server.poll() is None and time.monotonic() < deadline:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/health", timeout=2).status_code == 200:
                return True
        except httpx.HTTPError:
            time.sleep(0.2)
    return False
