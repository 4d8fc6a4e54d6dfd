"""What each flag of a winner is worth, and which ones the printed command keeps."""

from __future__ import annotations

import pytest

from tests.study.simulated_machine import LAUNCH_S, SimulatedMachine
from tuner.domain.configuration import Configuration
from tuner.domain.record import Stage
from tuner.report.recommendation import Recommendation, recommend
from tuner.report.tables import recommendation_lines
from tuner.study import trim as trim_module
from tuner.study.confirm import confirm
from tuner.study.trim import trim


def at_best(machine: SimulatedMachine) -> Recommendation:
    """What is recommended in the end."""
    confirm(machine.kit)
    trim(machine.kit)
    (found,) = recommend(machine.kit.frozen, machine.pool.searched, machine.pool.confirmed)
    return found


def searched(machine: SimulatedMachine) -> SimulatedMachine:
    machine.search()
    machine.search(chunk=512, cache="q8_0")
    return machine


def cache_alone(configuration: Configuration) -> float:
    return 1.3 if configuration.values["cache"] == "q8_0" else 1.0


def both(configuration: Configuration) -> float:
    return cache_alone(configuration) * (1.1 if configuration.values["chunk"] == 512 else 1.0)


def test_a_flag_that_is_worth_nothing_is_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = at_best(searched(SimulatedMachine(monkeypatch, speed=cache_alone, launch_noise=0.004, seed=3)))
    assert found.trial.configuration.values == {"chunk": 256, "cache": "q8_0"}
    assert found.put_back == ("chunk",)
    assert found.differences == {"cache": ("f16", "q8_0")}
    assert found.gain.ratio == pytest.approx(1.3, rel=0.02)
    assert found.gain.is_measurable
    cache, chunk = found.worths
    assert (cache.name, chunk.name) == ("cache", "chunk")
    assert cache.gain is not None
    assert cache.gain.ratio == pytest.approx(1.3, rel=0.02)
    assert cache.gain.is_measurable
    assert chunk.told().startswith("no measurable difference")


def test_flags_that_pay_stay_each_with_its_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = searched(SimulatedMachine(monkeypatch, speed=both, launch_noise=0.004, seed=1))
    found = at_best(machine)
    assert found.trial.configuration.values == {"chunk": 512, "cache": "q8_0"}
    assert found.put_back == ()
    assert [worth.name for worth in found.worths] == ["cache", "chunk"]
    assert [worth.gain.ratio for worth in found.worths if worth.gain] == pytest.approx([1.3, 1.1], rel=0.02)
    told = "\n".join(recommendation_lines(found, machine.kit.frozen))
    assert "--cache: f16 (engine's default) -> q8_0   +" in told
    assert "--chunk: 256 (engine's default) -> 512   +" in told


def test_what_fails_without_a_flag_needs_it_and_is_launched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = searched(
        SimulatedMachine(
            monkeypatch,
            speed=cache_alone,
            launch_noise=0.004,
            fails=lambda c: c.values == {"chunk": 256, "cache": "q8_0"},
        )
    )
    found = at_best(machine)
    assert found.trial.configuration.values == {"chunk": 512, "cache": "q8_0"}
    assert {worth.name: worth.needed for worth in found.worths}["chunk"] == "without it OUT_OF_MEMORY"
    without = [r for r in machine.pool.confirmed if r.stage is Stage.TRIM and r.put_back == ("chunk",)]
    assert len(without) == 1


def test_flags_that_pay_only_together_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Either alone does the work of both: without both the speed is lost."""

    def either(configuration: Configuration) -> float:
        return 1.3 if configuration.values["cache"] == "q8_0" or configuration.values["chunk"] == 512 else 1.0

    found = at_best(searched(SimulatedMachine(monkeypatch, speed=either, launch_noise=0.004, seed=2)))
    assert not any(worth.pays for worth in found.worths)
    assert found.put_back == ()
    assert found.trial.configuration.values == {"chunk": 512, "cache": "q8_0"}
    assert found.gain.ratio == pytest.approx(1.3, rel=0.02)


def test_it_goes_on_where_it_was_and_ends_with_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = searched(SimulatedMachine(monkeypatch, speed=cache_alone, launch_noise=0.004, seed=3))
    at_best(machine)
    launches = len(machine.pool.confirmed)
    trim(machine.kit)
    assert len(machine.pool.confirmed) == launches, "all of it is done already"
    assert machine.launched(Stage.TRIM).count("trial 1") == 2 * 2 + 1, "two flags twice, and what is printed once more"

    short = SimulatedMachine(
        monkeypatch, speed=cache_alone, launch_noise=0.004, seed=3, asked={"hours": 9 * LAUNCH_S / 3600}
    )
    found = at_best(searched(short))
    assert found.worths == ()
    assert found.trial.configuration.values == {"chunk": 512, "cache": "q8_0"}
    assert any("no time is left" in note for note in short.notes)


def test_a_winner_that_the_trims_themselves_have_proven_has_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = searched(SimulatedMachine(monkeypatch, speed=both, launch_noise=0.004, seed=1))
    machine.search(chunk=512, cache="f16")
    confirm(machine.kit)
    (first,) = recommend(machine.kit.frozen, machine.pool.searched, machine.pool.confirmed)
    (other,) = [record for record in machine.pool.searched if record.configuration.values["cache"] == "f16"][1:]
    later = first.model_copy(update={"candidate": other})

    def proven(kit: object) -> list[Recommendation]:  # noqa: ARG001
        return [first] if not machine.launched(Stage.TRIM) else [first, later]

    monkeypatch.setattr(trim_module, "_proven", proven)
    trim(machine.kit)
    assert set(machine.launched(Stage.TRIM)) == {f"trial {first.candidate.number}", f"trial {other.number}"}


def test_a_baseline_that_stays_is_not_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = searched(SimulatedMachine(monkeypatch, launch_noise=0.004))
    assert at_best(machine).is_baseline
    assert machine.launched(Stage.TRIM) == []
