"""A script for PowerShell 5.1 and later."""

from __future__ import annotations

import re

from tuner.report.export.exported import Exported, grouped
from tuner.report.export.windows import native_caps

_SINGLE_QUOTES = re.compile("(['\u2018\u2019\u201a\u201b])")
"""PowerShell takes typographic quotes for plain ones (see about_Quoting_Rules)."""


def powershell_script(exported: Exported) -> str:
    """The script. What it is called with is passed on to the engine, where a later flag wins."""
    command = exported.command
    lines = [f"# {line}" for line in exported.about()]
    native, other = native_caps(exported.cap_commands)
    if exported.cap_commands:
        lines += ["", "# Power caps are lost at a restart, and need an elevated prompt."]
        lines += [f"# by hand, under Linux: {line}" for line in other]
        for words in native:
            lines += [
                f"& {' '.join(map(_quoted, words))}",
                "if ($LASTEXITCODE -ne 0) { Write-Warning 'the power cap was not set' }",
            ]
    lines += ["", *(f"${{env:{name}}} = {_quoted(value)}" for name, value in command.env.items()), "$arguments = @("]
    groups = grouped(command.argv)
    lines += [
        f"    {', '.join(map(_quoted, group))}{',' if place < len(groups) else ''}"
        for place, group in enumerate(groups, 1)
    ]
    lines += [")"]
    if any('"' in word or not word for word in command.argv):
        lines += [
            "if ($PSVersionTable.PSVersion.Major * 100 + $PSVersionTable.PSVersion.Minor -lt 703) {",
            "    # Before 7.3, PowerShell loses quotes inside an argument, and empty arguments.",
            "    $arguments = @($arguments | ForEach-Object {",
            "        if ($_ -eq '') { '\"\"' } else { $_ -replace '(\\\\*)\"', '$1$1\\\"' }",
            "    })",
            "}",
        ]
    lines.append(f"& {_quoted(command.argv[0])} @arguments @args")
    # Windows PowerShell 5.1 reads a file without a byte order mark in the system's old code page.
    mark = "" if all(line.isascii() for line in lines) else "\ufeff"
    return mark + "\r\n".join(lines) + "\r\n"


def _quoted(text: str) -> str:
    return "'" + _SINGLE_QUOTES.sub(r"\1\1", text) + "'"
