"""Ratios to the baseline and how sure they are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.report.gain import Gain, gain, outlying

groups = st.lists(st.floats(-5, 5), min_size=1, max_size=4)


def launches(rng: np.random.Generator, speed: float, noise: float, count: int = 3) -> list[float]:
    """Log scores of so many launches."""
    return list(np.log(speed) + rng.normal(0, noise, count))


def test_two_equal_configurations_are_rarely_told_apart() -> None:
    """The interval covers no difference about as often as it says: in 95 of 100."""
    rng = np.random.default_rng(1)
    told_apart = 0
    for _ in range(100):
        found = gain([launches(rng, 50, 0.02), launches(rng, 50, 0.02)], 1, 0)
        assert found.low is not None
        assert found.high is not None
        told_apart += not found.low <= 1 <= found.high
    assert told_apart <= 7


def test_the_interval_is_no_wider_than_it_must_be() -> None:
    rng = np.random.default_rng(2)
    missed = 0
    for _ in range(1000):
        found = gain([launches(rng, 50, 0.02), launches(rng, 55, 0.02)], 1, 0, confidence=0.95)
        assert found.low is not None
        assert found.high is not None
        missed += not found.low <= 1.1 <= found.high
    assert 30 <= missed <= 70


def test_a_tenth_is_found_under_a_noise_of_two_per_cent() -> None:
    rng = np.random.default_rng(3)
    found = [gain([launches(rng, 50, 0.02), launches(rng, 55, 0.02)], 1, 0) for _ in range(100)]
    assert sum(one.is_measurable for one in found) >= 90, (
        "with three launches each; the confirm stage goes on where it is open"
    )
    assert np.mean([one.ratio for one in found]) == pytest.approx(1.1, rel=0.01)
    slower = [gain([launches(rng, 55, 0.02), launches(rng, 50, 0.02)], 1, 0) for _ in range(100)]
    assert not any(one.is_measurable for one in slower)


def test_other_configurations_lend_their_spread() -> None:
    """With two launches each, a pair alone knows too little; the spread of launches is the machine's."""
    rng = np.random.default_rng(4)
    pairs = [[launches(rng, speed, 0.02, 2) for speed in (50, 55, 52, 47, 60)] for _ in range(50)]
    alone = [gain(pair[:2], 1, 0) for pair in pairs]
    together = [gain(pair, 1, 0) for pair in pairs]
    assert [one.ratio for one in alone] == [one.ratio for one in together]
    assert sum(one.is_measurable for one in together) > sum(one.is_measurable for one in alone)


def test_a_configuration_that_differs_more_from_itself_gets_no_interval_from_steadier_ones() -> None:
    rng = np.random.default_rng(5)
    missed = 0
    for _ in range(200):
        steady = [launches(rng, 50, 0.002) for _ in range(5)]
        found = gain([*steady, launches(rng, 50, 0.04)], 5, 0)
        assert found.low is not None
        assert found.high is not None
        missed += not found.low <= 1 <= found.high
    assert missed <= 20


def test_what_a_whole_session_has_in_common_is_no_difference() -> None:
    """The candidate came later, on a slower day, and the baseline was launched beside it once more."""
    rng = np.random.default_rng(6)
    day = -0.2
    baseline = [*launches(rng, 50, 0.01), *(score + day for score in launches(rng, 50, 0.01))]
    late = [score + day for score in launches(rng, 52.5, 0.01)]
    blind = gain([baseline, late], 1, 0)
    seeing = gain([baseline, late], 1, 0, sessions=[[0, 0, 0, 1, 1, 1], [1, 1, 1]])
    assert not blind.is_measurable
    assert seeing.is_measurable
    assert seeing.ratio == pytest.approx(1.05, rel=0.02)


def test_what_never_ran_in_one_session_is_compared_all_the_same() -> None:
    apart = gain([[1.0, 1.01], [1.1, 1.11]], 1, 0, sessions=[[0, 0], [1, 1]])
    assert apart == gain([[1.0, 1.01], [1.1, 1.11]], 1, 0)


