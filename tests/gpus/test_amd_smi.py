"""AMD cards through the real binding, on a stub of ROCm's library."""

from __future__ import annotations

from pathlib import Path

import pytest
from amdsmi_stub import AmdSmiStub
from sysfs_tree import SysfsTree, gpu_metrics


@pytest.fixture(scope="session")
def stub(tmp_path_factory: pytest.TempPathFactory) -> AmdSmiStub:
    return AmdSmiStub(tmp_path_factory.mktemp("stub") / "rocm")


@pytest.fixture
def tree(tmp_path: Path) -> SysfsTree:
    tree = SysfsTree(tmp_path / "sys")
    tree.amd_card(1, "0000:0a:00.0")
    tree.amd_card(0, "0000:03:00.0")
    return tree


SHOW = """
notes = []
cards = amd.find_cards(SYSFS, notes)
tell({
    "notes": notes,
    "identities": [card.identity.model_dump() for card in cards],
    "readings": [card.read().model_dump() for card in cards],
    "caps": [cap and cap.model_dump() for cap in (card.power_cap() for card in cards)],
    "processes": [[process.model_dump() for process in card.processes()] for card in cards],
})
"""


def test_two_cards_are_read(stub: AmdSmiStub, tree: SysfsTree) -> None:
    device = tree.root / "class" / "drm" / "card0" / "device"
    (device / "gpu_metrics").write_bytes(gpu_metrics(1 << 36))

    told = stub.run(
        SHOW, tree.root, card0_process_pid=4711, card0_process_name="llama-server", card0_process_vram_bytes=5 * 1024**3
    )

    assert told["notes"] == []
    first, second = told["identities"]
    assert (first["source"], first["vendor"], first["name"]) == ("amdsmi", "AMD", "AMD Radeon RX 7900 XTX")
    assert (first["pci_bus_id"], second["pci_bus_id"]) == ("0000:03:00.0", "0000:0a:00.0")
    assert (first["total_mib"], second["total_mib"]) == (24 * 1024, 16 * 1024)
    assert first["uuid"] == "GPU-abcdef0000000000"

    first, second = told["readings"]
    assert (first["used_mib"], first["spill_mib"], first["power_w"]) == (6 * 1024, 512, 210)
    assert (first["temperature_c"], first["memory_temperature_c"]) == (62, 84)
    assert (first["core_clock_mhz"], first["memory_clock_mhz"]) == (2482, 1249)
    assert first["throttled_by"] == ["heat"]
    assert first["energy_j"] is None, "a counter at 0 is none"
    # The second card leaves much out: power but as an average, no edge sensor, no clocks.
    assert (second["power_w"], second["temperature_c"]) == (33, 45)
    assert (second["core_clock_mhz"], second["memory_temperature_c"], second["throttled_by"]) == (None, None, None)
    assert second["energy_j"] == pytest.approx(61.0)

    assert told["processes"] == [[{"pid": 4711, "used_mib": 5 * 1024, "name": "llama-server"}], []]


def test_caps_in_microwatts_and_in_watts_are_the_same_in_watts(stub: AmdSmiStub, tree: SysfsTree) -> None:
    # The second card mixes both units, as releases around ROCm 6.0 do.
    first, second = stub.run(SHOW, tree.root)["caps"]

    assert first == {"cap_w": 339, "min_w": 200, "max_w": 390, "default_w": 339}
    assert second == {"cap_w": 263, "min_w": 213, "max_w": 302, "default_w": 263}


def test_what_is_not_available_is_unknown(stub: AmdSmiStub, tree: SysfsTree) -> None:
    told = stub.run(
        SHOW,
        tree.root,
        card0_socket_power_w=0xFFFF,
        card0_gfx_mhz=0xFFFFFFFF,
        card0_cap_min=339_000_000,
        card0_cap_max=339_000_000,
        card0_asic_status=2,
        card1_cap_status=2,
    )

    reading = told["readings"][0]
    assert (reading["power_w"], reading["core_clock_mhz"]) == (None, None)
    assert reading["used_mib"] == 6 * 1024
    assert told["caps"] == [None, None], "one cannot be moved, the other is not told"
    assert told["identities"][0]["name"], "the kernel's name stands in"


def test_a_cap_is_set_in_microwatts_and_read_back_as_the_card_took_it(stub: AmdSmiStub, tree: SysfsTree) -> None:
    told = stub.run(
        """
first, second = amd.find_cards(SYSFS)
first.set_power_cap(250)
second.set_power_cap(220.5)
set_state(card1_cap_reads_back=240000000)
tell([first.power_cap().cap_w, second.power_cap().cap_w])
""",
        tree.root,
    )

    assert told == [250, 240]


