"""What a person and a script read: lines, tables, JSON."""

from __future__ import annotations

import json
import math
from typing import Any

from tests.builders import DEPTHS, frozen, measurement, profile, record
from tuner.domain.record import BASELINE_NOTE, Stage, TrialRecord
from tuner.domain.verdict import Outcome
from tuner.domain.workload import Cell, Content, Workload
from tuner.report.json_form import best_json, status_json
from tuner.report.recommendation import recommend
from tuner.report.tables import decode_by_content, difference_lines, prefill_by_depth, recommendation_lines, trial_line

BASE = record(0, {"chunk": 256, "cache": "f16"}, measurement(1000.0, 40.0), stage=Stage.BASELINE)
FAST = record(1, {"chunk": 512, "cache": "f16"}, measurement(1500.0, 60.0))


def confirmed(factor: float = 1.5) -> list[TrialRecord]:
    made = []
    for number, drift in enumerate((0.99, 1.0, 1.01)):
        for of, speed, note in ((BASE, 1.0, BASELINE_NOTE), (FAST, factor, "trial 1")):
            measured = measurement(1000 * speed * drift, 40 * speed * drift)
            made.append(record(number, of.configuration.values, measured, stage=Stage.CONFIRM, note=note))
    return made


# ---- JSON ------------------------------------------------------------------------------------------------------------


def test_the_keys_of_best_are_those_that_scripts_rely_on() -> None:
    study = frozen()
    told = best_json("night", study, recommend(study, [BASE, FAST], confirmed()))
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert told.keys() == {"schema_version", "study", "sampling", "profiles"}
    assert (told["schema_version"], told["study"]) == (1, "night")
    (best,) = told["profiles"]
    assert best.keys() == {
        "name", "command", "command_line", "is_baseline", "meets_needs", "gain", "gain_interval", "candidate_gain",
        "candidate_gain_interval", "launches", "metrics", "differences_from_baseline", "power_cap_commands",
        "is_measurable", "outlying_launches", "worths",
    }  # fmt: skip
    assert best["command"] == {"argv": ["engine", "--chunk=512", "--cache=f16"], "env": {}}
    assert best["command_line"] == "engine --chunk=512 --cache=f16"
    assert best["metrics"].keys() == {
        "prefill_tps", "decode_tps", "ttft_ms", "acceptance", "cells", "context_tokens", "proven_context_tokens",
        "buffers_mib", "host_rss_peak_mib", "gpus", "quality",
    }  # fmt: skip
    assert best["metrics"]["prefill_tps"] == {"512": 1500.0, "8192": 1500.0}
    assert best["metrics"]["decode_tps"] == {"code": {"512": 60.0, "8192": 60.0}}
    assert best["metrics"]["host_rss_peak_mib"] is None
    assert best["differences_from_baseline"] == {"chunk": {"baseline": 256, "best": 512}}
    assert math.isclose(best["gain"], 1.5)
    assert best["gain_interval"][0] < 1.5 < best["gain_interval"][1]
    assert (best["is_baseline"], best["meets_needs"], best["launches"]) == (False, True, 3)


def test_a_kept_baseline_has_no_gain_of_its_own_but_tells_the_candidates() -> None:
    study = frozen()
    (best,) = best_json("night", study, recommend(study, [BASE, FAST], confirmed(1.001)))["profiles"]
    assert (best["is_baseline"], best["gain"], best["gain_interval"]) == (True, 1.0, None)
    assert best["is_measurable"] is False
    assert math.isclose(best["candidate_gain"], 1.001)
    assert len(best["candidate_gain_interval"]) == 2
    assert best["differences_from_baseline"] == {}


def test_unconfirmed_has_no_interval() -> None:
    study = frozen()
    (best,) = best_json("night", study, recommend(study, [BASE, FAST], []))["profiles"]
    assert (best["gain_interval"], best["launches"]) == (None, 1)


def test_the_keys_of_status() -> None:
    searched = [
        BASE, FAST, record(2, {"chunk": 128}, outcome=Outcome.OUT_OF_MEMORY), record(3, {}, outcome=None),
    ]  # fmt: skip
    told = status_json("night", frozen(), searched, confirmed(), running=True, used_s=60.5, left_s=None)
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert told == {
        "schema_version": 1,
        "study": "night",
        "running": True,
        "trials": 4,
        "confirm_trials": 6,
        "anchors": 0,
        "outcomes": {"OK": 2, "OPEN": 1, "OUT_OF_MEMORY": 1},
        "confirm_outcomes": {"OK": 6},
        "trim_outcomes": {},
        "best": {"coder": {"trial": 1, "gain": told["best"]["coder"]["gain"]}},
        "used_s": 60.5,
        "left_s": None,
    }
    assert math.isclose(told["best"]["coder"]["gain"], 1.5)


