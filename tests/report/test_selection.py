"""What is confirmed and what is recommended."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.builders import DEEP, DEPTHS, SHALLOW, frozen, measurement, profile, record
from tuner.domain.configuration import Value
from tuner.domain.frozen import FrozenStudy
from tuner.domain.record import BASELINE_NOTE, Stage, TrialRecord
from tuner.domain.verdict import Outcome
from tuner.domain.workload import Content
from tuner.report.recommendation import Recommendation, recommend
from tuner.report.selection import baseline_of, candidates, finalists

BASE: dict[str, Value] = {"chunk": 256, "cache": "f16"}
READER = profile("reader", decode=0)
WRITER = profile("writer", prefill=0)


def baseline(prefill: float = 100.0, decode: float = 100.0, **changes: object) -> TrialRecord:
    return record(0, BASE, measurement(prefill, decode, **changes), stage=Stage.BASELINE)  # type: ignore[arg-type]


def found(number: int, prefill: float, decode: float, **values: Value) -> TrialRecord:
    return record(number, {**BASE, "chunk": 1000 + number, **values}, measurement(prefill, decode))


def again(of: TrialRecord, *speeds: float, outcome: Outcome = Outcome.OK) -> list[TrialRecord]:
    """Launches of the confirm stage, prefill and decode alike."""
    note = BASELINE_NOTE if of.is_baseline else f"trial {of.number}"
    return [
        record(i, of.configuration.values, measurement(s, s), stage=Stage.CONFIRM, note=note, outcome=outcome)
        for i, s in enumerate(speeds)
    ]


def one(study: FrozenStudy, searched: Sequence[TrialRecord], confirmed: Sequence[TrialRecord] = ()) -> Recommendation:
    (recommendation,) = recommend(study, searched, confirmed)
    return recommendation


def test_only_feasible_and_scored_trials_that_meet_the_needs_are_candidates() -> None:
    study = frozen()
    good = found(1, 110, 110)
    others = [
        record(2, {"chunk": 2}, measurement(200.0, 200.0), outcome=Outcome.DEGRADED),
        record(3, {"chunk": 3}, measurement(200.0, 200.0), constraints={"context": 0.5}),
        record(4, {"chunk": 4}, measurement(200.0, 200.0, context=2048)),
        record(5, {"chunk": 5}, measurement({}, 200.0)),
        record(6, {"chunk": 6}, None, outcome=Outcome.OUT_OF_MEMORY),
        record(7, {"chunk": 7}, outcome=None),
    ]
    ranked = candidates(study.profiles[0], study, [*others, baseline(), good])
    assert [r.number for _, r in ranked] == [1, 0]


def test_finalists_serve_all_profiles_together_one_after_the_other() -> None:
    study = frozen([READER, WRITER])
    both, reads, writes = found(1, 150, 150), found(2, 160, 100), found(3, 100, 160)
    searched = [baseline(), reads, writes, both]
    assert finalists(study, searched, 1) == [both]
    assert {r.number for r in finalists(study, searched, 3)} == {1, 2, 3}
    assert finalists(study, searched, 3)[0] == both
    assert finalists(study, searched, 0) == []


def test_of_what_is_no_better_than_the_baseline_only_the_best_is_a_finalist() -> None:
    """One launch of each is no evidence that the baseline is the best; more of them would be a waste."""
    study = frozen([READER, WRITER])
    assert finalists(study, [baseline(), found(1, 90, 90), found(2, 99, 99)], 2) == [found(2, 99, 99)]
    assert finalists(study, [baseline()], 2) == []
    # What only repeats what a better one gives is none.
    assert finalists(study, [baseline(), found(1, 150, 150), found(2, 140, 140)], 2) == [found(1, 150, 150)]


def test_what_the_baseline_cannot_do_at_all_is_worth_the_most() -> None:
    deep = profile("deep", least_context=16384)
    study = frozen([profile("any"), deep])
    small = baseline(context=8192)
    slow_but_deep, fast = found(1, 60, 60), record(2, {"chunk": 2}, measurement(150.0, 150.0, context=8192))
    assert finalists(study, [small, fast, slow_but_deep], 1) == [slow_but_deep]


def test_the_baseline_is_the_one_that_ran() -> None:
    failed = record(0, BASE, None, stage=Stage.BASELINE, outcome=Outcome.CRASHED)
    unfit = record(1, BASE, measurement(), stage=Stage.BASELINE, constraints={"context": 0.5})
    broken = record(2, BASE, measurement(), stage=Stage.BASELINE, outcome=Outcome.STALLED)
    assert baseline_of([failed, broken, unfit]) == unfit
    assert baseline_of([failed, broken]) is None
    assert baseline_of([failed, found(1, 1, 1)]) is None
    assert recommend(frozen(), [failed, found(1, 200, 200)], []) == []


def test_while_nothing_is_confirmed_the_best_of_the_search_is_shown_as_that() -> None:
    best = one(frozen(), [baseline(), found(1, 120, 120), found(2, 150, 150)])
    assert best.trial.number == 2
    assert best.gain.ratio == pytest.approx(1.5)
    assert best.gain.low is None
    assert not best.is_baseline
    assert best.differences == {"chunk": (256, 1002)}


def test_the_gain_is_that_of_the_confirm_stage_and_not_the_lucky_one_of_the_search() -> None:
    lucky, base = found(1, 200, 200), baseline()
    confirmed = again(base, 100, 101, 99) + again(lucky, 120, 121, 119)
    best = one(frozen(), [base, lucky], confirmed)
    assert best.gain.ratio == pytest.approx(1.2, rel=0.01)
    assert best.gain.is_measurable
    assert len(best.trials) == 3
    assert {trial.stage for trial in best.trials} == {Stage.CONFIRM}


def test_once_something_is_confirmed_only_that_is_recommended() -> None:
    base, first, second = baseline(), found(1, 150, 150), found(2, 160, 160)
    best = one(frozen(), [base, first, second], again(base, 100, 100, 101) + again(first, 150, 150, 151))
    assert best.candidate == first
    assert best.trial.configuration == first.configuration


@pytest.mark.parametrize("speeds", [(100, 104, 97), (80, 81, 79)])
def test_a_gain_that_is_not_measurable_keeps_the_baseline(speeds: tuple[float, ...]) -> None:
    base, lucky = baseline(), found(1, 110, 110)
    best = one(frozen(), [base, lucky], again(base, 100, 103, 98) + again(lucky, *speeds))
    assert best.is_baseline
    assert best.differences == {}
    assert best.candidate == lucky
    assert best.gain.low is not None
    assert {trial.note for trial in best.trials} == {BASELINE_NOTE}
    assert best.meets_needs


@pytest.mark.parametrize("crashes", [1, 3])
def test_what_fails_when_it_is_launched_again_is_not_recommended(crashes: int) -> None:
    """A configuration that runs two times of three is none to leave a person with."""
    base, shaky, sound = baseline(), found(1, 200, 200), found(2, 120, 120)
    launches = again(shaky, *[200.0] * (3 - crashes)) + again(shaky, *[1.0] * crashes, outcome=Outcome.CRASHED)
    alone = one(frozen(), [base, shaky], again(base, 100, 100, 101) + launches)
    assert alone.is_baseline
    both = one(frozen(), [base, shaky, sound], again(base, 100, 100, 101) + launches + again(sound, 120, 120, 121))
    assert both.trial.configuration == sound.configuration


def test_an_interrupted_launch_speaks_against_nothing() -> None:
    base, good = baseline(), found(1, 150, 150)
    launches = again(good, 1.0, outcome=Outcome.INTERRUPTED) + again(good, 150, 150, 151)
    best = one(frozen(), [base, good], again(base, 100, 100, 101) + launches)
    assert best.candidate == good
    assert len(best.trials) == 3


def test_what_the_baseline_cannot_do_needs_no_proof_of_being_faster() -> None:
    study = frozen([profile(least_context=16384)])
    small, deep = baseline(context=8192), found(1, 60, 60)
    confirmed = [
        record(i, BASE, measurement(100.0 + i, 100.0, context=8192), stage=Stage.CONFIRM, note=BASELINE_NOTE)
        for i in range(3)
    ]
    best = one(study, [small, deep], confirmed + again(deep, 60, 61, 59))
    assert best.trial.configuration == deep.configuration
    assert best.meets_needs
    assert best.gain.ratio < 1


def test_needs_that_nothing_meets_are_told() -> None:
    study = frozen([profile(least_context=100_000)])
    best = one(study, [baseline(), found(1, 150, 150)])
    assert best.is_baseline
    assert not best.meets_needs
    assert best.candidate.is_baseline


def test_the_baselines_own_command_is_told_from_the_same_configuration_launched_explicitly() -> None:
    """The baseline runs the user's command; a trial of equal values names every flag, and can be another thing."""
    base = baseline()
    explicit = record(1, BASE, measurement(150.0, 150.0))
    best = one(frozen(), [base, explicit], again(base, 100, 100, 101) + again(explicit, 150, 150, 151))
    assert best.gain.ratio == pytest.approx(1.5, rel=0.01)
    assert not best.is_baseline
    assert len(best.trials) == 3


def test_each_profile_gets_its_own() -> None:
    study = frozen([READER, WRITER, profile("deep", decode=0, depths={"deep": 1})])
    deep = {SHALLOW: 90.0, DEEP: 300.0}
    searched = [
        baseline(), found(1, 160, 100), found(2, 100, 160),
        record(3, {"chunk": 9}, measurement(deep, {(Content.CODE, d): 100.0 for d in DEPTHS})),
    ]  # fmt: skip
    assert [r.trial.number for r in recommend(study, searched, [])] == [1, 2, 3]


def test_a_parameter_that_merely_came_into_being_is_no_difference() -> None:
    study = frozen(baseline={"chunk": 256})
    base = record(0, {"chunk": 256}, measurement(100.0, 100.0), stage=Stage.BASELINE)
    same = record(1, {"chunk": 256, "cache": "f16"}, measurement(150.0, 150.0))
    other = record(2, {"cache": "q8_0"}, measurement(160.0, 160.0))
    assert one(study, [base, same]).differences == {}
    assert one(study, [base, other]).differences == {"cache": (None, "q8_0"), "chunk": (256, None)}
