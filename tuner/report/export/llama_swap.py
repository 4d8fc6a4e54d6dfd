"""A model for llama-swap's config.yaml, which starts and stops engines behind one port."""

from __future__ import annotations

import shlex

from tuner.domain.errors import BadInput
from tuner.report.export.containers import Dialect
from tuner.report.export.exported import Exported, grouped, refuse_control_characters
from tuner.report.export.windows import argument
from tuner.report.export.yaml_text import scalar


def llama_swap_config(exported: Exported, dialect: Dialect) -> str:
    """The file: one model, on the port that llama-swap chooses.

    llama-swap takes the command apart itself, without a shell, and replaces `${NAME}` wherever it stands.

    Raises:
        BadInput: something in the command has no spelling there.
    """
    refuse_control_characters(exported, "llama-swap's configuration")
    on_windows = exported.system.startswith("Windows")
    for text in (*exported.command.env.values(), *(exported.command.argv if on_windows else ())):
        if "${" in text:
            raise BadInput(f"llama-swap would take a part of {text!r} for a macro", advice="export it as sh or json")
    quote = argument if on_windows else _word
    argv = dialect.without_port(exported)
    lines = [f"# {line}" for line in exported.about()]
    program = [quote(argv[0])]
    if exported.cap_commands and on_windows:
        lines += [f"# Power cap, to be set in an elevated prompt: {command}" for command in exported.cap_commands]
    elif exported.cap_commands:
        lines.append("# The power cap needs root: either llama-swap runs as root, or sudo asks for no password for it.")
        program = ["sh", "-c", _word(_with_caps(exported.cap_commands)), *program]
    lines += ["models:", f"  {scalar(exported.name)}:", "    cmd: |", f"      {' '.join(program)}"]
    lines += [f"      {' '.join(map(quote, group))}" for group in grouped(argv)]
    lines.append(f"      {dialect.port_flag} ${{PORT}}")
    if dialect.health != "/health":
        lines.append(f"    checkEndpoint: {scalar(dialect.health)}")
    if exported.command.env:
        lines.append("    env:")
        lines += [f"      - {scalar(f'{name}={value}')}" for name, value in exported.command.env.items()]
    return "\n".join(lines) + "\n"


def _with_caps(commands: tuple[str, ...]) -> str:
    """A shell program that sets the caps and becomes its arguments."""
    as_root = [f"$root {command} || echo power cap not set >&2" for command in commands]
    steps = ["root=", '[ "$(id -u)" -eq 0 ] || root="sudo -n"', *as_root, 'exec "$0" "$@"']
    return "; ".join(steps)


def _word(word: str) -> str:
    """A word in POSIX quoting, with every `${` cut in two, since it would begin a macro inside of quotes too."""
    return shlex.quote(word).replace("${", "$''{")
