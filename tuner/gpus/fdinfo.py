"""Which programs hold memory on a card, as the kernel tells it for each open device file.

Only a user's own programs can be seen this way; root sees all. It walks over every open file of every such program,
tens of milliseconds on a full desktop: not for sampling.

Source: the kernel's documentation of DRM client usage stats.
"""

from __future__ import annotations

import os
from pathlib import Path

from tuner.domain.gpu import GpuProcess
from tuner.gpus.sysfs import BYTES_PER_MIB, read_text

_UNITS_BYTES = {"": 1, "KiB": 1024, "MiB": BYTES_PER_MIB}
_ON_CARD = ("vram", "local")  # amdgpu and xe, i915; numbered where there are several
_MEASURES = ("drm-resident-", "drm-memory-", "drm-total-")  # from what lies on the card to what was only asked for


def processes_on(pci_bus_id: str, proc_root: Path = Path("/proc")) -> list[GpuProcess]:
    """The visible programs with the card's device file open."""
    found = []
    for pid in sorted(int(entry.name) for entry in _entries(proc_root) if entry.name.isdecimal()):
        clients: dict[str, float | None] = {}
        for link in _entries(proc_root / str(pid) / "fd"):
            if not _is_drm(link):
                continue
            facts = _facts(proc_root / str(pid) / "fdinfo" / link.name)
            if facts.get("drm-pdev", "").lower() == pci_bus_id:
                # Copies of a file descriptor are one client, and would be counted twice.
                clients[facts.get("drm-client-id", link.name)] = _used_mib(facts)
        if clients:
            known = [used for used in clients.values() if used is not None]
            name = read_text(proc_root / str(pid) / "comm")
            found.append(GpuProcess(pid=pid, used_mib=sum(known) if known else None, name=name))
    return found


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _is_drm(link: Path) -> bool:
    try:
        return os.readlink(link).startswith("/dev/dri/")  # noqa: PTH115 - a Path for each open file is slow
    except OSError:
        return False


def _facts(path: Path) -> dict[str, str]:
    pairs = (line.partition(":") for line in (read_text(path) or "").splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _used_mib(facts: dict[str, str]) -> float | None:
    for measure in _MEASURES:
        sizes = [value for key, value in facts.items() if key.startswith(tuple(measure + place for place in _ON_CARD))]
        if sizes:
            return sum(_bytes(size) for size in sizes) / BYTES_PER_MIB
    return None


def _bytes(size: str) -> int:
    number, _, unit = size.partition(" ")
    return int(number) * _UNITS_BYTES[unit.strip()] if number.isdecimal() and unit.strip() in _UNITS_BYTES else 0
