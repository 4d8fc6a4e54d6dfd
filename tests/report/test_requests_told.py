"""First tokens, acceptance and streams, as a person and a script read them."""

from __future__ import annotations

from typing import Any

from tests.builders import profile, record
from tuner.domain.measurement import ActualSettings, CellResult, Measurement
from tuner.domain.record import TrialRecord
from tuner.domain.workload import Cell, Content, Workload
from tuner.report.requests_told import acceptance_by_content, request_lines, ttft_by_depth

CODE, TOOL = (Cell(content=content, depth=512) for content in (Content.CODE, Content.TOOL))
TWO = Cell(content=Content.CODE, depth=512, streams=2)
WORKLOAD = Workload(cells=(CODE, TOOL, TWO), predict_tokens=64)


def launch(number: int, **by_cell: dict[str, Any]) -> TrialRecord:
    cells = {"code": CODE, "tool": TOOL, "two": TWO}
    results = [CellResult(cell=cells[name], decode_tps=50.0, **figures) for name, figures in by_cell.items()]
    measured = Measurement(cells=tuple(results), ready_s=1.0, actual=ActualSettings())
    return record(number, {}, measured)


def test_cold_and_warm_first_tokens_stand_side_by_side() -> None:
    trials = [
        launch(1, code={"ttft_ms": 800.0}, tool={"warm_ttft_ms": 40.0}),
        launch(2, code={"ttft_ms": 900.0}, tool={"warm_ttft_ms": 50.0}),
        launch(3, code={"ttft_ms": 12000.0}, tool={}),
    ]
    assert ttft_by_depth(trials, WORKLOAD) == {512: {"cold": 900.0, "warm": 45.0}}
    assert request_lines(trials, WORKLOAD, profile()) == ["  ttft      900 ms cold, 45 ms warm at 512"]
    assert request_lines(trials[2:], WORKLOAD, profile()) == ["  ttft      12.0 s cold at 512"]
    assert ttft_by_depth([launch(1, code={})], WORKLOAD) == {}


def test_acceptance_is_told_where_something_was_drafted() -> None:
    drafting = launch(1, code={"acceptance_rate": 0.78, "acceptance_length": 2.61}, tool={"acceptance_rate": 0.2})
    assert acceptance_by_content([drafting], WORKLOAD) == {
        "code": {512: {"rate": 0.78, "length": 2.61}}, "tool": {512: {"rate": 0.2, "length": None}},
    }  # fmt: skip
    assert request_lines([drafting], WORKLOAD, profile()) == [
        "  accepted  code         78 % of drafts, 2.61 tokens a step at 512"
    ], "the profile asks for no tool calls"
    assert acceptance_by_content([launch(1, code={}, tool={})], WORKLOAD) == {}


def test_streams_are_told_apart() -> None:
    trials = [launch(1, two={"stream_tps": (30.0, 20.0)}), launch(2, two={"stream_tps": (27.0, 23.0)})]
    assert request_lines(trials, WORKLOAD, profile(streams=2)) == [
        "  streams   code@512x2: 20.0 to 30.0 t/s each, 28 % apart"
    ]
    assert request_lines(trials, WORKLOAD, profile()) == []


def test_answers_that_ended_early_are_told() -> None:
    trials = [launch(1, code={"finish_reasons": ("limit", "truncated")}, tool={"finish_reasons": ("cut off",)})]
    assert request_lines(trials, WORKLOAD, profile()) == ["  note      code@512: answers ended early (truncated)"]
