"""What a launch's answers are held against, and when they are called wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import measurement
from tuner.domain.measurement import Measurement
from tuner.domain.quality import Answer, QualityCost, QualityResult
from tuner.study.quality import THRESHOLDS, against_baseline, baseline_told, divergence, is_comparable, what_is_wrong

SURE = {1: math.log(0.9), 2: math.log(0.05)}
UNSURE = {2: math.log(0.4), 3: math.log(0.3), 4: math.log(0.2)}


def answers(
    right: int, of: int, *, deep: bool = False, needles: bool = False, chances: Mapping[int, float] | None = SURE
) -> list[Answer]:
    return [
        Answer(
            question=f"{'needle-' if needles else ''}{number}",
            deep=deep,
            text="x",
            right=number < right,
            first_token=dict(chances) if chances is not None else None,
        )
        for number in range(of)
    ]


def baseline(*given: Answer, loops: Mapping[str, float] | None = None) -> Measurement:
    return measurement(quality=QualityResult(answers=given, depth=8192, loop_shares=dict(loops or {})))


def cost(
    ours: list[Answer], theirs: list[Answer], loops: tuple[dict[str, float], dict[str, float]] = ({}, {})
) -> QualityCost:
    result = QualityResult(answers=tuple(ours), loop_shares=loops[0])
    found = against_baseline(result, baseline(*theirs, loops=loops[1])).cost
    assert found is not None
    return found


# ---- the divergence --------------------------------------------------------------------------------------------------


@st.composite
def distributions(draw: st.DrawFn) -> tuple[dict[int, float], dict[int, float]]:
    """Two distributions over the same twelve tokens."""
    weights = st.lists(st.floats(0.001, 1.0), min_size=12, max_size=12)
    both = []
    for _ in range(2):
        drawn = draw(weights)
        both.append({token: math.log(weight / sum(drawn)) for token, weight in enumerate(drawn)})
    return both[0], both[1]


def likeliest(whole: Mapping[int, float], count: int) -> dict[int, float]:
    return dict(sorted(whole.items(), key=lambda pair: -pair[1])[:count])


@given(distributions(), st.integers(1, 12))
def test_what_is_left_out_of_the_lists_never_makes_the_divergence_larger(
    both: tuple[dict[int, float], dict[int, float]], count: int
) -> None:
    theirs, ours = both
    true = sum(math.exp(theirs[token]) * (theirs[token] - ours[token]) for token in theirs)
    told = divergence(likeliest(theirs, count), likeliest(ours, count))
    assert -1e-9 <= told <= true + 1e-6
    if count == 12:
        assert told == pytest.approx(true, abs=1e-6)


@given(distributions(), st.integers(1, 12))
def test_the_same_distribution_is_no_distance_away(both: tuple[dict[int, float], dict[int, float]], count: int) -> None:
    assert divergence(likeliest(both[0], count), likeliest(both[0], count)) == pytest.approx(0, abs=1e-9)


def test_lists_that_have_no_token_in_common_are_far_apart() -> None:
    apart = {token + 100: logprob for token, logprob in SURE.items()}
    assert divergence(SURE, apart) > 2
    assert divergence(SURE, {1: math.log(0.05), 2: math.log(0.9)}) > 2


@pytest.mark.parametrize("tiny", [-3.4e38, -200.0, -math.inf])
def test_an_impossible_token_does_not_make_it_infinite(tiny: float) -> None:
    for theirs, ours in (({1: 0.0, 2: tiny}, {1: tiny, 2: 0.0}), ({1: 0.0}, {2: 0.0})):
        assert 5 < divergence(theirs, ours) < 20


# ---- what is held against what ---------------------------------------------------------------------------------------


def test_only_questions_that_the_baseline_answers_count() -> None:
    found = cost(answers(4, 12), answers(6, 12))
    assert (found.alone.known_right, found.alone.known_asked) == (4, 6)
    assert (found.deep.known_right, found.deep.known_asked) == (0, 0)


def test_only_what_both_were_asked_counts() -> None:
    """A launch that was slow is asked less: that is no wrong answer."""
    found = cost(answers(5, 5, deep=True), answers(8, 8, deep=True))
    assert (found.deep.known_right, found.deep.known_asked) == (5, 5)
    assert what_is_wrong(found) is None


def test_needles_count_apart_from_known_questions() -> None:
    found = cost(answers(1, 3, deep=True, needles=True), answers(2, 3, deep=True, needles=True))
    assert (found.needles_found, found.needles_hidden, found.deep.known_asked) == (1, 2, 0)


def test_distributions_are_kept_for_the_baseline_alone() -> None:
    first = against_baseline(QualityResult(answers=tuple(answers(3, 3))), None)
    assert first.cost is None
    assert all(answer.first_token for answer in first.answers)
    later = against_baseline(first, measurement(quality=first))
    assert later.cost is not None
    assert not any(answer.first_token for answer in later.answers)
    assert [answer.right for answer in later.answers] == [True] * 3


def test_what_was_measured_without_the_gate_is_not_compared() -> None:
    assert is_comparable(None)
    assert is_comparable(baseline(*answers(0, 3)))
    assert not is_comparable(measurement())
    assert not is_comparable(baseline())
    assert against_baseline(QualityResult(answers=tuple(answers(3, 3))), measurement()).cost is None
    assert what_is_wrong(None) is None


# ---- the verdict -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize(("right", "wrong"), [(0, True), (3, True), (5, False), (9, False)])
def test_known_answers_must_not_be_lost(deep: bool, right: int, wrong: bool) -> None:
    """At depth alone, too: what is right elsewhere is no excuse."""
    elsewhere = answers(12, 12, deep=not deep)
    told = what_is_wrong(cost([*answers(right, 9, deep=deep), *elsewhere], [*answers(9, 9, deep=deep), *elsewhere]))
    assert (told is not None) == wrong
    if told is not None:
        assert f"answers {right or 'none'} of 9 known questions that the baseline answers" in told
        assert ("at depth" in told) == deep


@pytest.mark.parametrize("deep", [False, True])
def test_other_distributions_are_wrong_though_no_question_is_known(deep: bool) -> None:
    theirs = answers(0, 8, deep=deep)
    assert what_is_wrong(cost(theirs, theirs)) is None
    told = what_is_wrong(cost(answers(0, 8, deep=deep, chances=UNSURE), theirs))
    assert told is not None
    assert "nats from the baseline" in told
    assert ("at depth" in told) == deep


@pytest.mark.parametrize(
    ("found", "hidden", "wrong"),
    [(0, 3, True), (1, 3, True), (2, 3, False), (0, 2, True), (1, 2, False), (0, 1, False)],
)
def test_hidden_facts_must_be_found_again(found: int, hidden: int, wrong: bool) -> None:
    theirs = answers(hidden, 3, deep=True, needles=True)
    told = what_is_wrong(cost(answers(found, 3, deep=True, needles=True), theirs))
    assert (told is not None) == wrong
    if told is not None:
        assert f"finds {found or 'none'} of {hidden} hidden facts" in told


def test_going_round_in_circles_is_wrong_only_beyond_the_baselines_own() -> None:
    cells = [f"code@{depth}" for depth in range(5)]
    much, little = dict.fromkeys(cells, 0.9), dict.fromkeys(cells, 0.1)
    told = what_is_wrong(cost([], [], (much, little)))
    assert told == "goes round in circles in 5 of 5 cells, unlike the baseline"
    assert what_is_wrong(cost([], [], (much, much))) is None
    assert what_is_wrong(cost([], [], (little, much))) is None


def test_circles_that_come_and_go_with_the_salt_are_no_fault() -> None:
    """As seen with Gemma 3 270M behind two salts."""
    before = {"code": 0.04, "tool": 0.13, "math": 0.93, "prose-en": 0.76, "prose-zh": 0.68}
    after = {"code": 0.0, "tool": 0.56, "math": 0.27, "prose-en": 0.14, "prose-zh": 0.89}
    for theirs, ours in ((before, after), (after, before)):
        assert what_is_wrong(cost([], [], (ours, theirs))) is None
    # Most of the cells, and not only some, have to go wrong.
    cells = [f"code@{depth}" for depth in range(10)]
    for looping, wrong in ((8, False), (9, True)):
        ours = {cell: 0.9 if place < looping else 0.1 for place, cell in enumerate(cells)}
        assert (what_is_wrong(cost([], [], (ours, dict.fromkeys(cells, 0.1)))) is not None) == wrong


def test_little_evidence_is_no_evidence() -> None:
    few = THRESHOLDS.few_questions - 1
    assert what_is_wrong(cost(answers(0, few, chances=UNSURE), answers(few, few))) is None
    cells = [f"code@{depth}" for depth in range(THRESHOLDS.few_cells - 1)]
    lost = cost([], [], (dict.fromkeys(cells, 1.0), dict.fromkeys(cells, 0.0)))
    assert lost.loop_share_added is None
    assert what_is_wrong(lost) is None


def test_an_engine_that_tells_no_probabilities_is_judged_by_its_answers() -> None:
    theirs = answers(8, 8, chances=None)
    same = cost(theirs, theirs)
    assert same.alone.kl is None
    assert what_is_wrong(same) is None
    assert what_is_wrong(cost(answers(1, 8, chances=None), theirs)) is not None


# ---- what the baseline cannot do -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (answers(8, 8), []),
        (answers(0, 8), ["answers none of the known questions: only distributions are compared"]),
        (answers(0, 8, chances=None), ["answers none of the known questions: answers cannot be checked"]),
        (answers(8, 8, chances=None), ["tells no probabilities"]),
        ([*answers(8, 8), *answers(0, 3, deep=True, needles=True)], ["finds none of the facts"]),
    ],
)
def test_what_the_baseline_cannot_do_is_told(given: list[Answer], told: list[str]) -> None:
    notes = baseline_told(QualityResult(answers=tuple(given)))
    assert len(notes) == len(told)
    assert all(words in note for words, note in zip(told, notes, strict=True))


def test_an_engine_that_refuses_the_questions_is_told() -> None:
    (note,) = baseline_told(QualityResult(answers=(), unchecked="HTTP 400: no n_probs here"))
    assert "no n_probs here" in note
