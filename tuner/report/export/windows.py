"""How Windows programs read their command line, and which power cap commands can be run there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

_NEEDS_A_POSIX_SHELL = ("sh", "bash")


def argument(word: str) -> str:
    """A word in double quotes, as Microsoft's C runtime takes it apart again (Parsing C command-line arguments)."""
    escaped = re.sub(r'(\\*)"', r"\1\1\\" + '"', word)
    escaped = re.sub(r"(\\+)$", r"\1\1", escaped)
    return f'"{escaped}"'


def native_caps(commands: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    """The power cap commands that are plain programs, as words, and those that need a POSIX shell, as they are."""
    native, other = [], []
    for command in commands:
        words = shlex.split(command)
        if words[0] in _NEEDS_A_POSIX_SHELL:
            other.append(command)
        else:
            native.append(words)
    return native, other
