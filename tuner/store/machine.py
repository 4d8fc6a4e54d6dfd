"""The machine snapshot that is frozen with a study."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Sequence
from pathlib import Path

import psutil

from tuner.domain.facts import Device, MachineFacts
from tuner.domain.gpu import GpuIdentity
from tuner.store.memory_limit import usable_memory_mib


def machine_facts(
    devices: Sequence[Device], boot_id: str, cards: Sequence[GpuIdentity] = (), host: str | None = None
) -> MachineFacts:
    """What this machine is, under its own name unless another `host` is given.

    Cores are those this process may run on, as in a container.
    """
    logical = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else psutil.cpu_count() or 1
    return MachineFacts(
        host=host or socket.gethostname(),
        system=f"{platform.system()} {platform.machine()}",
        cpu=_cpu_name(),
        physical_cores=min(psutil.cpu_count(logical=False) or logical, logical),
        logical_cores=logical,
        memory_mib=usable_memory_mib(),
        gpus=tuple(f"{device.name}: {device.description}" for device in devices),
        cards=tuple(cards),
        boot_id=boot_id,
    )


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
