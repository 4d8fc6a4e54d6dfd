"""Finds ROCm's library amdsmi and a Python binding that fits it.

The binding copies the library's structures by hand and AMD changes them, so a binding of another version does not
fail: it reads wrong numbers. ROCm brings the binding that fits; the one from PyPI is used only with its own version.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import io
import os
import sys
from pathlib import Path
from types import ModuleType

_LIBRARY = "libamd_smi.so"

# "Major version should be changed for every header change that breaks ABI" (amdsmi.h): 26 is ROCm 7's, whose binding
# PyPI has. Libraries before it begin with a year, 23 to 25.
_MAJOR_OF_PYPI_BINDING = 26


def load_binding(notes: list[str]) -> ModuleType | None:
    """The binding with its library started; None where there is no library, or where it does not work (with a note)."""
    roots = _rocm_roots()
    if not _library_is_there(roots):
        return None
    failures = []
    for folder in [root / "share" / "amd_smi" for root in roots]:
        if (folder / "amdsmi" / "__init__.py").is_file():
            try:
                return _start(_imported(folder))
            except Exception as error:  # a wrong binding fails in many ways: KeyError, AttributeError, its own errors
                failures.append(f"{folder}: {_words(error)}")
                _forget()
    try:
        binding = _start(_imported(None))
        major = binding.amdsmi_get_lib_version()["major"]
        if major == _MAJOR_OF_PYPI_BINDING:
            return binding
        failures.append(f"the library is version {major}, the installed Python binding is for {_MAJOR_OF_PYPI_BINDING}")
    except Exception as error:
        failures.append(_words(error))
    notes.append(f"amdsmi is installed but cannot be used: {'; '.join(failures)}. The kernel's files are read instead.")
    return None


def _rocm_roots() -> list[Path]:
    named = [os.environ[name] for name in ("ROCM_HOME", "ROCM_PATH") if os.environ.get(name)]
    return list(dict.fromkeys(Path(root) for root in [*named, "/opt/rocm"]))


def _library_is_there(roots: list[Path]) -> bool:
    if any((root / "lib" / _LIBRARY).is_file() for root in roots):
        return True
    try:
        ctypes.CDLL(_LIBRARY)  # where distributions put it
    except OSError:
        return False
    return True


def _imported(folder: Path | None) -> ModuleType:
    # Without a library that loads, the binding prints to standard output, which belongs to the command's JSON.
    with contextlib.redirect_stdout(io.StringIO()):
        if folder is None:
            return importlib.import_module("amdsmi")
        sys.path.insert(0, str(folder))
        try:
            return importlib.import_module("amdsmi")
        finally:
            sys.path.remove(str(folder))


def _start(binding: ModuleType) -> ModuleType:
    with contextlib.redirect_stdout(io.StringIO()):
        binding.amdsmi_init()
    return binding


def _forget() -> None:
    """So that the next import is not served with parts of this one."""
    for name in [name for name in sys.modules if name == "amdsmi" or name.startswith("amdsmi.")]:
        del sys.modules[name]


def _words(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
