"""Intel cards from the kernel's files."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from sysfs_tree import GIB, SysfsTree, write

from tuner.domain.gpu import GpuReading
from tuner.gpus import intel, sysfs


@pytest.fixture
def tree(tmp_path: Path) -> SysfsTree:
    return SysfsTree(tmp_path / "sys")


@pytest.fixture(autouse=True)
def _no_pci_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysfs, "PCI_IDS_FILES", ())


def sensors_of(device: Path) -> Path:
    (folder,) = (device / "hwmon").iterdir()
    return folder


def test_a_card_is_read_in_the_projects_units(tree: SysfsTree) -> None:
    tree.intel_card()
    tree.amd_card()
    (card,) = intel.find_cards(tree.root)

    assert card.read() == GpuReading(energy_j=5000, temperature_c=61, memory_temperature_c=70, core_clock_mhz=2850)
    assert card.identity.name == "Intel device 0xe20b"
    assert card.identity.total_mib == 12 * 1024
    cap = card.power_cap()
    assert cap is not None
    assert (cap.cap_w, cap.max_w, cap.default_w) == (190, 190, 190)


def test_power_is_the_energy_since_the_last_look(tree: SysfsTree) -> None:
    sensors = sensors_of(tree.intel_card())
    (card,) = intel.find_cards(tree.root)
    began_s = time.monotonic()
    assert card.read().power_w is None
    looked_s = time.monotonic()
    time.sleep(0.05)

    write(sensors, {"energy1_input": 5_010_000_000})
    reading = card.read()

    assert reading.power_w is not None
    assert 10 / (time.monotonic() - began_s) <= reading.power_w <= 10 / 0.05
    assert looked_s > began_s
    write(sensors, {"energy1_input": 1_000_000})
    assert card.read().power_w is None, "the counter began anew"


def test_a_card_that_shows_its_chip_alone(tree: SysfsTree) -> None:
    sensors = sensors_of(tree.intel_card())
    for name in ("power1_max", "power1_rated_max", "energy1_input"):
        (sensors / name).rename(sensors / name.replace("1", "2", 1))
    (card,) = intel.find_cards(tree.root)

    assert card.read().energy_j == 5000
    assert card.power_cap() is not None
    card.set_power_cap(120)
    assert (sensors / "power2_max").read_text().startswith("120000000")


@pytest.mark.parametrize("change", [{"power1_max": 0}, {"power1_rated_max": 0}])
def test_a_limit_that_is_off_or_of_unknown_range_is_no_cap(tree: SysfsTree, change: dict[str, int]) -> None:
    write(sensors_of(tree.intel_card()), change)

    assert intel.find_cards(tree.root)[0].power_cap() is None


def test_throttling_of_both_drivers(tree: SysfsTree) -> None:
    device = tree.intel_card()
    (card,) = intel.find_cards(tree.root)
    throttle = device / "tile0" / "gt0" / "freq0" / "throttle"

    write(throttle, {"status": 0, "reason_pl1": 0, "reason_thermal": 0, "reason_p0_freq": 1})
    assert card.read().throttled_by == ()
    write(throttle, {"status": 1, "reason_pl1": 1, "reason_thermal": 1})
    assert card.read().throttled_by == ("heat", "power cap")

    # i915 has its files beside the link to the device.
    old = tree.card(4, "0000:08:00.0", vendor="0x8086", driver="i915", files={}, sensors={"energy1_input": 1})
    beside = tree.root / "class" / "drm" / "card4"
    write(beside, {"gt/gt0/throttle_reason_prochot": 1, "gt/gt0/rps_act_freq_mhz": 2100, "lmem_total_bytes": 16 * GIB})
    write(old / "hwmon" / "hwmon1", {"name": "i915_gt0", "energy1_input": 77})
    _, older = intel.find_cards(tree.root)
    reading = older.read()
    assert (reading.throttled_by, reading.core_clock_mhz) == (("hardware slowdown",), 2100)
    assert reading.energy_j == pytest.approx(1e-6), "the card's counter, not that of a part of it"
    assert older.identity.total_mib == 16 * 1024


def test_a_graphics_unit_without_sensors_is_left_out(tree: SysfsTree) -> None:
    tree.card(0, "0000:00:02.0", vendor="0x8086", driver="i915", files={"device": "0x46a6"}, sensors=None)

    assert intel.find_cards(tree.root) == []
    assert intel.find_cards(tree.root / "nowhere") == []


def test_a_lost_card_tells_nothing(tree: SysfsTree) -> None:
    device = tree.intel_card()
    tree.power_supply("AC", type="Mains", online=1)
    (card,) = intel.find_cards(tree.root)
    assert card.read().on_battery is False

    device.rename(device.with_name("gone"))

    assert card.read() == GpuReading()
    assert card.power_cap() is None
