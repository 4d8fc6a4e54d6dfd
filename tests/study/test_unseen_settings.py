"""A run says what sets flags unseen: what it leaves out, and what it cannot."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.bench import Bench
from tuner.engines.llama_server import surroundings


@pytest.mark.skipif(sys.platform == "win32", reason="on Windows the folder cannot be moved by a variable")
def test_a_run_says_what_it_leaves_out_and_what_it_cannot(bench: Bench, tmp_path: Path) -> None:
    mine, machines = (tmp_path / name / "llama.cpp" / "config.ini" for name in ("mine", "machine"))
    for file in (mine, machines):
        file.parent.mkdir(parents=True)
        file.write_text("batch-size = 64\n")
    bench.monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "mine"))
    bench.monkeypatch.setattr(surroundings, "SYSTEM_FILE", machines)
    said = bench.tuner(*bench.quick("--trials", "1"))
    assert said.code == 0, said.err
    assert f"left out of every launch, since they set flags unseen: the settings in {mine}" in said.out
    assert f"{machines} sets batch-size = 64 in every launch" in said.out
