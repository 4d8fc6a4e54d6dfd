"""Setting a cap through the kernel's files: AMD and Intel alike."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sysfs_tree import SysfsTree

from tuner.domain.errors import NotPermitted, PowerCapRefused
from tuner.gpus import intel
from tuner.gpus.amd_sysfs import VENDOR_ID, AmdSysfsCard
from tuner.gpus.card import Card
from tuner.gpus.sysfs import drm_devices

CARDS = ["amd", "intel"]


@pytest.fixture
def tree(tmp_path: Path) -> SysfsTree:
    return SysfsTree(tmp_path / "sys")


def card_of(tree: SysfsTree, kind: str) -> tuple[Card, Path]:
    """A card, and the file of its cap."""
    if kind == "intel":
        device, file = tree.intel_card(), "power1_max"
        card = intel.find_cards(tree.root)[0]
    else:
        device, file = tree.amd_card(), "power1_cap"
        card = AmdSysfsCard(drm_devices(tree.root, VENDOR_ID)[0])
    (sensors,) = (device / "hwmon").iterdir()
    return card, sensors / file


@pytest.mark.parametrize("kind", CARDS)
def test_a_cap_is_written_in_microwatts_and_read_back_in_watts(tree: SysfsTree, kind: str) -> None:
    card, file = card_of(tree, kind)

    card.set_power_cap(250.5)

    # The kernel reads what one write brings; a plain file keeps the rest of what was there.
    assert file.read_text().startswith("250500000")
    cap = card.power_cap()
    assert cap is not None
    assert cap.cap_w == 250.5


@pytest.mark.parametrize("kind", CARDS)
def test_the_command_sets_the_same_cap_also_after_the_sensors_were_renumbered(tree: SysfsTree, kind: str) -> None:
    card, file = card_of(tree, kind)
    command = card.cap_command(180)
    file.parent.rename(file.parent.with_name("hwmon99"))

    subprocess.run(command, shell=True, check=True, capture_output=True)

    cap = card.power_cap()
    assert cap is not None
    assert cap.cap_w == 180


@contextmanager
def another_user() -> Iterator[None]:
    """Root may write everywhere: for as long as this lasts, the process is nobody."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("kind", CARDS)
def test_without_the_right_the_advice_is_the_command_that_has_it(kind: str) -> None:
    # Not below tmp_path, which only its owner may enter.
    root = Path(tempfile.mkdtemp(prefix="sysfs-"))
    root.chmod(0o755)
    try:
        card, file = card_of(SysfsTree(root / "sys"), kind)
        before = file.read_text()
        file.chmod(0o444)
        with another_user(), pytest.raises(NotPermitted) as caught:
            card.set_power_cap(250)
        assert caught.value.advice == f"sudo {card.cap_command(250)}"
        assert Path(caught.value.where or "").resolve() == file.resolve()
        assert file.read_text() == before
    finally:
        shutil.rmtree(root)


@pytest.mark.parametrize("kind", CARDS)
def test_a_value_that_the_kernel_refuses_is_told_in_its_words(tree: SysfsTree, kind: str) -> None:
    # A real file of the kernel that takes small numbers only, and answers EINVAL to others.
    kernel_file = Path("/proc/self/oom_score_adj")
    if not kernel_file.exists():
        pytest.skip("no file of the kernel to be refused by")
    card, file = card_of(tree, kind)
    file.unlink()
    file.symlink_to(kernel_file)

    with pytest.raises(PowerCapRefused, match="250 W: Invalid argument"):
        card.set_power_cap(250)


@pytest.mark.parametrize("kind", CARDS)
def test_a_cap_that_is_not_there_is_refused(tree: SysfsTree, kind: str) -> None:
    card, file = card_of(tree, kind)
    file.unlink()
    with pytest.raises(PowerCapRefused):
        card.set_power_cap(250)
    assert card.power_cap() is None
    assert not file.exists()

    shutil.rmtree(file.parents[1])
    with pytest.raises(PowerCapRefused):
        card.set_power_cap(250)


@pytest.mark.parametrize("kind", CARDS)
@pytest.mark.parametrize("watts", [0, -10, float("nan")])
def test_no_card_is_held_to_nothing(tree: SysfsTree, kind: str, watts: float) -> None:
    card, file = card_of(tree, kind)
    before = file.read_text()

    with pytest.raises(PowerCapRefused):
        card.set_power_cap(watts)

    assert file.read_text() == before
