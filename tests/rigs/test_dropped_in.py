"""A rig that nobody tuned against, written here as a user would: it runs through HTTP and in the simulation."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.bench import Bench
from tests.fake_engine.launched import launched
from tests.fake_engine.rig import Rig
from tests.rigs.measured import FOLDER, points
from tests.search_benchmark.simulated import Night, Simulated
from tuner.domain.record import BASELINE_NOTE
from tuner.search.pool import Proposal
from tuner.search.space import complete, random_values

UNSEEN = """
extends = "default.toml"
about = "a small card with a slow host, as nobody has it here"

[machine]
cores = 4
host_mib = 16000

[[devices]]
name = "CUDA0"
description = "Card of a stranger"
total_mib = 12288
free_mib = 11500

[model]
name = "stranger-7b"
weights_mib = 6100

[prefill]
tps = 900.0
ubatch = { 128 = 0.5, 512 = 1.0, 2048 = 1.4 }

[decode]
tps = 33.0

[[cliffs]]
when = "cache_type_k=q8_0 & cache_type_v=q8_0"
decode = 0.5
because = "assumed: a kernel is missing"

[base]
ctx_size = 16384
parallel = 1
fit = "off"

[[measured]]
source = "a stranger"
sweep = { ubatch_size = [512, 2048] }
ratio = { prefill = [1.0, 1.4] }
"""


@pytest.fixture
def rig(tmp_path: Path) -> Path:
    path = tmp_path / "stranger.toml"
    path.write_text(UNSEEN)
    return path


def test_the_example_of_the_readme_is_a_rig_that_keeps_its_point(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", (FOLDER / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    file = tmp_path / "example.toml"
    file.write_text(example)
    (point,) = points(Rig.load(file))
    assert point.holds


def test_its_points_are_held(rig: Path) -> None:
    found = list(points(Rig.load(rig)))
    assert len(found) == 2
    assert all(point.holds for point in found)


def test_the_fake_engine_serves_it_over_http(rig: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF and nothing more")
    arguments = ["-m", str(model), "-c", "16384", "-np", "1", "-fit", "off", "-ctk", "q8_0", "-ctv", "q8_0"]
    env = {"FAKE_RIG": str(rig), "FAKE_NOISE": "0", "FAKE_TIME_SCALE": "0.001"}
    settings = {"ctx_size": 16384, "parallel": 1, "fit": "off", "cache_type_k": "q8_0", "cache_type_v": "q8_0"}
    expected = Rig.load(rig).measure(settings)
    with launched(tmp_path / "engine.log", arguments, env) as server:
        server.wait_ready()
        timings = server.post("/completion", prompt="Hello", n_predict=16, ignore_eos=True)["timings"]
    decode = 1000 * (timings["predicted_n"] - 1) / timings["predicted_ms"]
    assert decode == pytest.approx(expected.decode_tps("prose-en", 2), rel=0.01)


def test_a_whole_study_runs_on_it(rig: Path, bench: Bench) -> None:
    bench.monkeypatch.setenv("FAKE_RIG", str(rig))
    said = bench.tuner(*bench.quick("--trials", "2", "--confirm-rounds", "2", "--confirm-most", "2"))
    assert said.code == 0, said.err
    assert "Card of a stranger" in str(bench.frozen()["machine"])
    assert json.loads(bench.tuner("best", "s", "--json").out)["profiles"][0]["launches"] == 2


def test_the_simulation_launches_on_it(rig: Path) -> None:
    study = Simulated.of(Rig.load(rig), ["chat"])
    night, rng = Night(study, seed=1), np.random.default_rng(1)
    baseline = night.run(Proposal(0, complete(study.space, study.baseline), BASELINE_NOTE), baseline=True)
    assert baseline.verdict is not None
    assert baseline.verdict.feasible
    records = [
        night.run(Proposal(number, complete(study.space, random_values(study.space, rng)), None))
        for number in range(1, 13)
    ]
    ran = [record.measurement for record in records if record.measurement is not None]
    (profile,) = study.profiles
    scores = {round(profile.log_score(one, study.workload.depths) or 0.0, 6) for one in ran}
    assert len(scores) > 3, "other flags are other speeds here"
