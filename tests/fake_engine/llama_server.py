#!/usr/bin/env python3
"""A fake llama-server: a real program with the real flags, logs, HTTP shapes and exit codes, and simulated speed.

Its speed and memory come from a rig file, through `rig.py`; time is compressed. Environment variables:

    FAKE_RIG         rig file; default `tests/rigs/default.toml`
    FAKE_TIME_SCALE  real seconds for a nominal second; default 0.001. Reported timings stay nominal
    FAKE_NOISE, FAKE_LAUNCH_NOISE, FAKE_OUTLIERS, FAKE_DRIFT, FAKE_SEED    see `noise.py`
    FAKE_FAULT       what goes wrong, see `faults.py`

Standard library only, so that it starts as fast as Python does.
"""

from __future__ import annotations

import os
import signal
import sys

import arguments
from journal import Journal
from rig import Rig
from version import BUILD


def main(argv: list[str]) -> int:
    """Run with these arguments; the exit code is llama-server's."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until it is ready, a signal ends it as it ends any program
    rig = Rig.load()
    if {"-h", "--help", "--usage"} & set(argv):
        print(arguments.HELP_FILE.read_text(), end="")
        return 0
    try:
        settings = arguments.parse(argv, os.environ, [device.name for device in rig.devices], _warn_early)
    except arguments.ArgumentError as refused:
        print(refused, file=sys.stderr)
        return 1
    if settings.get("version"):
        python = sys.version.split()[0]
        print(f"version: 1 ({BUILD[3:]})\nbuilt with Python {python} for a simulated machine", file=sys.stderr)
        return 0
    if settings.get("list_devices"):
        lines = [f"  {d.name}: {d.description} ({d.total_mib} MiB, {d.free_mib} MiB free)" for d in rig.devices]
        print("\n".join(["Available devices:", *(lines or ["  (none)"])]))
        return 0
    from serving import serve  # here, because questions are answered in half the time without it

    return serve(settings, rig)


def _warn_early(text: str) -> None:
    Journal().say("DEPRECATED" if text.startswith("DEPRECATED") else "warn", text.removeprefix("DEPRECATED: "), "W")


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # a thread that still serves must not keep the process
