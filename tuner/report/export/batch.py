"""A batch file for cmd.exe."""

from __future__ import annotations

import re

from tuner.report.export.exported import Exported, grouped, refuse_control_characters
from tuner.report.export.windows import argument, native_caps

_SPECIAL = re.compile(r'([()^"<>&|!])')


def batch_file(exported: Exported) -> str:
    """The file. What it is called with is passed on to the engine, where a later flag wins.

    Raises:
        BadInput: a line break or control character in an argument, which a batch file cannot hold.
    """
    refuse_control_characters(exported, "A batch file")
    command = exported.command
    lines = ["@echo off", "setlocal DisableDelayedExpansion"]
    if not all(word.isascii() for word in (*command.argv, *command.env.values())):
        lines.append("chcp 65001 >nul")
    lines += [f"rem {_percent(_SPECIAL.sub(' ', line))}" for line in exported.about()]
    native, other = native_caps(exported.cap_commands)
    if exported.cap_commands:
        lines.append("rem Power caps are lost at a restart, and need an elevated prompt.")
        lines += [f"rem by hand, under Linux: {_percent(_SPECIAL.sub(' ', line))}" for line in other]
        lines += [f"{' '.join(map(_word, words))} || echo warning: the power cap was not set 1>&2" for words in native]
    lines += [f"set {_in_quotes(f'{name}={value}')}" for name, value in command.env.items()]
    lines.append(f"{_word(command.argv[0])} ^")
    lines += [f"  {' '.join(map(_word, group))} ^" for group in grouped(command.argv)]
    lines.append("  %*")
    return "\r\n".join(lines) + "\r\n"


def _word(word: str) -> str:
    """One argument for the C runtime behind cmd.exe."""
    if re.fullmatch(r"[\w./:\\+-]+", word, re.ASCII) and not word.endswith("\\"):
        return word
    quoted = argument(word)
    if '"' not in word:
        return _percent(quoted)
    # cmd.exe knows no escaped quote: each one would switch its own quoting on or off. With all of them behind a caret
    # it quotes nothing, and every other special character needs its caret too.
    return _percent(_SPECIAL.sub(r"^\1", quoted))


def _in_quotes(text: str) -> str:
    """An assignment for `set`, which takes everything between the first quote and the last."""
    return _percent(f'"{text}"' if '"' not in text else _SPECIAL.sub(r"^\1", f'"{text}"'))


def _percent(text: str) -> str:
    """A percent sign begins a variable, in quotes too."""
    return text.replace("%", "%%")
