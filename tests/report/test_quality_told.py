"""What a configuration costs in quality, as a person and a script read it."""

from __future__ import annotations

from tests.builders import measurement, record
from tuner.domain.quality import Answer, PlaceCost, QualityCost, QualityResult
from tuner.domain.record import TrialRecord
from tuner.report.quality import quality_json, quality_lines, quality_short
from tuner.report.tables import trial_line


def launch(alone: float | None, deep: float | None, *, found: int = 3, loops: float | None = None) -> TrialRecord:
    cost = QualityCost(
        alone=PlaceCost(known_right=11, known_asked=12, kl=alone),
        deep=PlaceCost(known_right=5 + found, known_asked=8, kl=deep),
        needles_found=found,
        needles_hidden=3,
        loop_share_added=loops,
    )
    quality = QualityResult(answers=(), depth=8192, cost=cost)
    return record(1, {}, measurement(quality=quality))


def test_places_are_told_apart_with_the_median_distance_and_the_worst_answers() -> None:
    trials = [launch(0.011, 0.2), launch(0.013, 0.1, found=2), launch(0.012, 0.3)]
    assert quality_lines(trials) == [
        "alone: 0.012 nats from the baseline (no more than noise), 11 of 12 known answers",
        "behind 8192 tokens: 0.200 nats from the baseline, 7 of 8 known answers, 2 of 3 hidden facts found",
    ]
    told = quality_json(trials)
    assert told == {
        "depth_tokens": 8192,
        "alone": {"kl_nats": 0.012, "known_right": 11, "known_asked": 12},
        "deep": {"kl_nats": 0.2, "known_right": 7, "known_asked": 8},
        "needles_found": 2,
        "needles_hidden": 3,
        "loop_share_added": None,
    }


def test_without_probabilities_answers_alone_are_told() -> None:
    assert quality_lines([launch(None, None)])[0] == "alone: 11 of 12 known answers"


def test_loops_are_told_where_there_are_many() -> None:
    assert quality_lines([launch(0.0, 0.0, loops=0.45)])[-1] == "45% more of its text repeats itself"
    assert len(quality_lines([launch(0.0, 0.0, loops=0.05)])) == 2


def test_a_trials_line_names_a_cost_beyond_noise() -> None:
    assert ", answers 0.11 nats off" in trial_line(launch(0.02, 0.11))
    for quiet in (launch(0.0, 0.012), launch(None, None), record(1, {}, measurement())):
        assert "nats" not in trial_line(quiet)


def test_what_was_not_checked_is_not_told() -> None:
    unchecked = record(0, {}, measurement())
    assert quality_lines([unchecked]) == []
    assert quality_json([unchecked]) is None
    assert quality_short(measurement()) == ""


def test_a_baseline_that_was_not_relaunched_tells_its_own_answers() -> None:
    answers = [
        Answer(question="sum", deep=False, text="12", right=True),
        Answer(question="verona", deep=True, text="?", right=False),
        Answer(question="needle-middle", deep=True, text="7319", right=True),
    ]
    own = record(0, {}, measurement(quality=QualityResult(answers=tuple(answers), depth=8192)))
    assert quality_lines([own]) == ["the baseline answers 1 of 2 known questions, finds 1 of 1 hidden facts"]
    assert quality_json([own]) is None
