"""Holding cards to power caps, and giving them back as they were."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from nvml_stub import NvmlStub
from plain_card import PlainCard

from tuner.domain.errors import BadInput, NotPermitted
from tuner.domain.record import Owner
from tuner.gpus.cap_file import CapFile
from tuner.gpus.caps import CapState, PowerCaps, restore_caps

ME = Owner(host="here", boot_id="boot-1", pid=1)
AFTER_RESTART = Owner(host="here", boot_id="boot-2", pid=1)
ELSEWHERE = Owner(host="there", boot_id="boot-3", pid=1)
IN_A_NEW_CONTAINER = Owner(host="renamed", boot_id="boot-1", pid=1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "power_caps.json"


def states(outcomes: object) -> list[tuple[str, CapState]]:
    return [(outcome.key, outcome.state) for outcome in outcomes]  # type: ignore[attr-defined]


def saved(path: Path) -> dict[str, float]:
    return {key: cap["cap_w"] for key, cap in json.loads(path.read_text())["caps"].items()}


def test_all_former_caps_are_on_disk_before_the_first_change(path: Path) -> None:
    seen: list[dict[str, float]] = []

    class Watching(PlainCard):
        def set_power_cap(self, watts: float) -> None:
            seen.append(saved(path))
            super().set_power_cap(watts)

    first, second = Watching("1", cap_w=350), Watching("2", cap_w=250)
    caps = PowerCaps([first, second, PlainCard("3", cap_w=None)], path, ME)
    assert not path.exists()
    assert caps.hold(first, 200).state is CapState.HELD
    assert caps.hold(first, 150).cap_w == 150
    caps.hold(second, 150)
    assert seen == [{"1": 350, "2": 250}] * 3, "what was lowered is never taken for the former cap"
    assert CapFile(path).read().owner == ME  # type: ignore[union-attr]


def test_all_are_given_back_and_the_file_goes(path: Path) -> None:
    first, second = PlainCard("1", cap_w=350), PlainCard("2", cap_w=250)
    with PowerCaps([first, second], path, ME) as caps:
        caps.hold(first, 200)
        outcomes = caps.restore()
        assert states(outcomes) == [("1", CapState.HELD), ("2", CapState.HELD)]
        caps.hold(first, 120)
    assert (first.cap_w, second.cap_w) == (350, 250)
    assert not path.exists()
    assert second.caps_set == [], "what is as it was needs no right to set"


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_they_are_given_back_whatever_happens(path: Path, error: type[BaseException]) -> None:
    card = PlainCard(cap_w=350)
    with pytest.raises(error), PowerCaps([card], path, ME) as caps:  # noqa: PT012
        caps.hold(card, 200)
        raise error
    assert card.cap_w == 350
    assert not path.exists()


def broken(kind: str) -> PlainCard:
    card = PlainCard(cap_w=300)
    match kind:
        case "clamps":
            card.clamps_at_w = 290  # As an MI100 does.
        case "ignores":
            card.ignores_caps = True
        case "refuses":
            card.lowest_w = 290
        case "without the right":
            card.permitted = False
        case "has none":
            card.cap_w = None
    return card


@pytest.mark.parametrize(
    ("kind", "state", "cap_w"),
    [
        ("clamps", CapState.CLAMPED, 290),
        ("ignores", CapState.IGNORED, 300),
        ("refuses", CapState.REFUSED, 300),
        ("without the right", CapState.NOT_PERMITTED, 300),
        ("has none", CapState.NOT_TOLD, None),
    ],
)
def test_a_cap_that_is_not_what_was_asked_is_told_as_what_it_is(
    path: Path, kind: str, state: CapState, cap_w: float | None
) -> None:
    card = broken(kind)
    caps = PowerCaps([card], path, ME)
    outcome = caps.hold(card, 200)
    assert (outcome.state, outcome.cap_w, outcome.asked_w, outcome.in_force) == (state, cap_w, 200, False)
    assert state.value in str(outcome)
    assert "200 W" in str(outcome)
    assert caps.changed() == [], "it is known already"
    caps.restore()
    assert not path.exists()


def test_a_cap_of_the_same_value_is_held_even_by_a_card_that_ignores_it(path: Path) -> None:
    card = broken("ignores")
    assert PowerCaps([card], path, ME).hold(card, 300).state is CapState.HELD


def test_a_card_that_rounds_holds_its_cap(path: Path) -> None:
    card = PlainCard()
    card.clamps_at_w = 200
    assert PowerCaps([card], path, ME).hold(card, 199.6).state is CapState.HELD


def test_a_cap_that_changed_meanwhile_is_found(path: Path) -> None:
    card, lost = PlainCard("1"), PlainCard("2")
    caps = PowerCaps([card, lost], path, ME)
    caps.hold(card, 200)
    caps.hold(lost, 200)
    assert caps.changed() == []
    card.cap_w = 350
    lost.cap_w = None
    assert states(caps.changed()) == [("1", CapState.CHANGED), ("2", CapState.NOT_TOLD)]
    assert caps.changed()[0].cap_w == 350


def test_cards_that_cannot_be_told_apart_are_not_touched(path: Path) -> None:
    twins = [PlainCard(None), PlainCard(None)]
    outcome = PowerCaps(twins, path, ME).hold(twins[0], 200)
    assert outcome.state is CapState.REFUSED
    assert twins[0].caps_set == []


@pytest.mark.parametrize("owner", [ME, IN_A_NEW_CONTAINER])
def test_another_process_restores_from_the_file_alone(path: Path, owner: Owner) -> None:
    card = PlainCard("1", cap_w=350)
    PowerCaps([card], path, ME).hold(card, 200)
    assert states(restore_caps(path, [card], owner)) == [("1", CapState.HELD)]
    assert (card.cap_w, path.exists()) == (350, False)
    assert restore_caps(path, [card], owner) == []


def test_what_a_killed_process_lowered_is_not_taken_for_the_former_cap(path: Path) -> None:
    card = PlainCard("1", cap_w=350)
    PowerCaps([card], path, ME).hold(card, 200)
    with PowerCaps([card], path, Owner(host="here", boot_id="boot-1", pid=2)) as caps:
        caps.hold(card, 150)
        assert saved(path) == {"1": 350}
    assert card.cap_w == 350


def test_a_missing_card_stays_in_the_file(path: Path) -> None:
    there, missing = PlainCard("1", cap_w=350), PlainCard("2", cap_w=250)
    caps = PowerCaps([there, missing], path, ME)
    caps.hold(there, 200)
    caps.hold(missing, 150)
    outcomes = restore_caps(path, [there], ME)
    assert states(outcomes) == [("1", CapState.HELD), ("2", CapState.MISSING)]
    assert outcomes[1].advice == "sudo set-cap 2 250"
    assert saved(path) == {"2": 250}, "what is settled is left alone from now on"
    there.cap_w = 320  # By its owner.
    assert states(restore_caps(path, [there, missing], ME)) == [("2", CapState.HELD)]
    assert (there.cap_w, missing.cap_w, path.exists()) == (320, 250, False)


@pytest.mark.parametrize(
    ("fault", "state"),
    [
        ({"permitted": False}, CapState.NOT_PERMITTED),
        ({"highest_w": 300}, CapState.REFUSED),
        ({"ignores_caps": True}, CapState.IGNORED),
        ({"clamps_at_w": 380}, CapState.CLAMPED),
        ({"tells_cap": False}, CapState.NOT_TOLD),
    ],
)
def test_what_cannot_be_restored_stays_in_the_file_with_the_command(
    path: Path, fault: dict[str, object], state: CapState
) -> None:
    card = PlainCard("1", cap_w=350)
    PowerCaps([card], path, ME).hold(card, 200)
    sound = {name: getattr(card, name) for name in fault}
    vars(card).update(fault)
    (outcome,) = restore_caps(path, [card], ME)
    assert (outcome.state, outcome.settled) == (state, False)
    assert "set-cap 1 350" in str(outcome.advice)
    assert saved(path) == {"1": 350}
    vars(card).update(sound)
    (outcome,) = restore_caps(path, [card], ME)
    assert (outcome.settled, card.cap_w, path.exists()) == (True, 350, False)


def test_a_restart_settles_the_file_by_reading(path: Path) -> None:
    """The cards have what the machine gave them at its start, or its owner since: that is not to be changed."""
    first, second = PlainCard("1", cap_w=350), PlainCard("2", cap_w=250)
    caps = PowerCaps([first, second, third := PlainCard("3", cap_w=200)], path, ME)
    for card in (first, second, third):
        caps.hold(card, 150)
        card.caps_set.clear()
    first.cap_w, second.cap_w = 350, 300
    outcomes = restore_caps(path, [first, second], AFTER_RESTART)
    assert states(outcomes) == [("1", CapState.HELD), ("2", CapState.RESET), ("3", CapState.RESET)]
    assert (first.caps_set, second.caps_set, path.exists()) == ([], [], False)


def test_after_a_restart_the_present_caps_are_the_former_ones(path: Path) -> None:
    card = PlainCard("1", cap_w=350)
    PowerCaps([card], path, ME).hold(card, 200)
    card.cap_w = 320
    with PowerCaps([card], path, AFTER_RESTART) as caps:
        caps.hold(card, 150)
        assert saved(path) == {"1": 320}
    assert card.cap_w == 320


def test_the_file_of_another_machine_is_left_alone(path: Path) -> None:
    """As in a home folder that several machines share."""
    card = PlainCard("1", cap_w=350)
    PowerCaps([card], path, ME).hold(card, 200)
    content = path.read_bytes()
    card.caps_set.clear()
    assert states(restore_caps(path, [card], ELSEWHERE)) == [("1", CapState.MISSING)]
    with pytest.raises(BadInput, match="another machine, here"):
        PowerCaps([card], path, ELSEWHERE).hold(card, 100)
    assert (path.read_bytes(), card.caps_set) == (content, [])


@pytest.mark.parametrize("content", ["", "{", '{"owner": 1}', "\0" * 40])
def test_a_damaged_file_stops_everything_and_says_what_to_do(path: Path, content: str) -> None:
    path.parent.mkdir()
    path.write_text(content)
    card = PlainCard()
    for act in (lambda: restore_caps(path, [card], ME), lambda: PowerCaps([card], path, ME).hold(card, 200)):
        with pytest.raises(BadInput, match="damaged"):
            act()
    assert card.caps_set == []
    assert path.read_text() == content


@pytest.fixture
def unwritable(tmp_path: Path) -> Path:
    """A place where nothing can be made, for root neither."""
    (tmp_path / "file").write_text("")
    return tmp_path / "file" / "power_caps.json"


def test_nothing_is_changed_that_could_not_be_written_down(unwritable: Path) -> None:
    card = PlainCard()
    with pytest.raises(NotPermitted):
        PowerCaps([card], unwritable, ME).hold(card, 200)
    assert card.caps_set == []


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_failing_disk_leaves_the_former_file(path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    first, second = PlainCard("1", cap_w=350), PlainCard("2", cap_w=250)
    PowerCaps([first], path, ME).hold(first, 200)
    before = path.read_bytes()

    def fails(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(*{"write": (Path, "open"), "fsync": (os, "fsync"), "replace": (Path, "replace")}[step], fails)
        with pytest.raises(NotPermitted, match="No space"):
            PowerCaps([first, second], path, ME).hold(second, 200)
    assert path.read_bytes() == before
    assert second.caps_set == []


HOLD = """
import sys, time
from pathlib import Path
from tuner.domain.record import Owner
from tuner.gpus.caps import PowerCaps
from tuner.gpus.nvidia import find_cards
cards = find_cards()
caps = PowerCaps(cards, Path(sys.argv[1]), Owner(host="here", boot_id="boot-1", pid=1))
print(*(caps.hold(card, 200) for card in cards), sep="\\n", flush=True)
"""
THEN_STAY = "with caps: time.sleep(60)"
THEN_RESTORE = "caps.restore()"

RESTORE = """
import sys
from pathlib import Path
from tuner.domain.record import Owner
from tuner.gpus.caps import restore_caps
from tuner.gpus.nvidia import find_cards
for outcome in restore_caps(Path(sys.argv[1]), find_cards(), Owner(host="here", boot_id="boot-1", pid=2)):
    print(outcome.state, outcome.advice or "")