def test_a_status_before_anything_ran() -> None:
    for study in (None, frozen()):
        told = status_json("night", study, [], [], running=False, used_s=0.0, left_s=3600.0)
        assert (told["trials"], told["outcomes"], told["best"]) == (0, {}, {})


# ---- lines -----------------------------------------------------------------------------------------------------------


def test_what_came_of_a_trial_in_one_line() -> None:
    assert trial_line(FAST) == "prefill 1500@512 1500@8192 t/s, decode 60.0 to 60.0 t/s (60 s)"
    assert trial_line(record(1, outcome=None)) == "running"
    assert trial_line(record(1, outcome=Outcome.CRASHED)) == "CRASHED: because (60 s)"
    degraded = record(1, {}, measurement(), outcome=Outcome.DEGRADED)
    assert trial_line(degraded) == "DEGRADED: because (60 s)"
    partial = record(1, {}, measurement({}, {(Content.CODE, 512): 30.0}))
    assert trial_line(partial) == "decode 30.0 to 30.0 t/s (60 s)"
    assert trial_line(record(1, {}, measurement({}, {}))) == "nothing measured (60 s)"


def test_tables_hold_medians_of_what_was_measured() -> None:
    two = Cell(content=Content.TOOL, depth=512, streams=2)
    cells = [*(Cell(content=Content.CODE, depth=depth) for depth in DEPTHS), two]
    workload = Workload(cells=tuple(cells), predict_tokens=64)
    trials = [
        record(i, {}, measurement({512: pre}, {(Content.CODE, 512): dec, (Content.TOOL, 512): 2 * dec}, cells=cells))
        for i, (pre, dec) in enumerate([(900.0, 50.0), (1000.0, 40.0), (5000.0, 45.0)])
    ]
    trials.append(record(9, {}, None, outcome=Outcome.CRASHED))
    assert prefill_by_depth(trials, workload) == {512: 1000.0}
    assert decode_by_content(trials, workload) == {"code": {512: 45.0}, "tool x2": {512: 90.0}}


def told(factor: float | None = 1.5, **changes: Any) -> str:
    study = frozen([profile(**changes)])
    (best,) = recommend(study, [BASE, FAST], [] if factor is None else confirmed(factor))
    return "\n".join(recommendation_lines(best, study))


def test_a_recommendation_is_read_in_ten_seconds() -> None:
    lines = told().splitlines()
    assert lines[0].startswith("coder: 1.50x baseline (1.4")
    assert lines[1:4] == ["", "  engine --chunk=512 --cache=f16", ""]
    assert "  prefill   1500 t/s at 512   1500 t/s at 8192" in lines
    assert "  decode    code         60.0 t/s at 512   60.0 t/s at 8192" in lines
    assert "  context   32768 tokens a slot, 8400 proven by a cold prompt" in lines
    assert "  memory    CUDA0 900 MiB" in lines
    assert lines[-1] == "  changed   --chunk: 256 (engine's default) -> 512"


def test_every_ending_is_told_in_its_own_words() -> None:
    assert "1.50x baseline (not confirmed)" in told(None)
    assert "keep the baseline; the best candidate: no measurable difference: 1.00x" in told(1.001)
    assert "nothing that was measured meets this profile's needs" in told(least_context=10**6)
    study = frozen()
    (alone,) = recommend(study, [BASE], [])
    assert "nothing but the baseline was measured" in recommendation_lines(alone, study)[0]


def test_differences_say_what_was_the_users_own() -> None:
    study = frozen(baseline={"chunk": 256})
    (best,) = recommend(study, [BASE, record(1, {"chunk": 512}, measurement(1500.0, 60.0))], [])
    assert difference_lines(best, study) == ["--chunk: 256 -> 512"]
    (gone,) = recommend(study, [BASE, record(1, {"cache": "q8_0"}, measurement(1500.0, 60.0))], [])
    assert difference_lines(gone, study) == [
        "--cache: f16 (engine's default) -> q8_0",
        "--chunk: 256 -> not set",
    ]
