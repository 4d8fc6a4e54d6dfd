"""Several machines on one study: each has its own level, its own sessions, and whole rounds of the confirm stage."""

from __future__ import annotations

import math

import pytest

from tests.builders import MACHINE, frozen, measurement, record
from tests.study.simulated_machine import SimulatedMachine
from tuner.domain.gpu import GpuIdentity
from tuner.domain.record import BASELINE_NOTE, Owner, Stage, TrialRecord
from tuner.domain.verdict import Outcome
from tuner.report.drift import levelled
from tuner.report.recommendation import recommend
from tuner.study import settle
from tuner.study.anchors import is_due
from tuner.study.budget import Budget
from tuner.study.confirm import confirm


def on(host: str, made: TrialRecord, at: float = 1000.0) -> TrialRecord:
    """The trial, as another machine measured it."""
    owner = Owner(host=host, boot_id=f"boot of {host}", pid=1)
    return made.model_copy(update={"owner": owner, "started_at": at, "finished_at": at + 60.0})


BASELINE = on("desk", record(0, {}, measurement(1000.0, 50.0), stage=Stage.BASELINE))


def test_a_slower_machines_trials_are_raised_to_the_first_ones_level() -> None:
    """The other machine has four fifths of the speed; its better configuration would lose without its anchor."""
    slow = on("other", record(1, {"chunk": 512}, measurement(960.0, 48.0)), 5000.0)
    here = on("desk", record(2, {"chunk": 128}, measurement(1000.0, 55.0)), 5000.0)
    anchor = on("other", record(0, {}, measurement(800.0, 40.0), stage=Stage.ANCHOR, note=BASELINE_NOTE), 4000.0)
    level = levelled([BASELINE, slow, here], [anchor])
    speeds = [one.measurement.cells[0].decode_tps for one in level if one.measurement]
    assert speeds[1] == pytest.approx(48.0 / 0.8, rel=0.01)
    assert speeds[2] == 55.0, "one machine's anchor says nothing of another"


