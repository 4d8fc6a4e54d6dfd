"""What a study learns about memory: the projection's error, and how little was too much."""

from __future__ import annotations

import pytest

from tuner.domain.configuration import Configuration
from tuner.domain.measurement import ActualSettings, Measurement
from tuner.domain.memory import MemoryProjection
from tuner.domain.record import Owner, Stage, TrialRecord
from tuner.domain.verdict import Explanation, Outcome, Verdict
from tuner.study.memory import MemoryLimits

OWNER = Owner(host="here", boot_id="one", pid=1)


def projection(needed: float, *, free: float = 10_000.0, draft: bool = False) -> MemoryProjection:
    return MemoryProjection(
        needed_mib={"CUDA0": needed, "CUDA1": 100.0},
        free_mib={"CUDA0": free, "CUDA1": free},
        speculation_mib=0.0 if draft else None,
    )


def trial(
    needed: float, outcome: Outcome, *, held: float | None = None, device: str | None = None, draft: bool = False
) -> TrialRecord:
    measured = Measurement(
        cells=(), ready_s=1.0, actual=ActualSettings(buffers_mib={} if held is None else {"CUDA0": held})
    )
    return TrialRecord(
        number=0,
        stage=Stage.SEARCH,
        configuration=Configuration(values={}),
        owner=OWNER,
        started_at=0.0,
        projection=projection(needed, draft=draft),
        verdict=Verdict(
            outcome=outcome,
            reason="",
            explanation=Explanation(outcome=outcome, reason="", device=device) if device else None,
        ),
        measurement=measured if outcome is Outcome.OK else None,
    )


def over(records: list[TrialRecord], needed: float, *, free: float = 10_000.0, draft: bool = False) -> float:
    return MemoryLimits.learned(records).over(projection(needed, free=free, draft=draft))["CUDA0"]


def test_without_evidence_the_projection_is_believed() -> None:
    assert over([], 9_000) == -1_000
    assert over([], 11_000) == 1_000


def test_what_launches_held_beyond_their_projection_becomes_the_margin() -> None:
    seen = [trial(5_000, Outcome.OK, held=5_400), trial(6_000, Outcome.OK, held=6_400)]
    assert over(seen, 9_700) == pytest.approx(100)


def test_the_margin_shrinks_as_evidence_grows() -> None:
    def seen(times: int) -> list[TrialRecord]:
        return [trial(5_000, Outcome.OK, held=5_000 + error) for error in [100, 300] * times]

    margins = [over(seen(times), 9_000) + 1_000 for times in (1, 4, 16)]
    assert margins[0] > margins[1] > margins[2] > 200


def test_an_unforeseen_out_of_memory_moves_the_line_at_once() -> None:
    assert over([], 8_000) < 0
    assert over([trial(8_000, Outcome.OUT_OF_MEMORY, device="CUDA0")], 8_000) > 0


def test_the_line_lies_between_what_fitted_and_what_did_not() -> None:
    seen = [trial(4_000, Outcome.OK, held=4_000), trial(8_000, Outcome.OUT_OF_MEMORY, device="CUDA0")]
    assert over(seen, 5_900) < 0 < over(seen, 6_100)


def test_nothing_as_large_as_what_failed_is_launched_again() -> None:
    seen = [trial(8_000, Outcome.OK, held=8_000), trial(8_000, Outcome.OUT_OF_MEMORY, device="CUDA0")]
    assert over(seen, 8_000) > 0


def test_only_the_device_that_failed_is_blamed() -> None:
    limits = MemoryLimits.learned([trial(8_000, Outcome.OUT_OF_MEMORY, device="CUDA1")])
    assert limits.over(projection(8_000))["CUDA0"] < 0
    assert limits.over(projection(8_000))["CUDA1"] > 0


def test_a_log_that_names_no_device_leaves_all_under_suspicion() -> None:
    limits = MemoryLimits.learned([trial(8_000, Outcome.OUT_OF_MEMORY)])
    assert all(missing > 0 for missing in limits.over(projection(8_000)).values())


def test_a_draft_has_an_error_of_its_own() -> None:
    seen = [trial(5_000, Outcome.OK, held=6_000, draft=True), trial(5_000, Outcome.OK, held=5_000)]
    assert over(seen, 9_500) < 0
    assert over(seen, 9_500, draft=True) > 0


@pytest.mark.parametrize("outcome", [Outcome.CRASHED, Outcome.STALLED, Outcome.INTERRUPTED, Outcome.WILL_NOT_FIT])
def test_other_outcomes_teach_nothing_about_memory(outcome: Outcome) -> None:
    assert over([trial(1_000, outcome)], 9_000) == -1_000
