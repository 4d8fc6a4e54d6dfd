"""Compiles amdsmi_stub.c into a ROCm folder, and runs Python programs that use the real binding on it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).with_name("amdsmi_stub.c")
REPOSITORY = Path(__file__).parents[2]

# A 7900 XTX and a 7800 XT, in bytes, watts and microwatts as the real library has them.
STATE: Mapping[str, object] = {
    "0.pci_bus": 0x03,
    "0.name": "AMD Radeon RX 7900 XTX",
    "0.vram_total_bytes": 24 * 1024**3,
    "0.vram_used_bytes": 6 * 1024**3,
    "0.gtt_used_bytes": 512 * 1024**2,
    "0.socket_power_w": 210,
    "0.cap": 339_000_000,
    "0.cap_default": 339_000_000,
    "0.cap_min": 200_000_000,
    "0.cap_max": 390_000_000,
    "0.edge_c": 62,
    "0.hotspot_c": 78,
    "0.vram_c": 84,
    "0.gfx_mhz": 2482,
    "0.mem_mhz": 1249,
    "1.pci_bus": 0x0A,
    "1.vram_total_bytes": 16 * 1024**3,
    "1.vram_used_bytes": 1024**3,
    "1.average_power_w": 33,
    "1.cap": 263,
    "1.cap_default": 263_000_000,
    "1.cap_min": 213,
    "1.cap_max": 302_000_000,
    "1.hotspot_c": 45,
    "1.energy_ticks": 4_000_000,
}


def wrapper_text() -> str:
    """The binding's list of functions. Importing it would need the library."""
    spec = importlib.util.find_spec("amdsmi")
    if spec is None or spec.origin is None:
        pytest.skip("amdsmi's Python binding is not installed")
    return Path(spec.origin).with_name("amdsmi_wrapper.py").read_text(encoding="utf-8")


class AmdSmiStub:
    def __init__(self, rocm: Path, leave_out: Collection[str] = ()) -> None:
        """Builds the library as `rocm/lib/libamd_smi.so`, with some of its functions under another name."""
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.skip("no C compiler for the stub of libamd_smi.so")
        self.rocm = rocm
        (rocm / "lib").mkdir(parents=True)
        written = SOURCE.read_text(encoding="utf-8")
        # The binding looks up all of its functions when it is imported, and fails on the first that is missing.
        wanted = sorted(set(re.findall(r"_libraries\['libamd_smi.so'\]\.(\w+)", wrapper_text())))
        rest = "".join(f"int {name}(void) {{ return 2; }}\n" for name in wanted if f"int {name}(" not in written)
        source = rocm / "stub.c"
        hidden = "".join(f"#define {name} {name}_of_another_release\n" for name in leave_out)
        source.write_text(hidden + written + rest, encoding="utf-8")
        library = rocm / "lib" / "libamd_smi.so"
        subprocess.run([compiler, "-shared", "-fPIC", "-w", "-o", library, source], check=True)

    def bring_binding(self, function: str, replacement: str) -> None:
        """Lays a binding beside the library, as ROCm does: the installed one with one function replaced."""
        spec = importlib.util.find_spec("amdsmi")
        assert spec is not None
        assert spec.origin is not None
        own = self.rocm / "share" / "amd_smi" / "amdsmi"
        shutil.copytree(Path(spec.origin).parent, own, ignore=shutil.ignore_patterns("__pycache__"))
        with (own / "__init__.py").open("a", encoding="utf-8") as file:
            file.write(f"\n{function} = {replacement}\n")

    def run(self, program: str, sysfs_root: Path, **state: object) -> Any:
        """Runs a program in its own process; answers with the value that it passes to `tell`.

        The program has `amd`, the `SYSFS` root, `set_state(**changes)` and `tell`. Keys of a state: `card0_edge_c`.
        """
        state_file = self.rocm / "state"
        lines = {**STATE, **{_key(name): value for name, value in state.items()}}
        state_file.write_text("".join(f"{key} {value}\n" for key, value in lines.items()), encoding="utf-8")
        # The process that is told of the stub reads no ROCm of the machine.
        env = {name: value for name, value in os.environ.items() if name not in ("ROCM_HOME", "LD_LIBRARY_PATH")}
        env |= {"ROCM_PATH": str(self.rocm), "AMDSMI_STUB_STATE": str(state_file), "PYTHONPATH": str(REPOSITORY)}
        done = subprocess.run(
            [sys.executable, "-c", _BEFORE + program, str(sysfs_root)],
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        *noise, told = done.stdout.splitlines()
        assert noise == [], "something was printed to standard output"
        return json.loads(told)


def _key(name: str) -> str:
    return re.sub(r"^card(\d)_", r"\1.", name)


_BEFORE = """
import json, os, re, sys
from pathlib import Path
from tuner.domain.errors import NotPermitted, PowerCapRefused
from tuner.gpus import amd

SYSFS = Path(sys.argv[1])

def tell(value):
    print(json.dumps(value))

def set_state(**changes):
    with open(os.environ["AMDSMI_STUB_STATE"], "a") as file:
        for name, value in changes.items():
            file.write(re.sub(r"^card(\\d)_", r"\\1.", name) + f" {value}\\n")

"""
