"""Whether the confirm stage's claims can be believed, with launches simulated and everything else the project's own."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.study.simulated_machine import LAUNCH_S, PROFILE, SimulatedMachine
from tuner.domain.configuration import Configuration
from tuner.domain.record import Stage
from tuner.report.recommendation import Recommendation, recommend
from tuner.study.confirm import confirm, is_forward

TRUTH = 1.05


def at_best(machine: SimulatedMachine) -> list[Recommendation]:
    """What is recommended after the confirm stage."""
    confirm(machine.kit)
    return recommend(machine.kit.frozen, machine.pool.searched, machine.pool.confirmed)


def harsh(monkeypatch: pytest.MonkeyPatch, seed: int, truth: float, **changes: object) -> SimulatedMachine:
    """Launches that differ by 3 %, of which one in 25 is a quarter slower, on a machine that slows by 2 % meanwhile."""
    machine = SimulatedMachine(
        monkeypatch,
        speed=lambda configuration: truth if configuration.values["chunk"] == 512 else 1.0,
        seed=seed,
        request_noise=0.01,
        launch_noise=0.03,
        outliers=0.04,
        drift=lambda seconds: 0.02 * min(1.0, seconds / (32 * LAUNCH_S)),
        **changes,  # type: ignore[arg-type]
    )
    machine.search()
    machine.search(chunk=512)
    return machine


def test_the_same_configuration_under_two_names_is_told_apart_at_most_once_in_twenty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    claims = 0
    for seed in range(20):
        (found,) = at_best(harsh(monkeypatch, seed, 1.0))
        assert found.gain.low is not None
        assert found.gain.high is not None
        apart = not found.gain.low <= 1 <= found.gain.high
        claims += apart
        assert found.is_baseline is not found.gain.is_measurable
        if not apart:
            assert found.gain.told().startswith("no measurable difference")
    assert claims <= 1


def test_five_per_cent_are_found_in_eighteen_of_twenty_with_an_honest_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    found = covered = 0
    for seed in range(20):
        (best,) = at_best(harsh(monkeypatch, seed, TRUTH))
        assert best.gain.low is not None
        assert best.gain.high is not None
        found += best.gain.is_measurable
        covered += best.gain.low <= TRUTH <= best.gain.high
    assert found >= 18
    assert covered >= 17


def test_of_several_profiles_none_gets_a_winner_by_luck(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three ways of using the model are three chances to be wrong: their intervals are wider for it."""
    three = (
        PROFILE.model_copy(update={"name": "reads", "decode": 0.0}),
        PROFILE.model_copy(update={"name": "writes", "prefill": 0.0}),
        PROFILE,
    )
    claims = 0
    for seed in range(20):
        machine = SimulatedMachine(
            monkeypatch, seed=seed, request_noise=0.03, launch_noise=0.01, profiles=three, asked={"trials": 9}
        )
        machine.search()
        for chunk in (128, 512, 1024):
            machine.search(chunk=chunk)
        claims += any(one.gain.is_measurable for one in at_best(machine))
    assert claims <= 1


def test_a_steady_machine_needs_no_more_than_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SimulatedMachine(monkeypatch, speed=lambda one: 1.2 if one.values["chunk"] == 512 else 1.0, seed=1,
                               request_noise=0.01, launch_noise=0.01)  # fmt: skip
    machine.search()
    machine.search(chunk=512)
    (best,) = at_best(machine)
    assert best.gain.is_measurable
    assert Counter(machine.launched(Stage.CONFIRM)) == {"baseline": 3, "trial 1": 3}


def test_the_order_of_launches_favours_nobody() -> None:
    forward = [is_forward(number) for number in range(16)]
    assert forward[:4] == [True, False, False, True]
    for order in (1, 2):
        # Where A comes first it is early by one place: the places of A sum up to those of B, also squared.
        places: dict[str, int] = {"A": 0, "B": 0}
        for number in range(8):
            for place, name in enumerate("AB" if forward[number] else "BA"):
                places[name] += (2 * number + place) ** order
        assert places["A"] == places["B"]


def test_a_finalist_of_a_later_run_is_measured_beside_the_baseline_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Days lie between the two runs, and the machine has become slower."""
    machine = SimulatedMachine(
        monkeypatch, speed=lambda one: {512: 1.02, 128: 1.10}.get(int(one.values["chunk"]), 1.0), seed=3,
        request_noise=0.005, launch_noise=0.005, asked={"trials": 9},
        drift=lambda seconds: 0.05 if seconds > 100_000 else 0.0,
    )  # fmt: skip
    machine.search()
    machine.search(chunk=512)
    at_best(machine)
    machine.wait(200_000)
    late = machine.search(chunk=128)
    before = len(machine.pool.confirmed)
    (best,) = at_best(machine)
    again = Counter(machine.launched(Stage.CONFIRM)[before:])
    assert again["baseline"] == again[f"trial {late.number}"] == 3
    assert best.candidate.configuration == Configuration(values=late.configuration.values)
    assert best.gain.ratio == pytest.approx(1.10, rel=0.01)
    assert best.gain.is_measurable


def test_what_is_confirmed_is_not_launched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = harsh(monkeypatch, 1, 1.3)
    at_best(machine)
    before = len(machine.pool.confirmed)
    at_best(machine)
    assert len(machine.pool.confirmed) == before


def test_an_outlying_launch_is_named_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SimulatedMachine(monkeypatch, speed=lambda one: 1.1 if one.values["chunk"] == 512 else 1.0, seed=5,
                               request_noise=0.005, launch_noise=0.01,
                               asked={"trials": 9, "confirm_rounds": 6})  # fmt: skip
    machine.search()
    machine.search(chunk=512)
    at_best(machine)
    machine.pool.confirmed.clear()
    slow = iter([False] * 5 + [True])
    machine.drift = lambda _: 0.5 if next(slow, False) else 0.0
    (best,) = at_best(machine)
    (told,) = best.outliers
    assert told.startswith("trials/confirm-0005: ")
    assert "slower than its others" in told
    assert best.gain.ratio == pytest.approx(1.1, rel=0.02)
    assert "1 outlying launch left out" in best.gain.told()
