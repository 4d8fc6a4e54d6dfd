"""Intervals of medians, and what counts as an outlier."""

from __future__ import annotations

from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.domain.spread import median_interval, outliers, relative_half_width

speeds = st.lists(st.floats(1, 1000), min_size=2, max_size=9)


@given(speeds)
def test_the_interval_holds_the_median_and_is_always_the_same(values: list[float]) -> None:
    interval = median_interval(values)
    assert interval is not None
    low, high = interval
    assert min(values) <= low <= median(values) <= high <= max(values)
    assert median_interval(values) == interval


def test_a_single_value_has_no_interval() -> None:
    assert median_interval([]) is None
    assert median_interval([5.0]) is None
    assert relative_half_width([5.0]) is None
    assert relative_half_width([]) is None


def test_the_interval_is_an_honest_one_where_there_are_values_enough() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(200):
        low, high = median_interval(list(rng.normal(100, 3, 12))) or (0.0, 0.0)
        covered += low <= 100 <= high
    assert covered >= 180
    assert relative_half_width([98.0, 100.0, 102.0]) == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("values", "far"),
    [
        ([50.0, 50.1, 49.9, 50.0, 31.0], [4]),
        ([31.0, 50.1, 49.9], [0]),
        ([50.0, 50.0, 50.0, 50.4], []),  # Values that hardly differ have none.
        ([50.0, 48.0, 52.0, 47.0, 44.0], []),
        ([50.0, 51.0, 31.0, 30.0, 50.0], []),  # What happens this often is no accident.
        ([50.0, 10.0], []),
        ([], []),
    ],
)
def test_outliers_lie_far_from_all_others(values: list[float], far: list[int]) -> None:
    assert outliers(values) == far
