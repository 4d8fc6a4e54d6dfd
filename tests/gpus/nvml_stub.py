"""Graphics cards of NVIDIA without any: the real pynvml on a stand-in for the driver's library (nvml_stub.c).

Programs see the cards when they are started with `NvmlStub.env`: the linker's search path is read at a program's start.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("nvml_stub.c")
LIBRARY = "libnvidia-ml.so.1"

RTX_3090 = {
    "name": "NVIDIA GeForce RTX 3090",
    "uuid": "GPU-11111111-2222-3333-4444-555555555555",
    "bus_id": "00000000:03:00.0",
    "total_mib": 24576,
    "reserved_mib": 320,
    "used_mib": 600,
    "power_mw": 112500,
    "energy_mj": 5_000_000,
    "temperature": 61,
    "memory_temperature": 84,
    "core_mhz": 1725,
    "memory_mhz": 9501,
    "reasons": 0,
    "rx_kb": 2048,
    "tx_kb": 1024,
    "power_source": 0,
    "cap_mw": 350000,
    "default_cap_mw": 350000,
    "min_cap_mw": 100000,
    "max_cap_mw": 366000,
}
"""What such a card tells; see nvml_stub.c for the names."""


class NvmlStub:
    """A set of cards whose state a test sets, also while a program reads it.

    Args:
        folder: for the state.
        library: the folder of the built library.
    """

    def __init__(self, folder: Path, library: Path) -> None:
        self.state = folder / "nvml_state.txt"
        self.state.write_text("")
        self.env = {"LD_LIBRARY_PATH": str(library), "NVML_STUB_STATE": str(self.state)}
        self._cards = 0

    def add_card(self, **changes: object) -> int:
        """Adds a card like an RTX 3090 but for `changes`, and gives its number. What is None it does not tell."""
        number = self._cards
        self._cards += 1
        self.set(count=self._cards)
        self.set(number, **{name: value for name, value in {**RTX_3090, **changes}.items() if value is not None})
        return number

    def set(self, card: int | None = None, **values: object) -> None:
        """Changes what a card tells from now on; without a card, what the driver does."""
        prefix = "" if card is None else f"{card}."
        # In one piece: a program may be reading.
        with self.state.open("a") as file:
            file.write("".join(f"{prefix}{name.replace('__', '.')} {value}\n" for name, value in values.items()))

    def get(self, card: int, name: str) -> str:
        """What the card tells now; what a program has set included."""
        lines = [line.partition(" ") for line in self.state.read_text().splitlines()]
        return [value for key, _, value in lines if key == f"{card}.{name}"][-1]

    def python(self, code: str, *arguments: str, **env: str) -> subprocess.Popen[str]:
        """Another Python of its own, which has the cards, running `code`."""
        return subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def output(self, code: str, *arguments: str) -> str:
        """What `code` prints, in another Python that has the cards. It must not fail.

        That Python is one for all tests, to save its start; it finds the state of this test.
        """
        child = _child(self.env["LD_LIBRARY_PATH"])
        assert child.stdin is not None
        assert child.stdout is not None
        ask = {"state": str(self.state), "code": code, "arguments": arguments}
        child.stdin.write(json.dumps(ask) + "\n")
        child.stdin.flush()
        out, error = json.loads(child.stdout.readline())
        assert not error, error
        return str(out)


_CHILD = """
import contextlib, io, json, os, sys, traceback
for line in sys.stdin:
    ask = json.loads(line)
    os.environ["NVML_STUB_STATE"] = ask["state"]
    sys.argv[1:] = ask["arguments"]
    out, error = io.StringIO(), ""
    try:
        with contextlib.redirect_stdout(out):
            exec(ask["code"], {"__name__": "__main__"})
    except BaseException:
        error = traceback.format_exc()
    print(json.dumps([out.getvalue(), error]), flush=True)
"""


@functools.cache
def _child(library: str) -> subprocess.Popen[str]:
    """A Python that runs what it is told; it ends with this one, which holds its input."""
    return subprocess.Popen(
        [sys.executable, "-c", _CHILD],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "LD_LIBRARY_PATH": library},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@functools.cache
def built_library(*, old_driver: bool = False) -> Path:
    """The folder of the stand-in, compiled once in a test run. Skips the test where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("the stand-in for NVIDIA's library needs Linux and a C compiler (cc, gcc or clang)")
    folder = Path(tempfile.mkdtemp(prefix="nvml-stub-"))
    atexit.register(shutil.rmtree, folder)
    flags = ["-DOLD_DRIVER"] if old_driver else []
    subprocess.run(
        [compiler, "-Wall", "-shared", "-fPIC", "-o", str(folder / LIBRARY), str(SOURCE), *flags], check=True
    )
    return folder
