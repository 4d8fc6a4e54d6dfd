"""How long a start may take."""

from __future__ import annotations

from tests.builders import measurement, record
from tuner.domain.verdict import Outcome
from tuner.study.start import start_deadline_s


def test_before_anything_started_the_models_size_decides() -> None:
    small, large = start_deadline_s(500, [], 120), start_deadline_s(100_000, [], 120)
    assert 100 < small < 150
    assert large > 2000


def test_afterwards_the_slowest_start_decides() -> None:
    fast = [record(n, {}, measurement(ready_s=ready)) for n, ready in enumerate((2.0, 9.0))]
    assert start_deadline_s(100_000, fast, 120) == 45
    assert start_deadline_s(500, [record(0, {}, measurement(ready_s=0.1))], 120) == 30
    assert start_deadline_s(500, [record(0, {}, measurement(ready_s=400.0))], 120) == 2000


def test_a_start_that_never_came_says_nothing() -> None:
    assert start_deadline_s(500, [record(0, {}, None, outcome=Outcome.START_TIMEOUT)], 120) == start_deadline_s(
        500, [], 120
    )
