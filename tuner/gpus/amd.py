"""AMD cards: through ROCm's library amdsmi where it works, else from sysfs."""

from __future__ import annotations

from pathlib import Path

from tuner.gpus.amd_smi import AmdSmiCard, handles_by_bus_id
from tuner.gpus.amd_smi_binding import load_binding
from tuner.gpus.amd_sysfs import VENDOR_ID, AmdSysfsCard, shares_host_memory
from tuner.gpus.card import Card
from tuner.gpus.sysfs import drm_devices


def find_cards(sysfs_root: Path = Path("/sys"), notes: list[str] | None = None) -> list[Card]:
    """The cards in PCI order. The kernel says which there are; amdsmi is not even looked for where it shows none.

    Args:
        sysfs_root: where the kernel's files are.
        notes: takes a sentence where amdsmi is there but of no use.
    """
    devices = drm_devices(sysfs_root, VENDOR_ID)
    if not devices:
        return []
    binding = load_binding([] if notes is None else notes)
    handles = handles_by_bus_id(binding) if binding else {}
    cards: list[Card] = []
    for device in devices:
        handle = handles.get(device.pci_bus_id or "")
        # Of a unit that shares the host's memory amdsmi would tell the part that the firmware set aside.
        if handle is None or shares_host_memory(device):
            cards.append(AmdSysfsCard(device))
        else:
            cards.append(AmdSmiCard(binding, handle, device))
    return cards
