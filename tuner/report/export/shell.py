"""A script for a POSIX shell, for running as a file as well as for pasting."""

from __future__ import annotations

import shlex

from tuner.report.export.exported import Exported, grouped

_WARNING = "warning: the power cap was not set; the measured speed and power belong to it"


def shell_script(exported: Exported) -> str:
    """The script. What it is called with is passed on to the engine, where a later flag wins."""
    lines = ["#!/bin/sh", *(f"# {line}" for line in exported.about()), ""]
    if exported.cap_commands:
        lines += [
            "# Power caps are lost at a restart, and need root.",
            'if [ "$(id -u)" -eq 0 ]; then tuner_root=; else tuner_root=sudo; fi',
            *(f"$tuner_root {command} || echo {shlex.quote(_WARNING)} >&2" for command in exported.cap_commands),
            "",
        ]
    lines += [
        "# As a file it becomes the engine, so that signals reach it; pasted it leaves your shell as it is.",
        "case $- in *i*) tuner_run= ;; *) tuner_run=exec ;; esac",
        "$tuner_run env \\",
        *(f"  {shlex.quote(f'{name}={value}')} \\" for name, value in exported.command.env.items()),
        f"  {_program(exported.command.argv[0])} \\",
        *(f"  {shlex.join(group)} \\" for group in grouped(exported.command.argv)),
        '  "$@"',
    ]
    return "\n".join(lines) + "\n"


def _program(path: str) -> str:
    """`env` takes a word with `=` in it for a variable."""
    return shlex.quote(path) if "=" not in path else f'sh -c \'exec "$0" "$@"\' {shlex.quote(path)}'
