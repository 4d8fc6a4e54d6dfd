"""How long a server may take follows what the baseline took."""

from __future__ import annotations

from tests.builders import measurement
from tuner.domain.measurement import Measurement
from tuner.domain.workload import Cell, Content
from tuner.workload.patience import Patience

CELL = Cell(content=Content.CODE, depth=131072)


def baseline(*, ttft_s: float, seconds: float) -> Measurement:
    cells = [
        result.model_copy(update={"ttft_ms": 1000 * ttft_s, "seconds": seconds})
        for result in measurement(cells=[CELL]).cells
    ]
    return measurement().model_copy(update={"cells": tuple(cells)})


def test_without_a_baseline_a_slow_machine_is_given_its_time() -> None:
    assert Patience().first_token_s(131072) > 3600
    assert Patience().cell_s(CELL) is None


def test_a_hang_at_depth_costs_minutes_once_the_baseline_is_known() -> None:
    known = Patience(baseline(ttft_s=60, seconds=80))
    assert 60 < known.first_token_s(131072) <= 600
    assert known.first_token_s(512) == Patience().first_token_s(512), "nothing is known of that depth"
    assert known.cell_s(CELL) == 800


def test_no_deadline_is_shorter_than_what_a_first_request_may_take() -> None:
    known = Patience(baseline(ttft_s=0.01, seconds=0.02))
    assert known.first_token_s(131072) >= 60
    limit = known.cell_s(CELL)
    assert limit is not None
    assert limit >= 60


def test_a_baseline_that_was_very_slow_is_no_reason_to_give_up_earlier() -> None:
    assert Patience(baseline(ttft_s=5000, seconds=6000)).first_token_s(131072) > 5000
