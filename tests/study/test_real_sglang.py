"""A real SGLang on the CPU: a short study, and how it fails. By name: each start takes half a minute."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.bench import Bench
from tests.engines.contract import marked
from tests.real_sglang.installed import ENVIRONMENT, FIXED, interpreter, write_model
from tuner.domain.verdict import Explanation, Outcome
from tuner.engines.sglang import ENGINE
from tuner.engines.sglang.client import SglangClient
from tuner.process.engine_process import EngineProcess
from tuner.process.ports import free_port

pytestmark = [pytest.mark.by_name, pytest.mark.timeout(3000)]

PATIENCE_S = 300.0
POOL = ("--max-total-tokens", "4096")
SPACE = """
schema_version = 1
engine = "sglang"
[parameters.chunked_prefill_size]
flag = "--chunked-prefill-size"
choices = ["unset", 128, 512]
default = "unset"
about = "Chunks."
[parameters.max_running_requests]
flag = "--max-running-requests"
choices = ["unset", 1, 4]
default = "unset"
about = "Requests."
[parameters.num_continuous_decode_steps]
flag = "--num-continuous-decode-steps"
choices = [1, 4]
default = 1
about = "Steps."
[parameters.page_size]
flag = "--page-size"
choices = ["unset", 1, 16]
default = "unset"
about = "Pages."
[parameters.schedule_conservativeness]
flag = "--schedule-conservativeness"
choices = [0.3, 1.0]
default = 1.0
about = "Care."
[parameters.disable_radix_cache]
kind = "switch"
flag = "--disable-radix-cache"
choices = [false, true]
default = false
about = "No prefixes."
[parameters.max_total_tokens]
flag = "--max-total-tokens"
choices = [2048, 4096, 8192]
default = 4096
about = "Pool."
[[seeds]]
name = "no prefixes"
because = "a test"
values = { disable_radix_cache = true, max_running_requests = 1 }
[[seeds]]
name = "small pool, small chunks"
because = "a test"
values = { max_total_tokens = 2048, chunked_prefill_size = 128 }
"""
PROFILES = """
schema_version = 1
[profiles.quick]
prefill = 0.3
decode = 0.7
contents = { code = 1.0 }
depths = { shallow = 1.0 }
least_context = 1024
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "tiny-qwen2")


def test_a_short_study_runs_end_to_end(bench: Bench, model: Path) -> None:
    space, profiles = bench.file("space.toml", SPACE), bench.file("profiles.toml", PROFILES)
    fixed = shlex.join([*FIXED, "--context-length", "4096"])
    env = [word for name, value in ENVIRONMENT.items() for word in ("--env", f"{name}={value}")]
    said = bench.tuner(
        "run", "--model", str(model), "--python", str(interpreter()), "--space", str(space), "--profiles",
        str(profiles), "--profile", "quick", "--depths", "256", "--predict-tokens", "24", "--trials", "5",
        "--confirm-rounds", "2", "--confirm-most", "2", "--fixed", fixed, *env, "--name", "s",
        "--", str(interpreter()), "-m", "sglang.launch_server", "--model-path", str(model), *POOL,
    )  # fmt: skip
    print(said.out)
    assert said.code == 0, said.err
    searched = bench.records()
    assert [record.verdict.outcome for record in searched if record.verdict] == [Outcome.OK] * 5
    for record in [*searched, *bench.records("confirm")]:
        assert record.measurement is not None
        actual = record.measurement.actual
        assert actual.context_per_slot == min(4096, int(record.configuration.values["max_total_tokens"]))
        (cell,) = record.measurement.cells
        assert cell.prefill_tps is not None
        assert cell.decode_tps is not None
        assert cell.decode_tps > 1
        assert record.measurement.quality is not None
        assert record.measurement.quality.cost is not None or record.is_baseline
    (profile,) = json.loads(bench.tuner("best", "s", "--json").out)["profiles"]
    assert profile["command_line"].split()[-len(["--port", "30000"]) :] == ["--port", "30000"]
    bench.assert_nothing_left()


