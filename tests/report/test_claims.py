"""Whether claims can be believed: whole confirm stages, simulated launch by launch, judged by the tuner's own code.

Launches have noise, slow outliers and a machine that drifts. The rounds follow the rules of `tuner.study.confirm`:
three each, then on as long as the gain is open, fifteen at most; the order turns from round to round.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from tuner.report.gain import Gain, gain, is_open

ROUNDS, MOST = 3, 15
NOISE, OUTLIERS, SLOWER, DRIFT = 0.03, 0.04, 0.25, 0.02


def stage(
    rng: np.random.Generator, truth: float, *, noise: float = NOISE, outliers: float = OUTLIERS, drift: float = DRIFT
) -> Gain:
    """One confirm stage of a baseline and a configuration that is `truth` times as fast."""
    scores: list[list[float]] = [[], []]
    launched = 0

    def launch(which: int) -> None:
        nonlocal launched
        # The machine has become slower by `drift` when all launches are made.
        score = math.log(truth) * which + rng.normal(0, noise) - drift * launched / (2 * MOST)
        if rng.random() < outliers:
            score -= SLOWER
        scores[which].append(score)
        launched += 1

    for number in range(MOST):
        if number >= ROUNDS and not is_open(scores, 1, 0):
            break
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            launch(which)
    return gain(scores, 1, 0)


def stages(seed: int, truth: float, times: int = 20) -> list[Gain]:
    rng = np.random.default_rng(seed)
    return [stage(rng, truth) for _ in range(times)]


def test_the_same_configuration_under_two_names_is_told_apart_at_most_once_in_twenty() -> None:
    found = stages(7, 1.0, 600)
    # Of twenty stages then at most one claims a gain in nineteen cases of twenty.
    assert sum(one.is_measurable for one in found) / len(found) <= 0.03
    assert sum(one.high is not None and one.high < 1 for one in found) / len(found) <= 0.03


def test_five_per_cent_are_found_with_an_honest_interval() -> None:
    found = stages(8, 1.05, 600)
    assert sum(one.is_measurable for one in found) / len(found) >= 18 / 20
    covered = [one.low is not None and one.high is not None and one.low <= 1.05 <= one.high for one in found]
    assert sum(covered) / len(covered) >= 0.95
    batches = [(found[at : at + 20], covered[at : at + 20]) for at in range(0, len(found), 20)]
    assert sum(sum(one.is_measurable for one in batch) >= 18 for batch, _ in batches) >= 0.9 * len(batches)
    assert sum(sum(batch) >= 17 for _, batch in batches) >= 0.9 * len(batches)


def test_a_large_gain_takes_no_more_launches_than_it_must() -> None:
    rng = np.random.default_rng(3)
    scores = [list(rng.normal(0, 0.02, ROUNDS)), list(math.log(1.5) + rng.normal(0, 0.02, ROUNDS))]
    assert not is_open(scores, 1, 0)


def test_a_loss_is_not_pursued() -> None:
    rng = np.random.default_rng(4)
    scores = [list(rng.normal(0, 0.03, ROUNDS)), list(math.log(0.85) + rng.normal(0, 0.03, ROUNDS))]
    assert not is_open(scores, 1, 0)


def test_an_outlying_launch_is_left_out_and_named() -> None:
    rng = np.random.default_rng(5)
    ours, theirs = (list(rng.normal(mean, 0.01, 6)) for mean in (math.log(1.1), 0.0))
    clean = gain([theirs, ours], 1, 0)
    spoilt = gain([theirs, [*ours[:-1], ours[-1] - 0.5]], 1, 0)
    assert (clean.outliers, spoilt.outliers) == (0, 1)
    assert spoilt.ratio == pytest.approx(1.1, rel=0.02)
    assert "1 outlying launch left out" in spoilt.told()
    assert "outlying" not in clean.told()


def test_in_a_small_group_nobody_is_the_outlier() -> None:
    assert gain([[0.0, 0.01, 0.02], [0.1, 0.11, -0.4]], 1, 0).outliers == 0
