"""AMD cards from the kernel's files alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from sysfs_tree import AMD_SENSORS, SysfsTree, gpu_metrics, write

from tuner.domain.gpu import GpuReading
from tuner.gpus import amd, sysfs


@pytest.fixture
def tree(tmp_path: Path) -> SysfsTree:
    return SysfsTree(tmp_path / "sys")


@pytest.fixture(autouse=True)
def _no_rocm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever the machine that runs the tests has installed."""
    monkeypatch.setattr("tuner.gpus.amd_smi_binding._library_is_there", lambda _roots: False)
    monkeypatch.setattr(sysfs, "PCI_IDS_FILES", (tmp_path / "pci.ids",))


def test_two_cards_in_pci_order_and_no_connectors(tree: SysfsTree) -> None:
    tree.amd_card(0, "0000:0a:00.0")
    tree.amd_card(1, "0000:03:00.0")
    notes: list[str] = []

    cards = amd.find_cards(tree.root, notes)

    assert [card.identity.pci_bus_id for card in cards] == ["0000:03:00.0", "0000:0a:00.0"]
    assert len({card.identity.key for card in cards}) == 2
    assert {card.identity.source for card in cards} == {"sysfs"}
    assert notes == []


def test_a_card_is_read_in_the_projects_units(tree: SysfsTree) -> None:
    device = tree.amd_card()
    (device / "gpu_metrics").write_bytes(gpu_metrics(0))
    (card,) = amd.find_cards(tree.root)

    assert card.read() == GpuReading(
        used_mib=6 * 1024,
        spill_mib=512,
        power_w=210,
        temperature_c=62,
        memory_temperature_c=84,
        core_clock_mhz=2482,
        memory_clock_mhz=1249,
        throttled_by=(),
    )
    cap = card.power_cap()
    assert cap is not None
    assert (cap.cap_w, cap.min_w, cap.max_w, cap.default_w) == (339, 200, 390, 339)
    assert card.identity.total_mib == 24 * 1024
    assert card.identity.uuid == "GPU-abcdef0000000000"


def test_what_only_some_cards_have_stands_in_for_what_others_lack(tree: SysfsTree) -> None:
    device = tree.amd_card()
    (sensors,) = (device / "hwmon").iterdir()
    for name in ("power1_average", "temp1_input", "temp1_label", "freq1_input", "freq2_input"):
        (sensors / name).unlink()
    write(sensors, {"power1_input": 205_500_000})
    write(device, {"pp_dpm_sclk": "0: 500Mhz\n1: 2300Mhz *\n2: 2500Mhz", "pp_dpm_mclk": "0: 96Mhz\n1: 1249Mhz"})

    reading = amd.find_cards(tree.root)[0].read()

    assert (reading.power_w, reading.temperature_c) == (205.5, 78)
    assert (reading.core_clock_mhz, reading.memory_clock_mhz) == (2300, None)


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (1 << 0, ("power cap",)),
        (1 << 16 | 1 << 35, ("current limit", "heat")),
        (1 << 45, ("heat",)),
        (1 << 46, ("hardware slowdown",)),
        (1 << 57, ()),
        (2**64 - 1, None),
    ],
)
def test_throttling_is_told_in_words(tree: SysfsTree, bits: int, words: tuple[str, ...] | None) -> None:
    device = tree.amd_card()
    for revision in ((1, 3), (2, 2)):
        (device / "gpu_metrics").write_bytes(gpu_metrics(bits, revision))
        assert amd.find_cards(tree.root)[0].read().throttled_by == words


@pytest.mark.parametrize("table", [b"", b"\x04\x00\x01", gpu_metrics(1, (1, 3))[:60], gpu_metrics(1, (1, 8))])
def test_a_table_that_does_not_tell_of_throttling_leaves_it_unknown(tree: SysfsTree, table: bytes) -> None:
    (tree.amd_card() / "gpu_metrics").write_bytes(table)

    assert amd.find_cards(tree.root)[0].read().throttled_by is None


def test_an_apu_has_one_memory_no_spill_and_no_cap(tree: SysfsTree) -> None:
    tree.amd_apu()
    (card,) = amd.find_cards(tree.root)

    assert card.identity.total_mib == 512 + 48 * 1024
    reading = card.read()
    assert (reading.used_mib, reading.spill_mib) == (256 + 10 * 1024, None)
    assert (reading.power_w, reading.core_clock_mhz) == (21, 2700)
    assert card.power_cap() is None


def test_a_cap_that_cannot_be_moved_is_none(tree: SysfsTree) -> None:
    tree.amd_card(power1_cap_min=339_000_000, power1_cap_max=339_000_000)

    assert amd.find_cards(tree.root)[0].power_cap() is None


def test_sensors_that_come_back_under_another_number_are_found_again(tree: SysfsTree) -> None:
    tree.amd_card()
    (card,) = amd.find_cards(tree.root)

    tree.remove_sensors("0000:03:00.0")
    gone = card.read()
    assert (gone.power_w, gone.temperature_c, gone.core_clock_mhz) == (None, None, None)
    assert card.power_cap() is None

    tree.add_sensors("0000:03:00.0", "amdgpu", {**AMD_SENSORS, "power1_average": 99_000_000})
    assert card.read().power_w == 99
    assert card.power_cap() is not None


def test_a_lost_card_tells_nothing(tree: SysfsTree) -> None:
    device = tree.amd_card()
    tree.power_supply("BAT0", type="Battery", status="Discharging")
    (card,) = amd.find_cards(tree.root)

    device.rename(device.with_name("gone"))

    assert card.read() == GpuReading()
    assert card.power_cap() is None
    assert card.processes() == []


def test_the_name_is_the_makers_or_the_pci_lists_or_the_number(tree: SysfsTree, tmp_path: Path) -> None:
    def name() -> str:
        return amd.find_cards(tree.root)[0].identity.name

    device = tree.amd_card()
    assert name() == "AMD device 0x744c"
    (tmp_path / "pci.ids").write_text(
        "# list\n1001  Other\n\t744c  Wrong\n1002  Advanced Micro Devices\n\t744b  No\n"
        "\t744c  Navi 31 [Radeon RX 7900 XT/7900 XTX]\n\t\t1002 0e3b  Board\n"
    )
    assert name() == "Radeon RX 7900 XT/7900 XTX"
    write(device, {"product_name": "Radeon PRO W7900"})
    assert name() == "Radeon PRO W7900"


def test_nothing_there_is_an_empty_list(tmp_path: Path, tree: SysfsTree) -> None:
    tree.intel_card()

    assert amd.find_cards(tmp_path / "nowhere") == []
    assert amd.find_cards(tree.root) == []
