"""How much of the night is left, and for what."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import definition, measurement, record
from tuner.domain.record import BASELINE_NOTE, Stage, TrialRecord
from tuner.domain.verdict import Outcome
from tuner.study.budget import DEFAULT_HOURS, Budget


def baseline(seconds: float = 100) -> TrialRecord:
    return record(0, {}, measurement(), stage=Stage.BASELINE, seconds=seconds)


def searched(*seconds: float, outcome: Outcome = Outcome.OK) -> list[TrialRecord]:
    return [record(i + 1, {"chunk": i}, measurement(), seconds=s, outcome=outcome) for i, s in enumerate(seconds)]


def budget(made: list[TrialRecord], confirmed: list[TrialRecord] | None = None, /, **asked: Any) -> Budget:
    rounds = asked.get("confirm_rounds", 3)
    return Budget.of(definition(**{"confirm_most": rounds, "trim": False, **asked}), made, confirmed or [])


def test_without_a_wish_there_is_a_night() -> None:
    assert budget([]).seconds == DEFAULT_HOURS * 3600
    assert budget([], hours=0.5).seconds == 1800
    assert budget([], trials=9).seconds is None
    assert budget([], trials=9, hours=2.0).seconds == 7200


def test_everything_that_ran_has_used_time_and_only_what_was_loaded_counts_as_a_launch() -> None:
    trials = [
        baseline(100), *searched(60, 80),
        *searched(5, outcome=Outcome.OUT_OF_MEMORY), *searched(1, outcome=Outcome.INVALID),
        *searched(2, outcome=Outcome.WILL_NOT_FIT), *searched(30, outcome=Outcome.INTERRUPTED),
        record(9, {}, outcome=None),
    ]  # fmt: skip
    now = budget(trials, searched(50), hours=1.0)
    assert now.used_s == 100 + 60 + 80 + 5 + 1 + 2 + 30 + 50
    assert now.launched == 5
    assert now.left_s == 3600 - now.used_s


def test_a_launch_takes_what_those_that_ran_to_their_end_took() -> None:
    quick_failures = searched(1, 1, 1, 1, outcome=Outcome.CRASHED)
    assert budget([]).trial_s == 0
    assert budget([baseline(100)]).trial_s == 100
    assert budget([baseline(1000), *searched(60, 80, 100), *quick_failures]).trial_s == 80


def test_time_is_kept_back_for_the_confirm_stage() -> None:
    trials = [baseline(100), *searched(100, 100, 100, 100)]
    now = budget(trials, hours=1.0, confirm_rounds=3)
    assert now.confirm_s(trials[:3]) == 900
    assert now.search_left_s(trials[:3]) == 3600 - 900 - 500
    # But never more than half: a search that finds nothing needs no confirmation.
    assert budget(trials, hours=1.0, confirm_rounds=30).search_left_s(trials[:3]) == 1800 - 500


def test_a_trial_that_could_not_end_in_time_is_not_begun() -> None:
    trials = [baseline(100), *searched(*[100] * 20)]
    assert budget(trials, hours=2900 / 3600).search_left_s(trials[:2]) == pytest.approx(200)
    assert budget(trials, hours=2900 / 3600).search_is_over(trials[:2]) is None
    assert budget(trials, hours=2750 / 3600).search_is_over(trials[:2])


def test_a_slow_baseline_alone_does_not_end_the_search() -> None:
    slow = [baseline(500)]
    assert budget(slow, hours=1000 / 3600).search_is_over(slow) is None
    assert budget([baseline(700)], hours=1000 / 3600).search_is_over(slow)


@pytest.mark.parametrize(("launched", "goes_on"), [(4, True), (5, False), (6, False)])
def test_launches_are_limited_where_that_was_asked(launched: int, goes_on: bool) -> None:
    trials = [baseline(1), *searched(*[1] * (launched - 1))]
    assert (budget(trials, trials=5).search_is_over(trials[:1]) is None) is goes_on
    # What was refused before it was loaded is not charged.
    assert (
        budget([*trials, *searched(1, outcome=Outcome.INVALID)], trials=5).search_is_over(trials[:1]) is None
    ) is goes_on


def test_finalists_are_confirmed_as_far_as_time_allows_and_one_at_least() -> None:
    first, second, third = searched(100, 300, 100)
    base = baseline(100)
    assert budget([base], trials=9).affordable(base, [first, second, third]) == [first, second, third]
    assert budget([base], hours=0.001).affordable(base, [first, second, third]) == [first]
    # The second is too slow, the third is not.
    assert budget([], hours=1000 / 3600).affordable(base, [first, second, third]) == [first, third]
    assert budget([base], hours=1.0).affordable(base, []) == []


def test_what_is_planned_is_told_as_far_as_it_can_be() -> None:
    assert budget([], hours=1.0).trials_planned([]) is None
    assert budget([], trials=9).trials_planned([]) == 9
    trials = [baseline(100), *searched(100, 100, 100)]
    now = budget(trials, hours=1.0)
    assert now.trials_planned(trials[:2]) == 4 + (3600 - 600 - 400) // 100
    assert budget(trials, hours=1.0, trials=6).trials_planned(trials[:2]) == 6


records = st.lists(
    st.builds(
        lambda seconds, outcome, stage: record(1, {}, measurement(), seconds=seconds, outcome=outcome, stage=stage),
        st.floats(0, 5000), st.sampled_from([None, *Outcome]), st.sampled_from([Stage.BASELINE, Stage.SEARCH]),
    ),
    max_size=8,
)  # fmt: skip


@given(records, records, st.none() | st.floats(0.001, 100), st.none() | st.integers(1, 50), st.integers(2, 9))
def test_whatever_happened_the_accounts_hold(
    trials: list[TrialRecord], confirmed: list[TrialRecord], hours: float | None, limit: int | None, rounds: int
) -> None:
    now = budget(trials, confirmed, hours=hours, trials=limit, confirm_rounds=rounds)
    left = now.left_s
    assert (left is None) == (hours is None and limit is not None)
    assert left is None or left >= 0
    planned = now.trials_planned(trials)
    assert planned is None or planned > now.launched
    if left == 0 or (limit is not None and now.launched >= limit):
        assert now.search_is_over(trials)
    if trials:
        chosen = now.affordable(trials[0], trials[1:])
        assert len(chosen) >= min(1, len(trials) - 1)


def test_a_confirmed_baseline_does_not_shorten_the_search() -> None:
    again = record(0, {}, measurement(), stage=Stage.CONFIRM, note=BASELINE_NOTE, seconds=50)
    assert budget([baseline()], [again], trials=5).launched == 1


def test_more_rounds_may_follow_where_there_is_a_limit_of_time_to_keep_to() -> None:
    trials = [baseline(100), *searched(100, 100, 100, 100)]
    now = budget(trials, hours=1.0, confirm_rounds=3, confirm_most=None)
    assert now.most_rounds == 15
    assert now.search_left_s(trials[:3]) == 3600 - 1.5 * 900 - 500, "time is kept back for some of them"
    assert budget(trials, trials=9, confirm_rounds=3, confirm_most=None).most_rounds == 3
    assert budget(trials, trials=9, confirm_rounds=3, confirm_most=7).most_rounds == 7
    assert now.has_time_for(trials)
    assert not budget([baseline(3550)], hours=1.0).has_time_for([baseline(100)])


def measured(samples: int, seconds: float = 100) -> TrialRecord:
    """A baseline of two cells of 64 tokens at 50 t/s, each measured so often."""
    made = measurement(1000.0, 50.0)
    cells = tuple(
        cell.model_copy(update={"decode_tps_samples": (50.0,) * samples, "generated_tokens": 64 * samples})
        for cell in made.cells
    )
    return record(0, {}, made.model_copy(update={"cells": cells}), stage=Stage.BASELINE, seconds=seconds)


def test_the_confirm_stage_is_expected_to_measure_every_cell_as_often_as_it_may() -> None:
    now = budget([measured(1)], hours=8.0)
    assert now.again_s(measured(1)) == pytest.approx(100 + 2 * 2 * 64 / 50)
    assert now.again_s(measured(3)) == 100
    assert now.again_s(baseline(100)) == 100, "where nothing is known of its requests, as long as it took"
    assert now.confirm_s([measured(1), measured(3)]) == pytest.approx(3 * (200 + 2 * 2 * 64 / 50))


def test_the_plan_tells_trials_and_what_confirming_takes() -> None:
    told = budget([baseline(130)], hours=8.0, confirm_most=15).plan(baseline(130), 5)
    # 18 launches of 130 s and half as many again are kept back; one launch in 14 is an anchor.
    many = int((28800 - 1.5 * 18 * 130 - 130) / (130 * (1 + 130 / 1800)))
    assert told == (
        f"about {many} trials of 130 s, then up to 5 finalists and the baseline, 3 launches each, "
        "up to 15 while a gain is open, in 39 min"
    )
    limited = budget([baseline(130)], trials=9).plan(baseline(130), 1)
    assert limited == "about 8 trials of 130 s, then up to 1 finalist and the baseline, 3 launches each, in 13 min"
    assert budget([baseline(130)], trials=9, hours=0.2).plan(baseline(130), 1).startswith("about 1 trial of 130 s")


@given(st.floats(0.01, 100), st.none() | st.integers(1, 50), st.floats(0.1, 5000), st.integers(1, 5))
def test_a_plan_can_always_be_made(hours: float, trials: int | None, seconds: float, finalists: int) -> None:
    made = baseline(seconds)
    told = budget([made], hours=hours, trials=trials).plan(made, finalists)
    assert "-" not in told
    assert told.startswith("about ")


def test_time_is_kept_back_for_what_the_flags_are_worth_unless_the_study_is_small() -> None:
    made = [baseline(100), *searched(100, 100, 100, 100)]
    without, trimmed = budget(made, hours=8.0), budget(made, hours=8.0, trim=True)
    left = without.search_left_s([]), trimmed.search_left_s([])
    assert left[0] is not None
    assert left[1] is not None
    assert left[0] - left[1] == pytest.approx(16 * trimmed.trial_s)
    assert budget(made, hours=0.2, trim=True).search_left_s([]) == budget(made, hours=0.2).search_left_s([])
