"""What only some operating systems have stands in one file, or is asked for before it is used."""

from __future__ import annotations

import ast
import importlib
import signal
import sys
from pathlib import Path

import pytest

import tuner

ROOT = Path(tuner.__file__).parent
ONE_FILE = ROOT / "process" / "operating_system.py"
MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty", "msvcrt", "winreg", "_winapi"}
OS_NAMES = {
    "chown", "chroot", "ctermid", "fchmod", "fchown", "fork", "forkpty", "getegid", "geteuid", "getgid", "getgroups",
    "getloadavg", "getpgid", "getpgrp", "getpriority", "getresuid", "getsid", "getuid", "initgroups", "killpg",
    "lchown", "mkfifo", "mknod", "nice", "openpty", "pathconf", "pidfd_open", "posix_spawn", "sched_getaffinity",
    "sched_setaffinity", "setpgid", "setpriority", "setsid", "setuid", "statvfs", "sysconf", "ttyname", "uname", "wait",
    "wait3", "wait4", "waitid", "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "WNOHANG",
}  # fmt: skip
"""Of the module `os`: those whose documentation says "Availability: Unix"."""
WINDOWS_SIGNALS = {"SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM", "SIGBREAK", "SIG_DFL", "SIG_IGN"}
FILES = sorted(path for path in ROOT.rglob("*.py") if path != ONE_FILE)


def unguarded(source: str) -> list[str]:
    """What a file uses that some system lacks; not what it looks for with `hasattr` first."""
    tree = ast.parse(source)
    asked = {
        node.args[1].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "hasattr"
        if isinstance(node.args[1], ast.Constant)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name in MODULES]
        if isinstance(node, ast.ImportFrom) and node.module in MODULES:
            found.append(node.module)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            is_posix = node.value.id == "os" and node.attr in OS_NAMES
            name = node.attr
            is_signal = node.value.id == "signal" and name.startswith(("SIG", "pthread", "setitimer", "alarm"))
            if (is_posix or (is_signal and name not in WINDOWS_SIGNALS)) and name not in asked:
                found.append(f"{node.value.id}.{name}")
    return found


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_no_file_but_one_uses_what_some_system_lacks(path: Path) -> None:
    assert unguarded(path.read_text(encoding="utf-8")) == []


def test_the_search_finds_what_it_should() -> None:
    source = "import fcntl, os, signal\nos.getuid()\nsignal.SIGKILL\nsignal.SIGTERM\nif hasattr(os, 'nice'): os.nice(1)"
    assert sorted(unguarded(source)) == ["fcntl", "os.getuid", "signal.SIGKILL"]
    assert "fcntl" in unguarded(ONE_FILE.read_text(encoding="utf-8"))


def test_an_engine_is_found_where_signals_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows: a table of signals must not keep the engine from being loaded."""
    for name in ("SIGKILL", "SIGBUS", "SIGHUP", "SIGSTOP", "SIGUSR1"):
        monkeypatch.delattr(signal, name)
    loaded = {name: sys.modules[name] for name in list(sys.modules) if name.startswith("tuner.engines.llama_server")}
    for name in loaded:
        monkeypatch.delitem(sys.modules, name)
    module = importlib.import_module("tuner.engines.llama_server.exit_causes")
    assert set(module.SIGNALS) == {
        signal.SIGILL,
        signal.SIGSEGV,
        signal.SIGABRT,
        signal.SIGFPE,
        signal.SIGTERM,
        signal.SIGINT,
    }
