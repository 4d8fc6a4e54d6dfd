"""The baseline as an anchor: when it is measured again, and what a machine that drifts does to the search."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from tests.study.simulated_machine import LAUNCH_S, SimulatedMachine
from tuner.domain.configuration import Configuration
from tuner.domain.record import Stage
from tuner.domain.verdict import Outcome, Verdict
from tuner.report.selection import candidates, finalists
from tuner.study.anchors import compared, is_due, keep_anchor
from tuner.study.budget import ANCHOR_LAUNCHES, ANCHOR_S

NOISE = {"request_noise": 0.005, "launch_noise": 0.005}


def night(
    monkeypatch: pytest.MonkeyPatch,
    trials: int,
    drift: Callable[[float], float] = lambda _: 0.0,
    *,
    hours: float = 8.0,
    speed: Callable[[Configuration], float] = lambda _: 1.0,
    gap_s: float = 3 * LAUNCH_S,
) -> SimulatedMachine:
    """A search of so many trials with what `run_study` does between them."""
    machine = SimulatedMachine(monkeypatch, speed=speed, seed=2, drift=drift, asked={"hours": hours}, **NOISE)  # type: ignore[arg-type]
    machine.search()
    go_on(machine, trials, gap_s)
    return machine


def go_on(machine: SimulatedMachine, trials: int, gap_s: float = 3 * LAUNCH_S) -> None:
    """So many more trials, each of a configuration of its own."""
    for _ in range(trials):
        keep_anchor(machine.kit, machine.pool.searched[0])
        machine.search(chunk=999 + len(machine.pool.searched))
        machine.wait(gap_s)


def test_the_baseline_is_measured_again_after_launches_and_time_whichever_is_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = night(monkeypatch, 35)
    assert slow.launched(Stage.ANCHOR) == ["baseline"] * 3
    starts = [record.started_at for record in slow.pool.confirmed]
    for since, until in zip([slow.began, *starts], starts, strict=False):
        between = [r for r in slow.pool.searched[1:] if since < r.started_at < until]
        assert len(between) == ANCHOR_LAUNCHES
        assert until - since >= ANCHOR_S
    # Quick launches: half an hour holds many of them.
    assert len(night(monkeypatch, 60, gap_s=0.0).launched(Stage.ANCHOR)) == 60 * (LAUNCH_S + 1) // ANCHOR_S


def test_a_study_of_a_few_minutes_has_no_anchor(monkeypatch: pytest.MonkeyPatch) -> None:
    assert night(monkeypatch, 35, hours=0.1).launched(Stage.ANCHOR) == []


def test_after_a_long_pause_the_baseline_is_measured_first(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = night(monkeypatch, 2)
    baseline = machine.pool.searched[0]
    assert not is_due(machine.kit, baseline)
    machine.wait(ANCHOR_S)
    assert is_due(machine.kit, baseline)
    keep_anchor(machine.kit, baseline)
    assert machine.launched(Stage.ANCHOR) == ["baseline"]
    assert not is_due(machine.kit, baseline)


def test_a_baseline_that_took_the_machine_down_is_no_anchor_again(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = night(monkeypatch, 11)
    (anchor,) = machine.pool.confirmed
    machine.pool.confirmed[0] = anchor.model_copy(
        update={"verdict": Verdict(outcome=Outcome.HOST_CRASH, reason="down")}
    )
    machine.wait(ANCHOR_S)
    assert not is_due(machine.kit, machine.pool.searched[0])


def test_without_drift_nothing_is_measured_twice_and_nothing_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = night(monkeypatch, 35)
    assert machine.launched(Stage.REMEASURE) == []
    for before, after in zip(machine.pool.searched, compared(machine.kit), strict=True):
        for one, other in zip(before.measurement.cells, after.measurement.cells, strict=True):  # type: ignore[union-attr]
            assert other.decode_tps == pytest.approx(one.decode_tps, rel=0.01)


def test_a_machine_that_slows_steadily_does_not_choose_the_winner(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth in eight hours. The best configuration came late; an early one, 4 % worse, looks better."""

    def speed(one: Configuration) -> float:
        return {1001: 1.06, 1088: 1.10}.get(int(one.values["chunk"]), 1.0)

    hours = 100 * 4 * LAUNCH_S
    machine = night(monkeypatch, 90, lambda seconds: 0.1 * min(1.0, seconds / hours), speed=speed)
    (profile,) = machine.kit.frozen.profiles
    frozen = machine.kit.frozen
    deceived = [r.configuration.values["chunk"] for _, r in candidates(profile, frozen, machine.pool.searched)]
    seeing = [r.configuration.values["chunk"] for _, r in candidates(profile, frozen, compared(machine.kit))]
    assert deceived[0] == 1001
    assert seeing[0] == 1088
    assert [r.configuration.values["chunk"] for r in finalists(frozen, compared(machine.kit), 1)] == [1088]


def test_a_step_is_looked_at_again_and_what_it_touched_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something else ran for a while, and made everything slower by a fifth, the best configuration among it."""
    machine = night(monkeypatch, 10, speed=lambda one: {1015: 1.15, 1003: 1.05}.get(int(one.values["chunk"]), 1.0))
    busy_from = machine.clock + LAUNCH_S - machine.began
    # It ends when the second anchor has been measured.
    machine.drift = lambda seconds: 0.2 if seconds > busy_from and len(machine.pool.confirmed) < 2 else 0.0
    go_on(machine, 20)
    assert any("the machine drifts" in note for note in machine.notes)
    assert len(machine.launched(Stage.ANCHOR)) > 29 // ANCHOR_LAUNCHES, "once more than the time alone asks for"
    touched = machine.launched(Stage.REMEASURE)
    assert "trial 16" in touched
    assert len(touched) <= 6, "as far as it may still win anything"
    (profile,) = machine.kit.frozen.profiles
    ranked = candidates(profile, machine.kit.frozen, compared(machine.kit))
    assert ranked[0][1].configuration.values["chunk"] == 1015
    assert math.exp(ranked[0][0] - ranked[1][0]) == pytest.approx(1.15 / 1.05, rel=0.04)
    # What was measured stays as it was measured.
    assert [r.stage for r in machine.pool.searched[1:]] == [Stage.SEARCH] * 30
