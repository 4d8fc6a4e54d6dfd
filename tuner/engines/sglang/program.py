"""How SGLang's server is started, and what its installation says of itself.

It lives in a Python environment of its own. A program whose name begins with `python` is that environment's
interpreter and runs the module; any other is its `sglang` command.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from tuner.domain.errors import EngineNotFound
from tuner.domain.facts import Device
from tuner.domain.secrets import without_secrets
from tuner.engines.asking import asked

MODULE = ("-m", "sglang.launch_server")
COMMAND = ("serve",)

HOW_TO_GET = (
    "install SGLang in an environment of its own (docs.sglang.io), then name that environment's interpreter with "
    "--python, or its `sglang` command with --binary"
)
_LONGEST_S = 180.0
"""Importing torch and SGLang takes ten seconds, and minutes from a cold disk."""
_MIB = 2**20

_PROBE = """
import importlib.metadata, json
found = {"version": None, "devices": []}
try:
    found["version"] = importlib.metadata.version("sglang")
except importlib.metadata.PackageNotFoundError:
    pass
try:
    import torch
    kind = "ROCm" if getattr(torch.version, "hip", None) else "CUDA"
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        free, total = torch.cuda.mem_get_info(index)
        found["devices"].append([kind + str(index), torch.cuda.get_device_name(index), total, free])
except Exception as error:
    found["trouble"] = str(error)
print("PROBE " + json.dumps(found))
"""
"""What the target's own interpreter is asked: SGLang has no flag that lists devices."""


def is_interpreter(program: str) -> bool:
    """Whether a program is a Python interpreter and not the `sglang` command."""
    return Path(program).name.lower().startswith(("python", "pypy"))


def launch_words(program: str) -> tuple[str, ...]:
    """What stands between the program and the server's own arguments."""
    return MODULE if is_interpreter(program) else COMMAND


def without_launch_words(words: Sequence[str]) -> tuple[str, ...]:
    """The server's own arguments, of words with or without what starts it."""
    for start in (MODULE, COMMAND):
        if tuple(words[: len(start)]) == start:
            return tuple(words[len(start) :])
    return tuple(words)


def help_text(program: str, env: Mapping[str, str]) -> str:
    """What the server's `--help` prints. Asked once for each program and environment: it takes ten seconds.

    Raises:
        EngineNotFound: the program is not there, does not run, or has no SGLang.
    """
    return _help_text(program, tuple(sorted(env.items())), _stamp(program))


@lru_cache(maxsize=16)
def _help_text(program: str, env: tuple[tuple[str, str], ...], _stamp: float) -> str:
    # Its lines follow the terminal's width, and names that are broken over two lines cannot be read.
    return _output([program, *launch_words(program), "--help"], {**dict(env), "COLUMNS": "400"})


def version_and_devices(program: str, env: Mapping[str, str]) -> tuple[str, tuple[Device, ...]]:
    """SGLang's version and the devices that torch sees there, named as their back end counts them.

    Sizes are in MiB. `unknown` and no devices where the interpreter of an `sglang` command cannot be found.
    """
    interpreter = program if is_interpreter(program) else _interpreter_of(Path(program))
    if interpreter is None:
        return "unknown", ()
    try:
        said = _output([interpreter, "-c", _PROBE], env)
    except EngineNotFound:
        return "unknown", ()
    line = next((line for line in said.splitlines() if line.startswith("PROBE ")), "PROBE {}")
    found: dict[str, Any] = json.loads(line.removeprefix("PROBE "))
    return found.get("version") or "unknown", tuple(
        Device(name=name, description=about, total_mib=total // _MIB, free_mib=free // _MIB)
        for name, about, total, free in found.get("devices", ())
    )


def _interpreter_of(script: Path) -> str | None:
    """The interpreter in the first line of an installed command."""
    try:
        with script.open("rb") as file:
            first = file.readline(500).decode(errors="replace").strip()
    except OSError:
        return None
    interpreter = first.removeprefix("#!").strip()
    is_path = first.startswith("#!") and interpreter.startswith("/") and " " not in interpreter
    return interpreter if is_path and is_interpreter(interpreter) else None


def _stamp(program: str) -> float:
    """When the program was last changed: an installation that was renewed answers anew."""
    try:
        return Path(program).stat().st_mtime
    except OSError:
        return 0.0


def _output(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """What a program prints on its standard output."""
    inherited = {name: value for name, value in without_secrets(os.environ).items() if name not in HIDDEN}
    done = asked(argv, {**inherited, **env}, timeout_s=_LONGEST_S, advice=HOW_TO_GET)
    if done.returncode != 0:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        last = said[-1].strip() if said else f"exit code {done.returncode}"
        shown = " ".join(argv[:3])
        raise EngineNotFound(f"`{shown}` failed: {last}", advice=HOW_TO_GET)
    return done.stdout


HIDDEN = ("PYTHONHOME", "PYTHONPLATLIBDIR", "__PYVENV_LAUNCHER__")
"""Variables of the tuner's own interpreter that would lead another one to the wrong libraries."""
