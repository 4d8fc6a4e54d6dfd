"""A launch is cut short only when nothing can be won with it any more."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.builders import DEEP, SHALLOW, frozen, measurement, profile, record
from tuner.domain.frozen import FrozenStudy
from tuner.domain.measurement import ActualSettings, CellResult, Measurement
from tuner.domain.record import BASELINE_NOTE, Stage, TrialRecord
from tuner.domain.workload import Content
from tuner.report.drift import Drift
from tuner.study.hopeless import Hopeless
from tuner.study.judge import objectives

BASELINE = measurement(1000.0, 50.0)
RECORDS = [record(0, {}, BASELINE, stage=Stage.BASELINE), record(1, {"chunk": 512}, measurement(1200.0, 80.0))]


def study() -> FrozenStudy:
    return frozen([profile(depths={"shallow": 0.5, "deep": 0.5})])


def cells(prefill: float, decode: float, *, deep: tuple[float, float] | None = None) -> Sequence[CellResult]:
    made = measurement(prefill, decode).cells
    if deep is None:
        return made[:1]
    return (*made[:1], *measurement(*deep).cells[1:])


def said(
    shallow: Sequence[CellResult], records: Sequence[TrialRecord] = RECORDS, *, context: int = 32768
) -> str | None:
    actual = ActualSettings(context_per_slot=context, slots=1)
    return Hopeless(study(), BASELINE, records, actual)(shallow)


def test_what_is_far_behind_everywhere_is_cut_short() -> None:
    told = said(cells(300, 15))
    assert told is not None
    assert "after 1 cells" in told


@pytest.mark.parametrize(
    ("prefill", "decode"),
    [(1000, 50), (1200, 80), (900, 60), (400, 100), (2000, 20)],
    ids=["like the baseline", "like the best", "between", "decodes best", "prefills best"],
)
def test_what_can_still_win_something_is_measured_to_its_end(prefill: float, decode: float) -> None:
    assert said(cells(prefill, decode)) is None


def test_a_larger_context_than_any_is_worth_measuring() -> None:
    assert said(cells(300, 15), context=131072) is None


def test_nothing_is_cut_before_there_is_something_to_lose_against() -> None:
    assert said(cells(300, 15), []) is None


def test_after_the_last_cell_there_is_nothing_to_cut() -> None:
    assert said(cells(300, 15, deep=(250, 12))) is None


def test_the_search_learns_from_what_was_measured() -> None:
    """The missing cells are taken to stand to the baseline's as the measured ones do."""
    whole = measurement({SHALLOW: 1000.0, DEEP: 500.0}, {(Content.CODE, SHALLOW): 50.0, (Content.CODE, DEEP): 40.0})
    cut = Measurement(
        cells=measurement(500.0, 10.0).cells[:1], ready_s=1, actual=whole.actual, cut_short="because it is slow"
    )
    workload = study().workload
    full = objectives(whole, workload, None)
    told = objectives(cut, workload, whole)
    assert full is not None
    assert told is not None
    assert told[0] == pytest.approx(full[0] / 2)
    assert told[1] == pytest.approx(full[1] / 5)
    assert objectives(cut, workload, None) is None, "nothing is made up without a reference"


def test_a_cell_that_failed_is_never_filled() -> None:
    whole = measurement(1000.0, 50.0)
    torn = whole.model_copy(update={"cells": whole.cells[:1]})
    assert objectives(torn, study().workload, whole) is None


def test_a_slower_hour_makes_nothing_hopeless() -> None:
    """Everything runs at half its speed by now: what reaches that is as good as the best."""
    anchor = record(0, {}, measurement(500.0, 25.0), stage=Stage.ANCHOR, note=BASELINE_NOTE)
    actual = ActualSettings(context_per_slot=32768, slots=1)
    drift = Drift.of(RECORDS, [anchor.model_copy(update={"started_at": 2000.0})])
    assert Hopeless(study(), BASELINE, RECORDS, actual)(cells(550, 38)) is not None
    assert Hopeless(study(), BASELINE, RECORDS, actual, drift)(cells(550, 38)) is None
    assert Hopeless(study(), BASELINE, RECORDS, actual, drift)(cells(150, 7)) is not None
