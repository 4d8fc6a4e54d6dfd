"""A whole study on a machine that becomes slower by half once the baseline was measured."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from tests.bench import Bench
from tuner.domain.record import Stage
from tuner.study import anchors, run_study

SPACE = """
schema_version = 1
engine = "llama_server"
[parameters.poll]
flag = "--poll"
choices = [10, 20, 30, 40, 50, 60, 70, 80]
default = 50
about = "Means nothing to the simulated machine."
"""
LATER = 1.5


def told_decode(bench: Bench) -> dict[int, float]:
    """Trial number -> the decode speed that the sampler was told."""
    query = (
        "SELECT trials.number, v.value FROM trials JOIN studies ON studies.study_id = trials.study_id "
        "JOIN trial_values v ON v.trial_id = trials.trial_id WHERE studies.study_name = 'search' AND v.objective = 1"
    )
    with closing(sqlite3.connect(bench.study() / "study.db", timeout=30)) as connection:
        return dict(connection.execute(query).fetchall())


def test_the_sampler_is_told_what_the_machine_would_have_done_when_the_study_began(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anchors, "ANCHOR_LAUNCHES", 2)
    monkeypatch.setattr(anchors, "ANCHOR_S", 0.0)
    monkeypatch.setattr(anchors, "_COOLING_S", 0.0)
    monkeypatch.setenv("FAKE_NOISE", "0")
    bench.rig("cpu_only")
    enqueue = run_study._enqueue_seeds

    def slower_from_now(kit, *given):  # type: ignore[no-untyped-def]
        kit.environment["FAKE_DRIFT"] = f"{LATER - 1}@1@0"
        enqueue(kit, *given)

    monkeypatch.setattr(run_study, "_enqueue_seeds", slower_from_now)
    space = bench.file("space.toml", SPACE)
    said = bench.tuner(*bench.quick("--space", str(space), "--trials", "6", "--confirm-rounds", "2"))
    assert said.code == 0, said.err
    assert "the machine drifts: the baseline's prefill -33%, decode -33%" in said.out

    again = bench.records("confirm")
    assert {Stage.ANCHOR, Stage.CONFIRM} <= {record.stage for record in again}
    assert all(record.is_baseline for record in again if record.stage is Stage.ANCHOR)
    searched, told = bench.records(), told_decode(bench)
    assert {record.stage for record in searched} == {Stage.BASELINE, Stage.SEARCH}

    def raw(number: int) -> float:
        measured = searched[number].measurement
        assert measured is not None
        assert measured.cells[0].decode_tps is not None
        return measured.cells[0].decode_tps

    assert raw(5) == pytest.approx(raw(0) / LATER, rel=0.02), "records keep what was measured"
    assert told[0] == pytest.approx(raw(0))
    assert told[1] == pytest.approx(raw(1)), "nothing was known of the drift yet"
    assert told[5] == pytest.approx(raw(0), rel=0.02)
    status = json.loads(bench.tuner("status", "s", "--json").out)
    assert status["anchors"] == sum(record.stage is Stage.ANCHOR for record in again) >= 2
    assert status["confirm_trials"] in (4, 6), "with a runner-up or without"
    assert status["best"]["quick"]["gain"] == pytest.approx(1.0, abs=0.02)
    assert json.loads(bench.tuner("best", "s", "--json").out)["profiles"][0]["is_baseline"] is True

    # Nothing is left to do.
    before = len(again)
    assert bench.tuner("run", "s").code == 0
    assert len(bench.records("confirm")) == before