def test_a_machine_that_joins_measures_the_baseline_first(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SimulatedMachine(monkeypatch, asked={"hours": 0.1})
    baseline = machine.search()
    assert not is_due(machine.kit, baseline)
    elsewhere = on("another", baseline)
    assert is_due(machine.kit, elsewhere), "a short study too: nothing could be compared otherwise"
    for outcome, due in ((Outcome.INTERRUPTED, True), (Outcome.CRASHED, True), (Outcome.CRASHED, False)):
        anchor = record(0, {}, stage=Stage.ANCHOR, note=BASELINE_NOTE, outcome=outcome)
        machine.pool.confirmed.append(on(MACHINE.host, anchor))
        assert is_due(machine.kit, elsewhere) is due


@pytest.mark.parametrize(("made_elsewhere", "made_here"), [(0, 3), (1, 2), (2, 1), (3, 0)])
def test_machines_share_the_rounds_of_the_confirm_stage(
    monkeypatch: pytest.MonkeyPatch, made_elsewhere: int, made_here: int
) -> None:
    machine = SimulatedMachine(
        monkeypatch, speed=lambda one: 1.5 if one.values["chunk"] == 512 else 1.0, asked={"trials": 5}
    )
    machine.search()
    best = machine.search(chunk=512)
    for number in range(made_elsewhere):
        for made, note in ((machine.pool.searched[0], BASELINE_NOTE), (best, f"trial {best.number}")):
            again = made.model_copy(update={"stage": Stage.CONFIRM, "note": note, "number": 2 * number})
            machine.pool.confirmed.append(on("another", again))
    confirm(machine.kit)
    here = [r for r in machine.pool.confirmed if r.owner.host == MACHINE.host]
    assert sum(1 for r in here if r.is_baseline) == made_here
    assert sum(1 for r in here if not r.is_baseline) == made_here


def test_a_round_that_another_machine_is_making_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SimulatedMachine(monkeypatch, asked={"trials": 5, "confirm_rounds": 2})
    machine.search()
    machine.search(chunk=512)
    running = record(0, {}, stage=Stage.CONFIRM, note=BASELINE_NOTE, outcome=None)
    running = running.model_copy(update={"configuration": machine.pool.searched[0].configuration})
    machine.pool.confirmed.append(on("another", running))
    confirm(machine.kit)
    assert sum(1 for r in machine.pool.confirmed if r.is_baseline and r.owner.host == MACHINE.host) == 1


def test_gains_are_compared_within_machines() -> None:
    """One machine is twice as fast, and each has launched one of the two more often: across them the sign is wrong."""
    searched = [BASELINE, on("desk", record(1, {"chunk": 512}, measurement(1100.0, 55.0)))]
    confirmed = [on("slow", record(90, {}, measurement(500.0, 25.0), stage=Stage.ANCHOR, note=BASELINE_NOTE), 3000.0)]
    searched[0] = on("fast", BASELINE)

    def launch(host: str, at: float, factor: float, *, candidate: bool) -> None:
        gain = (1.1 if candidate else 1.0) * (1 + 0.001 * math.sin(at))
        made = record(
            len(confirmed), {"chunk": 512} if candidate else {}, measurement(1000 * factor * gain, 50 * factor * gain),
            stage=Stage.CONFIRM, note="trial 1" if candidate else BASELINE_NOTE,
        )  # fmt: skip
        confirmed.append(on(host, made, at))

    # The clocks of the two machines agree, and their launches lie between one another.
    for place in range(6):
        launch("fast", 10_000.0 + 200 * place, 1.0, candidate=place == 0)
        launch("slow", 10_100.0 + 200 * place, 0.5, candidate=place != 0)
    (found,) = recommend(frozen(), searched, confirmed)
    assert found.gain.ratio == pytest.approx(1.1, rel=0.01)
    assert found.gain.is_measurable


def test_hours_are_those_of_the_night_and_not_the_sum_of_machines() -> None:
    searched = [BASELINE, on("a", record(1, {"chunk": 1})), on("b", record(2, {"chunk": 2})), on("b", record(3, {}))]
    assert Budget.of(frozen().definition, searched, []).used_s == 120.0


def test_a_configuration_that_two_machines_were_lost_in_is_never_launched_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = SimulatedMachine(monkeypatch)
    machine.kit.owner = Owner(host="here", boot_id="b", pid=1)
    lost = on("first", record(3, {"chunk": 512}, outcome=None)).model_copy(update={"finished_at": None})
    verdict = settle._verdict_of_open(machine.kit, lost)
    assert verdict.outcome is Outcome.INTERRUPTED
    assert "first fell silent" in verdict.reason
    machine.pool.searched.append(lost.model_copy(update={"verdict": verdict}))
    again = lost.model_copy(update={"owner": Owner(host="second", boot_id="b", pid=1), "number": 4})
    assert settle._verdict_of_open(machine.kit, again).outcome is Outcome.HOST_CRASH
    # A person who interrupts two machines in it is no crash.
    machine.pool.searched[-1] = machine.pool.searched[-1].model_copy(update={"finished_at": 2000.0})
    assert settle._verdict_of_open(machine.kit, again).outcome is Outcome.INTERRUPTED


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"host": "another"}, None),
        ({"cards": ({"driver": "570", "uuid": "GPU-2"},), "host": "another"}, None),
        ({"cards": ({"driver": "580", "uuid": "GPU-2"},)}, "card 0: was Big, driver 570, is Big, driver 580"),
        ({"cards": ()}, "card 0: was Big, driver 570, is none"),
        ({"cpu": "Another CPU"}, "cpu was Some CPU, is Another CPU"),
        ({"memory_mib": 32000}, "memory mib was 64000, is 32000"),
    ],
)
def test_what_makes_a_machine_another_kind(changes: dict[str, object], told: str | None) -> None:
    def card(driver: str, uuid: str) -> GpuIdentity:
        return GpuIdentity(vendor="NVIDIA", name="Big", uuid=uuid, driver=driver, source="NVML")

    first = frozen(machine=MACHINE.model_copy(update={"cards": (card("570", "GPU-1"),)}))
    cards = changes.get("cards", ({"driver": "570", "uuid": "GPU-2"},))
    assert isinstance(cards, tuple)
    now = MACHINE.model_copy(update={**changes, "cards": tuple(card(**one) for one in cards)})
    found = first.differences(now, first.engines, first.models, same_host=False)
    assert [line.removeprefix("machine: ") for line in found] == ([] if told is None else [told])
