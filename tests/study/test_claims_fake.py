"""What whole studies claim about two configurations of which the fake engine knows the truth."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.bench import RIGS, Bench

SPACE = """
schema_version = 1
engine = "llama_server"
[parameters.poll]
flag = "--poll"
choices = [50, OTHER]
default = 50
about = "How hard waiting threads poll."
"""
TRUTH = 1.05


def claimed(bench: Bench, other: int, *, seed: int = 3) -> tuple[dict[str, Any], str]:
    """A study of the baseline and one configuration beside it: its result, and what it said."""
    rig = (RIGS / "cpu_only.toml").read_text().replace("poll = { 0 = 0.93, 100 = 1.03 }", f"poll = {{ 100 = {TRUTH} }}")
    assert str(TRUTH) in rig
    bench.monkeypatch.setenv("FAKE_RIG", str(bench.file("rig.toml", rig)))
    for name, value in (
        ("NOISE", "0.03"),
        ("OUTLIERS", "0.04"),
        ("DRIFT", f"0.02@60@{time.time()}"),
        ("SEED", str(seed)),
    ):
        bench.monkeypatch.setenv(f"FAKE_{name}", value)
    space = bench.file("space.toml", SPACE.replace("OTHER", str(other)))
    said = bench.tuner(*bench.quick("--space", str(space), "--trials", "2", "--hours", "8"))
    assert said.code == 0, said.err
    told = json.loads(bench.tuner("best", "s", "--json").out)
    (profile,) = told["profiles"]
    return profile, said.out


def test_the_same_configuration_under_two_names_has_no_measurable_difference(bench: Bench) -> None:
    found, said = claimed(bench, 40)
    assert found["is_measurable"] is False
    assert found["is_baseline"] is True
    low, high = found["candidate_gain_interval"]
    assert low <= 1 <= high
    assert "no measurable difference" in said
    assert "keep yours: " in said
    # What is claimed can be followed down to what each launch measured.
    for record in bench.records("confirm"):
        assert record.measurement is not None
        (cell,) = record.measurement.cells
        assert cell.decode_tps_interval is not None
        low, high = cell.decode_tps_interval
        assert cell.decode_tps is not None
        assert low <= cell.decode_tps <= high
        assert len(cell.decode_tps_samples) == 3


def test_five_per_cent_are_found_and_the_interval_holds_the_truth(bench: Bench) -> None:
    found, said = claimed(bench, 100)
    assert found["is_measurable"] is True
    assert "--poll" in found["command"]["argv"]
    low, high = found["gain_interval"]
    assert low <= TRUTH <= high
    assert low > 1
    # What is to come was told before it came.
    assert "== search: about 1 trial of " in said
    assert "then up to 2 finalists and the baseline, 3 launches each, up to 15 while a gain is open" in said
    assert "cells: code@64; measured 1 to 3 times" in said