def test_a_cap_that_is_not_taken_says_why(stub: AmdSmiStub, tree: SysfsTree) -> None:
    told = stub.run(
        """
card = amd.find_cards(SYSFS)[0]
told = []
for status, watts in [(10, 250), (2, 250), (1, 250), (8, 250), (0, 0), (0, -5)]:
    set_state(card0_set_cap_status=status)
    try:
        card.set_power_cap(watts)
    except (NotPermitted, PowerCapRefused) as error:
        told.append([type(error).__name__, error.what, error.advice, card.power_cap().cap_w])
tell(told)
""",
        tree.root,
    )

    # Timeouts are an error class of their own in the binding; 0 W is not even asked for.
    kinds = ["NotPermitted", *["PowerCapRefused"] * 5]
    words = ["no right", "NOT_SUPPORTED", "INVAL", "TIMEOUT", "0 W", "-5 W"]
    assert [kind for kind, _, _, _ in told] == kinds
    assert all(word in what for word, (_, what, _, _) in zip(words, told, strict=True)), told
    assert told[0][2] == "sudo amd-smi set --power-cap 250 --gpu 0000:03:00.0"
    assert {cap_w for _, _, _, cap_w in told} == {339}


def test_newer_releases_have_another_command_and_the_kernels_own_holds_for_all(
    stub: AmdSmiStub, tree: SysfsTree
) -> None:
    command = stub.run("tell(amd.find_cards(SYSFS)[0].cap_command(250))", tree.root, version_minor=2)

    assert "amd-smi" not in command
    assert "250000000" in command


def test_a_lost_card_tells_nothing_and_the_other_goes_on(stub: AmdSmiStub, tree: SysfsTree) -> None:
    tree.power_supply("BAT0", type="Battery", status="Discharging")
    told = stub.run(
        """
first, second = amd.find_cards(SYSFS)
before = first.read().power_w
set_state(card0_status=31)
tell([before, first.read().model_dump(), first.power_cap(), first.processes(), second.read().model_dump()])
""",
        tree.root,
    )
    before, lost, cap, processes, other = told

    assert before == 210
    assert set(lost.values()) == {None}
    assert (cap, processes) == (None, [])
    assert (other["power_w"], other["on_battery"]) == (33, True)


@pytest.mark.parametrize("change", [{"init_status": 34}, {"version_major": 25}, {"version_major": 27}])
def test_a_library_that_does_not_work_or_fit_is_told_and_left(
    stub: AmdSmiStub, tree: SysfsTree, change: dict[str, int]
) -> None:
    told = stub.run(SHOW, tree.root, **change)

    (note,) = told["notes"]
    assert note.startswith("amdsmi is installed but cannot be used: ")
    assert str(next(iter(change.values()))) in note
    assert [card["source"] for card in told["identities"]] == ["sysfs", "sysfs"]
    assert told["readings"][0]["power_w"] == 210


def test_a_library_without_the_functions_that_the_binding_wants_is_told_and_left(
    tree: SysfsTree, tmp_path: Path
) -> None:
    # Another release; the binding stops at the first function that is missing.
    broken = AmdSmiStub(tmp_path / "rocm", leave_out=("amdsmi_get_energy_count",))

    told = broken.run(SHOW, tree.root)

    assert "amdsmi_get_energy_count" in told["notes"][0]
    assert told["identities"][0]["source"] == "sysfs"


def test_a_library_that_cannot_be_loaded_is_told_and_nothing_is_printed(tree: SysfsTree, tmp_path: Path) -> None:
    unloadable = AmdSmiStub(tmp_path / "rocm")
    (unloadable.rocm / "lib" / "libamd_smi.so").write_text("not a library")

    told = unloadable.run(SHOW, tree.root)

    assert len(told["notes"]) == 1
    assert told["identities"][0]["source"] == "sysfs"


def test_the_machines_own_binding_goes_before_the_installed_one(tree: SysfsTree, tmp_path: Path) -> None:
    own = AmdSmiStub(tmp_path / "rocm")
    own.bring_binding("amdsmi_get_lib_version", "lambda: {'major': 24, 'minor': 6}")

    told = own.run(
        "notes = []; card = amd.find_cards(SYSFS, notes)[0]; "
        "tell([notes, card.identity.source, sys.modules['amdsmi'].__file__, card.cap_command(300)])",
        tree.root,
    )

    assert told[:2] == [[], "amdsmi"]
    assert told[2].startswith(str(tmp_path))
    assert told[3].startswith("amd-smi set")


def test_where_the_machines_own_binding_is_broken_the_installed_one_serves(tree: SysfsTree, tmp_path: Path) -> None:
    own = AmdSmiStub(tmp_path / "rocm")
    own.bring_binding("amdsmi_init", "None.missing")

    told = own.run(
        "notes = []; card = amd.find_cards(SYSFS, notes)[0]; "
        "tell([notes, card.identity.source, sys.modules['amdsmi.amdsmi_interface'].__file__])",
        tree.root,
    )

    assert told[:2] == [[], "amdsmi"]
    assert not told[2].startswith(str(tmp_path))


def test_a_graphics_unit_beside_the_cpu_is_read_from_the_kernel(stub: AmdSmiStub, tmp_path: Path) -> None:
    tree = SysfsTree(tmp_path / "apu")
    tree.amd_apu(bus_id="0000:03:00.0")

    assert stub.run(SHOW, tree.root)["identities"][0]["source"] == "sysfs"


def test_without_an_amd_card_the_library_is_not_even_looked_at(stub: AmdSmiStub, tmp_path: Path) -> None:
    told = stub.run(
        "notes = []; tell([amd.find_cards(SYSFS, notes), notes, 'amdsmi' in sys.modules])",
        tmp_path / "nowhere",
        init_status=34,
    )

    assert told == [[], [], False]