@dataclass
class Started:
    """A real server that may never be ready."""

    process: EngineProcess
    client: SglangClient
    log_path: Path
    marker: str

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def wait(self, *, for_ready: bool, seconds: float = PATIENCE_S) -> None:
        """Until it is ready or gone."""
        deadline = time.monotonic() + seconds
        while self.process.is_running() and time.monotonic() < deadline:
            if self.client.is_ready():
                assert for_ready, "it became ready"
                return
            time.sleep(0.3)

    def explained(self) -> Explanation:
        return ENGINE().explain_exit(self.log, self.process.returncode)


@contextmanager
def started(
    model: Path, folder: Path, *arguments: str, port: int | None = None, before: Sequence[str] = ()
) -> Iterator[Started]:
    port = free_port() if port is None else port
    marker = f"real-sglang-{os.getpid()}-{time.time_ns()}/0"
    argv = [*before, str(interpreter()), "-m", "sglang.launch_server", "--model-path", str(model), *FIXED,
            "--host", "127.0.0.1", "--port", str(port), *arguments]  # fmt: skip
    log = folder / "engine.log"
    process = EngineProcess(argv, env={**os.environ, **ENVIRONMENT}, log_path=log, marker=marker, stop_grace_s=5)
    client = SglangClient(f"http://127.0.0.1:{port}")
    with process:
        yield Started(process, client, log, marker)
    client.close()
    assert marked(marker) == [], "nothing of it is left"


def test_a_port_that_is_taken_never_ends_and_is_told(model: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with started(model, tmp_path, *POOL, port=taken.getsockname()[1]) as server:
            deadline = time.monotonic() + PATIENCE_S
            while "address already in use" not in server.log and server.process.is_running():
                assert time.monotonic() < deadline, server.log[-2000:]
                time.sleep(0.5)
            explanation = ENGINE().explain_exit(server.log, None)
    assert explanation.outcome is Outcome.CRASHED, explanation
    assert "in use" in explanation.reason


def test_a_share_that_leaves_no_pool_wants_more(model: Path, tmp_path: Path) -> None:
    with started(model, tmp_path, "--mem-fraction-static", "0.0001") as server:
        server.wait(for_ready=False)
        explanation = server.explained()
    assert explanation.outcome is Outcome.OUT_OF_MEMORY, (explanation, server.log[-3000:])
    assert [move.larger for move in explanation.moves if move.flag == "--mem-fraction-static"] == [True]


def test_a_share_that_is_more_than_there_is_wants_less(model: Path, tmp_path: Path) -> None:
    limited = ["bash", "-c", 'ulimit -v 10485760; exec "$@"', "limited"]
    with started(model, tmp_path, "--mem-fraction-static", "0.9", before=limited) as server:
        server.wait(for_ready=False)
        explanation = server.explained()
    assert (explanation.outcome, explanation.device) == (Outcome.OUT_OF_MEMORY, "CPU"), explanation
    assert [move.larger for move in explanation.moves if move.flag == "--mem-fraction-static"] == [False]


def schedulers(server: Started) -> list[psutil.Process]:
    children = psutil.Process(server.process.pid).children(recursive=True)
    return [child for child in children if "scheduler" in " ".join([child.name(), *child.cmdline()])]


def test_a_scheduler_that_is_killed_takes_the_server_with_it(model: Path, tmp_path: Path) -> None:
    with started(model, tmp_path, *POOL) as server:
        server.wait(for_ready=True)
        (scheduler, *_) = schedulers(server)
        scheduler.send_signal(signal.SIGKILL)
        deadline = time.monotonic() + 60
        while server.process.is_running():
            assert time.monotonic() < deadline, "the launcher lives on"
            time.sleep(0.2)
        explanation = server.explained()
    assert explanation.outcome is Outcome.OUT_OF_MEMORY, (explanation, server.log[-3000:])
    assert "killed from outside" in explanation.reason


def test_what_a_stop_during_the_load_would_orphan_is_ended(model: Path, tmp_path: Path) -> None:
    with started(model, tmp_path, *POOL) as server:
        deadline = time.monotonic() + PATIENCE_S
        while not psutil.Process(server.process.pid).children(recursive=True):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert not server.client.is_ready()
