"""What a launch's answers cost against the baseline's, and from where on they are wrong."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.domain.quality import AnsweredQuestion, Quality, QualityCost, ShortAnswer
from tuner.study.quality import divergence, quality_cost, what_is_wrong

SURE = {"Paris": math.log(0.9), "a": math.log(0.06), "the": math.log(0.04)}


def quality(
    right: int = 8, chances: Mapping[str, float] | None = SURE, *, needle: bool | None = True, loops: float = 0.1
) -> Quality:
    questions = tuple(
        AnsweredQuestion(
            question=f"q{n}",
            deep=deep,
            right=n < right,
            answer=ShortAnswer(text="", chances=dict(chances or {}) or None),
        )
        for deep in (False, True)
        for n in range(8)
    )
    return Quality(questions=questions, needle_found=needle, loop_share=loops)


BASE = quality()


def verdict(ours: Quality, reference: Quality = BASE) -> str | None:
    return what_is_wrong(quality_cost(ours, reference))


def test_the_same_answers_cost_nothing() -> None:
    assert quality_cost(BASE, BASE) == QualityCost(kl_shallow=0.0, kl_deep=0.0, answered=16, known=16)
    assert verdict(BASE) is None


def test_a_quantised_caches_cost_is_shown_and_accepted() -> None:
    blurred = {"Paris": math.log(0.8), "a": math.log(0.13), "the": math.log(0.07)}
    cost = quality_cost(quality(7, blurred), BASE)
    assert cost.kl_deep is not None
    assert 0.01 < cost.kl_deep < 0.2
    assert (cost.answered, cost.known) == (14, 16)
    assert what_is_wrong(cost) is None


@pytest.mark.parametrize(
    ("ours", "told"),
    [
        (quality(3), "answers 6 of 16 known questions"),
        (quality(needle=False), "does not find a sentence"),
        (quality(chances={"zq": math.log(0.99)}), "nats"),
        (quality(loops=0.9), "loops"),
    ],
    ids=["answers", "needle", "distribution", "loops"],
)
def test_each_sign_of_nonsense_is_enough(ours: Quality, told: str) -> None:
    said = verdict(ours)
    assert said is not None
    assert told in said


def test_what_the_baseline_cannot_do_is_asked_of_nobody() -> None:
    """A tiny random model answers nothing, finds nothing and loops: only distributions are left to compare."""
    dull = quality(0, needle=False, loops=0.95)
    assert verdict(dull, dull) is None
    assert quality_cost(dull, dull).known == 0


def test_an_engine_that_tells_no_chances_is_judged_by_its_words() -> None:
    silent = quality(chances=None)
    cost = quality_cost(silent, silent)
    assert cost.kl_shallow is cost.kl_deep is None
    assert what_is_wrong(cost) is None
    assert verdict(quality(2, None), silent) is not None


logprobs = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0.001, 1.0), min_size=2, max_size=8).map(
    lambda weights: {token: math.log(weight / sum(weights.values())) for token, weight in weights.items()}
)


@given(logprobs, logprobs)
def test_divergence_is_never_negative_and_zero_only_for_the_same(
    one: dict[str, float], other: dict[str, float]
) -> None:
    assert divergence(one, one) == pytest.approx(0, abs=1e-9)
    assert divergence(one, other) >= 0
    assert math.isfinite(divergence(one, other))


def test_a_right_launch_is_never_rejected_in_fifty_runs() -> None:
    """Noise as measured between batch shapes and caches of eight bits, tenfold: still nothing is called wrong."""
    rng = random.Random(1)
    for _ in range(50):
        noisy = {token: value + rng.gauss(0, 0.3) for token, value in SURE.items()}
        total = math.log(sum(map(math.exp, noisy.values())))
        ours = quality(rng.choice([7, 8]), {t: v - total for t, v in noisy.items()}, loops=rng.uniform(0, 0.4))
        assert verdict(ours) is None
