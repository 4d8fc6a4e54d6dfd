"""How much memory the programs of this machine may use: a container or a service can have less than there is."""

from __future__ import annotations

from pathlib import Path

import psutil


def usable_memory_mib(root: Path = Path("/")) -> int:
    """The machine's memory, or the lowest limit of the control groups this process is in, in MiB.

    Linux tells limits in `memory.max` (version 2) or `memory.limit_in_bytes` (version 1), of the group itself and of
    all groups above it; see the kernel's Documentation/admin-guide/cgroup-v2.rst.
    """
    total = psutil.virtual_memory().total
    return min([total, *_limits(root)]) // 2**20


def _limits(root: Path) -> list[int]:
    found = []
    for line in _read(root / "proc" / "self" / "cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if number == "0" and not controllers:
            top, name = root / "sys" / "fs" / "cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            top, name = root / "sys" / "fs" / "cgroup" / "memory", "memory.limit_in_bytes"
        else:
            continue
        # Inside a container the path may be that of the host: the mounted top is then the group itself.
        parts = [part for part in group.split("/") if part]
        folders = [top.joinpath(*parts[:depth]) for depth in range(len(parts) + 1)]
        found += [int(text) for folder in folders if (text := _read(folder / name).strip()).isdigit()]
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
