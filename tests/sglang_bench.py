"""A place to run whole studies of the fake SGLang in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.bench import QUICK_PROFILES, RIGS, ROOT, Bench
from tests.fake_engine.model_folder import write_model_folder

PROGRAM = ROOT / "tests" / "fake_engine" / "sglang_server.py"


@dataclass
class SglangBench(Bench):
    """Runs the tuner against the fake SGLang, started as the interpreter of an environment that has it."""

    @property
    def model(self) -> Path:
        return self.folder / "tiny-27b"

    @property
    def interpreter(self) -> Path:
        return self.folder / "python3-sglang"

    def quick(self, *more: str) -> list[str]:
        profiles = self.file("quick.toml", QUICK_PROFILES)
        return [
            "run", "--model", str(self.model), "--python", str(self.interpreter), "--profiles", str(profiles),
            "--profile", "quick", "--depths", "64", "--predict-tokens", "8", "--name", "s", *more,
        ]  # fmt: skip


def sglang_bench(bench: Bench, *, rig: str = "rtx-32gb-sglang") -> SglangBench:
    """A bench for SGLang in the place of another one, which ends what it started."""
    made = SglangBench(bench.folder, bench.monkeypatch, bench.started)
    write_model_folder(made.model, layers=8, context=262144, mtp=1, recurrent=6)
    made.interpreter.symlink_to(PROGRAM)
    bench.monkeypatch.setenv("FAKE_RIG", str(RIGS / f"{rig}.toml"))
    return made


@pytest.fixture
def sglang(bench: Bench) -> SglangBench:
    return sglang_bench(bench)
