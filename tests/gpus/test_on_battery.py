"""Whether the machine lives on a battery."""

from __future__ import annotations

from pathlib import Path

import pytest
from sysfs_tree import SysfsTree

from tuner.gpus.sysfs import on_battery

Supply = dict[str, str | int]

AC_ON: Supply = {"type": "Mains", "online": 1}
AC_OFF: Supply = {"type": "Mains", "online": 0}
DRAINING: Supply = {"type": "Battery", "status": "Discharging"}
CHARGING: Supply = {"type": "Battery", "status": "Charging", "scope": "System"}
UNKNOWN: Supply = {"type": "Battery", "status": "Unknown"}
MOUSE: Supply = {"type": "Battery", "status": "Discharging", "scope": "Device"}


@pytest.fixture
def tree(tmp_path: Path) -> SysfsTree:
    return SysfsTree(tmp_path / "sys")


@pytest.mark.parametrize(
    ("supplies", "expected"),
    [
        ([AC_OFF, DRAINING], True),
        ([DRAINING], True),
        ([DRAINING, CHARGING], True),
        ([AC_ON, CHARGING], False),
        ([AC_ON, DRAINING], False),  # a charger too weak for the load
        ([AC_OFF, CHARGING], False),  # charged over USB
        ([AC_ON, MOUSE], False),
        ([MOUSE], False),
        ([AC_OFF, UNKNOWN], None),
    ],
)
def test_what_the_kernel_tells(tree: SysfsTree, supplies: list[Supply], expected: bool | None) -> None:
    for number, files in enumerate(supplies):
        tree.power_supply(f"SUPPLY{number}", **files)

    assert on_battery(tree.root) is expected


def test_a_machine_that_tells_nothing(tmp_path: Path) -> None:
    assert on_battery(tmp_path) is None
    (tmp_path / "class" / "power_supply").mkdir(parents=True)
    assert on_battery(tmp_path) is False, "a desktop has none"
