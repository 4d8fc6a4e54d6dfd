"""Losers are measured as little as possible, what decides as precisely as it is worth."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.builders import DEEP, SHALLOW, definition, frozen, measurement, record
from tuner.domain.configuration import Configuration
from tuner.domain.record import BASELINE_NOTE, Stage, TrialRecord
from tuner.domain.verdict import Outcome
from tuner.domain.workload import Cell, Content
from tuner.study.launch import Launch
from tuner.study.precision import precision_of
from tuner.workload.precision import Precision

SHALLOW_CODE, DEEP_CODE = (Cell(content=Content.CODE, depth=depth) for depth in (SHALLOW, DEEP))
BASE = record(0, {}, measurement(1000.0, 50.0), stage=Stage.BASELINE)


def precision(stage: Stage, records: list[TrialRecord], note: str = "", **asked: object) -> Precision:
    kit: Any = SimpleNamespace(
        frozen=frozen(definition=definition(**asked)),
        pool=SimpleNamespace(records=lambda confirm=False: [] if confirm else records),
    )
    return precision_of(kit, Launch(1, stage, Configuration(values={}), note))


def test_what_decides_is_measured_most() -> None:
    for stage in (Stage.BASELINE, Stage.CONFIRM, Stage.ANCHOR, Stage.REMEASURE):
        assert precision(stage, [BASE]) == Precision(least=1, most=3)
        assert precision(stage, [BASE], repeats=2) == Precision(least=2, most=6)


def test_in_the_search_only_what_is_about_as_fast_as_the_best_is_worth_more() -> None:
    best = record(1, {"chunk": 512}, measurement(1000.0, 80.0))
    failed = record(2, {"chunk": 128}, measurement(1000.0, 500.0), outcome=Outcome.DEGRADED)
    found = precision(Stage.SEARCH, [BASE, best, failed])
    assert found.wants_more(SHALLOW_CODE, 1, [79.0])
    assert not found.wants_more(SHALLOW_CODE, 1, [60.0])
    # The deepest cells cost most: the confirm stage measures them all again.
    assert not found.wants_more(DEEP_CODE, 1, [200.0])


def test_where_time_is_short_launches_count_more() -> None:
    for stage in (Stage.BASELINE, Stage.SEARCH, Stage.CONFIRM):
        assert precision(stage, [BASE], BASELINE_NOTE, hours=0.1, repeats=2) == Precision(least=2, most=2)
