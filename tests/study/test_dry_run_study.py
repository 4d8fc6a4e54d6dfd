"""A study on the fake engine whose space does not fit: what the dry run rejects is never launched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fake_engine.tiny_gguf import write_tiny_gguf

ROOT = Path(__file__).parents[2]
FAKE = ROOT / "tests" / "fake_engine" / "llama_server.py"

SPACE = """
schema_version = 1
engine = "llama_server"

[parameters.ctx_size]
flag = "--ctx-size"
choices = [8192, 16384, 32768, 65536, 98304, 131072, 196608, 262144, 393216, 524288]
default = 8192
about = "Context: the upper half does not fit."

[parameters.n_gpu_layers]
flag = "--n-gpu-layers"
choices = ["all"]
default = "all"
about = "Everything on the GPUs."

[parameters.fit]
flag = "--fit"
choices = ["off"]
default = "off"
about = "Placed as told."

[parameters.parallel]
flag = "--parallel"
role = "streams"
choices = [1, 2]
default = 1
about = "Slots."
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("misfits")
    write_tiny_gguf(folder / "model.gguf", context=1048576)
    (folder / "space.toml").write_text(SPACE)
    argv = ["run", "--model", str(folder / "model.gguf"), "--binary", str(FAKE), "--name", "misfits"]
    argv += ["--studies", str(folder), "--space", str(folder / "space.toml"), "--profile", "chat"]
    argv += ["--depths", "64", "--predict-tokens", "8", "--trials", "30", "--confirm-rounds", "2"]
    argv += ["--fixed", "--no-kv-unified"]
    done = tuner(argv)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def tuner(argv: list[str]) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "FAKE_RIG": str(ROOT / "tests" / "rigs" / "two_gpus.toml"), "PYTHONPATH": str(ROOT)}
    program = [sys.executable, "-c", "from tuner.cli.app import main; main()"]
    return subprocess.run([*program, *argv], capture_output=True, text=True, timeout=250, env=env, check=False)


def test_what_is_projected_not_to_fit_is_not_launched(study: Path) -> None:
    folders = sorted((study / "misfits" / "trials").iterdir())
    rejected = [
        folder for folder in folders if (folder / "dry-run.log").exists() and not (folder / "engine.log").exists()
    ]
    found = json.loads(tuner(["status", "misfits", "--studies", str(study), "--json"]).stdout)
    assert found["outcomes"]["WILL_NOT_FIT"] == len(rejected) > 0
    assert found["outcomes"].get("OUT_OF_MEMORY", 0) == 0


def test_the_status_tells_how_many_launches_were_saved(study: Path) -> None:
    told = tuner(["status", "misfits", "--studies", str(study)]).stdout
    assert "saved" in told


def test_there_is_a_winner_all_the_same(study: Path) -> None:
    found = json.loads(tuner(["best", "misfits", "--studies", str(study), "--json"]).stdout)
    assert found["profiles"][0]["meets_needs"]
