"""What the anchors of a search say about the trials between them."""

from __future__ import annotations

import math

import pytest

from tests.builders import measurement, record
from tuner.domain.measurement import Measurement
from tuner.domain.record import BASELINE_NOTE, Stage, TrialRecord
from tuner.domain.verdict import Outcome
from tuner.report.drift import Drift, levelled

HOUR = 3600.0


def at(hours: float, made: TrialRecord) -> TrialRecord:
    """The trial, measured so many hours after the study's first."""
    begin = 1000.0 + hours * HOUR
    return made.model_copy(update={"started_at": begin, "finished_at": begin + 60.0})


BASELINE = at(0, record(0, {}, measurement(1000.0, 50.0), stage=Stage.BASELINE))


def anchor(hours: float, prefill: float, decode: float, *, outcome: Outcome = Outcome.OK) -> TrialRecord:
    measured = measurement(1000.0 * prefill, 50.0 * decode)
    return at(hours, record(0, {}, measured, stage=Stage.ANCHOR, note=BASELINE_NOTE, outcome=outcome))


def trial(hours: float, number: int = 1, decode: float = 60.0) -> TrialRecord:
    return at(hours, record(number, {"chunk": number}, measurement(1200.0, decode)))


def speeds(made: TrialRecord) -> tuple[float, float]:
    assert made.measurement is not None
    cell = made.measurement.cells[0]
    assert cell.prefill_tps is not None
    assert cell.decode_tps is not None
    return cell.prefill_tps, cell.decode_tps


def test_without_anchors_records_compare_as_they_were_measured() -> None:
    searched = [BASELINE, trial(1)]
    assert levelled(searched, []) == searched
    # A launch of the confirm stage is none: it is compared with its neighbours, not with the search.
    confirmed = anchor(2, 0.5, 0.5).model_copy(update={"stage": Stage.CONFIRM})
    assert levelled(searched, [confirmed]) == searched
    assert levelled([trial(1)], [anchor(2, 0.5, 0.5)]) == [trial(1)]


def test_the_level_is_interpolated_between_anchors_and_stays_after_the_last() -> None:
    anchors = [anchor(2, 1.0, 0.8), anchor(4, 1.0, 0.8)]
    drift = Drift.of([BASELINE], anchors)
    middle = 1000.0 + 30.0
    levels = [drift.at("desk", middle + hours * HOUR, "decode_tps") for hours in (-1, 0, 1, 2, 3, 9)]
    full = levels[3]
    assert full == pytest.approx(math.log(0.8), rel=0.01)
    assert levels == pytest.approx([0, 0, full / 2, full, full, full])
    assert drift.at("desk", middle + 3 * HOUR, "prefill_tps") == 0


def test_drift_is_taken_out_of_the_metric_that_drifted() -> None:
    (_, now) = levelled([BASELINE, trial(3)], [anchor(2, 1.0, 0.8), anchor(4, 1.0, 0.8)])
    assert speeds(now) == (1200.0, pytest.approx(60.0 / 0.8, rel=0.01))


def test_what_is_within_the_noise_is_hardly_corrected() -> None:
    (_, now) = levelled([BASELINE, trial(3)], [anchor(2, 0.995, 1.005), anchor(4, 1.005, 0.995)])
    assert speeds(now) == (1200.0, 60.0)
    cells = measurement(1000.0, 50.0).cells
    scattered = tuple(
        cell.model_copy(update={"decode_tps": 50.0 * factor}) for cell, factor in zip(cells, (1.4, 0.7), strict=True)
    )
    odd = anchor(2, 1.0, 1.0)
    assert odd.measurement is not None
    odd = odd.model_copy(update={"measurement": odd.measurement.model_copy(update={"cells": scattered})})
    (_, now) = levelled([BASELINE, trial(3)], [odd])
    assert speeds(now)[1] == 60.0, "cells that contradict each other are noise"


def test_an_anchor_that_failed_says_nothing() -> None:
    assert levelled([BASELINE, trial(3)], [anchor(2, 0.5, 0.5, outcome=Outcome.CRASHED)]) == [BASELINE, trial(3)]


def test_a_step_is_a_change_from_one_anchor_to_the_next_beyond_the_noise() -> None:
    def step(*anchors: TrialRecord) -> dict[str, float]:
        return Drift.of([BASELINE], anchors).last_step("desk")

    assert step() == {}
    assert step(anchor(1, 1.0, 0.98)) == {}
    assert step(anchor(1, 1.0, 0.8)) == {"decode_tps": pytest.approx(math.log(0.8))}
    # What has drifted and stays so is no step any more.
    assert step(anchor(1, 0.8, 0.8), anchor(2, 0.8, 0.8)) == {}
    assert set(step(anchor(1, 0.8, 0.8), anchor(2, 1.0, 1.0))) == {"prefill_tps", "decode_tps"}


def test_what_was_measured_again_counts_with_its_new_figures() -> None:
    again = at(5, record(0, {"chunk": 1}, measurement(1200.0, 70.0), stage=Stage.REMEASURE, note="trial 1"))
    first, other = trial(1), trial(1, number=2)
    (_, now, untouched) = levelled([BASELINE, first, other], [again])
    assert speeds(now) == (1200.0, 70.0)
    assert (now.number, now.stage) == (first.number, first.stage)
    assert untouched == other
    failed = again.model_copy(update={"verdict": record(9, outcome=Outcome.CRASHED).verdict})
    assert levelled([BASELINE, first], [failed])[1] == first


def test_what_was_not_measured_stays_unknown() -> None:
    crashed = at(3, record(4, {"chunk": 4}, None, outcome=Outcome.CRASHED))
    partial = trial(3).model_copy(update={"measurement": measurement({}, 60.0)})
    (_, one, two) = levelled([BASELINE, crashed, partial], [anchor(2, 0.8, 0.8)])
    assert one == crashed
    assert isinstance(two.measurement, Measurement)
    assert two.measurement.cells[0].prefill_tps is None