def test_gains_that_are_told_together_hold_together() -> None:
    """Of five profiles whose candidates gain nothing, hardly ever one is told to gain something."""
    rng = np.random.default_rng(7)
    alone = together = 0
    for _ in range(300):
        scores = [launches(rng, 50, 0.02) for _ in range(6)]
        alone += any(gain(scores, one, 0, confidence=0.95).is_measurable for one in range(1, 6))
        together += any(gain(scores, one, 0, comparisons=5, confidence=0.95).is_measurable for one in range(1, 6))
    assert together <= 0.025 * 300 + 6
    assert alone > 2 * together


def test_a_configuration_that_is_slow_every_third_time_has_no_outliers() -> None:
    steady = [0.0, 0.01, 0.0, -0.01, 0.01, 0.0]
    assert outlying([steady, [*steady[:5], -0.4]]) == [[], [5]]
    assert outlying([steady, [*steady[:4], -0.4, -0.4]]) == [[], []]


@given(st.lists(groups, min_size=2, max_size=4))
def test_exchanging_the_two_inverts_the_ratio_and_its_interval(scores: list[list[float]]) -> None:
    there, back = gain(scores, 1, 0), gain(scores, 0, 1)
    assert there.ratio * back.ratio == pytest.approx(1)
    if there.low is None or there.high is None or back.low is None or back.high is None:
        assert all(len(group) == 1 for group in scores)
        assert (there.low, there.high, back.low, back.high) == (None, None, None, None)
    elif there.low > 1e-300 and back.low > 1e-300:
        assert there.low * back.high == pytest.approx(1)
        assert there.low <= there.ratio * (1 + 1e-9)
        assert there.ratio <= there.high * (1 + 1e-9)


def test_without_a_repeated_launch_there_is_no_interval() -> None:
    once = gain([[math.log(50)], [math.log(60)]], 1, 0)
    assert once.ratio == pytest.approx(1.2)
    assert (once.low, once.high) == (None, None)
    assert not once.is_measurable
    assert gain([[1.0, 1.1]], 0, 0) == Gain(ratio=1.0)


@pytest.mark.parametrize(
    ("ratio", "low", "high", "told"),
    [
        (1.42, None, None, "1.42x baseline (not confirmed)"),
        (1.42, 1.31, 1.54, "1.42x baseline (1.31 to 1.54)"),
        (1.02, 0.98, 1.06, "no measurable difference: 1.02x baseline (0.98 to 1.06)"),
        (1.03, 1.004, 1.056, "1.03x baseline (1.004 to 1.056)"),
        (1.03, 0.996, 1.064, "no measurable difference: 1.03x baseline (0.996 to 1.064)"),
        (0.97, 0.944, 0.996, "0.97x baseline (0.944 to 0.996)"),
        (0.9, 0.8, 0.95, "0.90x baseline (0.80 to 0.95)"),
        (1.0, 1.0, 1.0, "no measurable difference: 1.00x baseline (1.000 to 1.000)"),
    ],
)
def test_what_a_person_reads(ratio: float, low: float | None, high: float | None, told: str) -> None:
    assert Gain(ratio=ratio, low=low, high=high).told() == told


@given(st.floats(1.0006, 3), st.floats(0.3, 0.9994))
def test_the_printed_ends_lie_on_the_side_of_one_that_the_words_say(above: float, below: float) -> None:
    def printed(low: float, high: float) -> tuple[float, float]:
        text = Gain(ratio=1.0, low=low, high=high).told()
        first, _, second = text.split("(")[1].rstrip(")").partition(" to ")
        return float(first), float(second)

    assert printed(above, 4)[0] > 1
    assert printed(0.2, below)[1] < 1
    assert printed(below, above)[0] < 1 < printed(below, above)[1]
