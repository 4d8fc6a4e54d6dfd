"""The machine snapshot."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys

import psutil
import pytest

from tuner.domain.facts import Device
from tuner.store.machine import machine_facts


def test_it_says_what_the_operating_system_says() -> None:
    gpus = [Device(name="CUDA0", description="Big"), Device(name="CUDA1", description="Small")]
    facts = machine_facts(gpus, "boot")
    assert facts.host == socket.gethostname()
    assert platform.machine() in facts.system
    assert facts.cpu
    assert facts.gpus == ("CUDA0: Big", "CUDA1: Small")
    assert facts.boot_id == "boot"
    assert 1 <= facts.physical_cores <= facts.logical_cores <= (os.cpu_count() or 1)
    assert facts.memory_mib == psutil.virtual_memory().total // 2**20
    assert machine_facts(gpus, "boot") == facts


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be taken away here")
def test_cores_are_those_that_may_be_used() -> None:
    program = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from tuner.store.machine import machine_facts\n"
        "facts = machine_facts([], '')\n"
        "print(facts.physical_cores, facts.logical_cores)"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert shown.stdout.split() == ["1", "1"]