"""


def two_cards(nvml: NvmlStub, **changes: object) -> None:
    nvml.add_card(cap_mw=340000, **changes)
    nvml.add_card(uuid="GPU-2", bus_id="00000000:41:00.0", cap_mw=320500, **changes)


def caps_of(nvml: NvmlStub) -> list[str]:
    return [nvml.get(0, "cap_mw"), nvml.get(1, "cap_mw")]


def test_kill_while_caps_are_lowered(nvml: NvmlStub, path: Path) -> None:
    two_cards(nvml)
    process = nvml.python(HOLD + THEN_STAY, str(path))
    assert process.stdout is not None
    for _ in range(2):
        assert process.stdout.readline().endswith("power cap of 200 W held\n")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=10)
    assert caps_of(nvml) == ["200000", "200000"]
    assert nvml.output(RESTORE, str(path)).split() == ["held", "held"]
    assert caps_of(nvml) == ["340000", "320500"]
    assert not path.exists()


def test_restored_by_one_without_the_right(nvml: NvmlStub, path: Path) -> None:
    two_cards(nvml)
    nvml.output(HOLD, str(path))
    nvml.set(0, error__nvmlDeviceSetPowerManagementLimit=4)
    assert nvml.output(RESTORE, str(path)).splitlines() == [
        "not permitted sudo nvidia-smi -i 0000:03:00.0 -pl 340",
        "held ",
    ]
    assert list(saved(path).values()) == [340]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"min_settable_mw": 290000}, "power cap of 200 W clamped, it has 290 W"),
        ({"ignores_caps": 1}, "power cap of 200 W ignored, it has 340 W"),
        ({"error__nvmlDeviceSetPowerManagementLimit": 4}, "power cap of 200 W not permitted, it has 340 W"),
        ({"error__nvmlDeviceSetPowerManagementLimit": 3}, "power cap of 200 W refused, it has 340 W"),
        ({"max_cap_mw": 100000}, "power cap of 200 W not told"),
    ],
)
def test_caps_on_the_real_binding(nvml: NvmlStub, path: Path, changes: dict[str, object], told: str) -> None:
    two_cards(nvml, **changes)
    first, _ = nvml.output(HOLD + THEN_RESTORE, str(path)).splitlines()
    assert told in first
    assert caps_of(nvml) == ["340000", "320500"]
    assert not path.exists()
