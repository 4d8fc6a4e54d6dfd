"""A preset for llama-server's router mode (`llama-server --models-preset FILE`), see llama.cpp's docs/preset.md."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise

from tuner.domain.errors import BadInput
from tuner.domain.facts import FlagCatalogue
from tuner.report.export.containers import Dialect
from tuner.report.export.exported import Exported, refuse_control_characters

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def preset_ini(exported: Exported, dialect: Dialect) -> str:
    """One section with the command's flags; address and port are the router's own.

    Raises:
        BadInput: a flag or a value that has no spelling there.
    """
    refuse_control_characters(exported, "A preset")
    flags = exported.engine.flags
    options = _options(dialect.without_port(exported)[1:], flags)
    options = {key: value for key, value in options.items() if key != _key(dialect.host_flag, flags)}
    router = ["llama-server", "--models-preset", "FILE.ini", *_address(exported, dialect)]
    env = [f"{name}={shlex.quote(value)}" for name, value in exported.command.env.items()]
    lines = [
        *(f"# {line}" for line in exported.about()),
        f"# {' '.join([*env, *router])}",
        *(f"# Power cap, lost at a restart: sudo {command}" for command in exported.cap_commands),
        f"[{exported.name}]",
        *(f"{key} = {value}" for key, value in options.items()),
    ]
    return "\n".join(lines) + "\n"


def _options(words: list[str], flags: FlagCatalogue) -> dict[str, str]:
    options: dict[str, str] = {}
    place = 0
    while place < len(words):
        word = words[place]
        entry = flags.find(word)
        if entry is None:
            raise BadInput(f"A preset cannot hold {word}: the engine's help does not name it", advice="export as sh")
        key = _key(word, flags)
        if word in entry.negations or not entry.takes_value:
            value, place = "true", place + 1
        else:
            value, place = words[place + 1] if place + 1 < len(words) else "", place + 2
        if key in options:
            raise BadInput(f"A preset can hold {word} once only", advice="export it as sh")
        options[key] = _checked(key, value)
    return options


def _key(word: str, flags: FlagCatalogue) -> str:
    """The long spelling without its dashes; that of a negation stays a negation."""
    entry = flags.find(word)
    spellings = (word,) if entry is None else entry.negations if word in entry.negations else entry.names
    key = max(spellings, key=len).lstrip("-")
    if not _KEY.fullmatch(key):
        raise BadInput(f"A preset cannot hold {word}", advice="export it as sh")
    return key


def _checked(key: str, value: str) -> str:
    """Everything behind a `#` or `;` is a comment, in the middle of a value too; blanks around a value are lost."""
    if value != value.strip() or "#" in value or ";" in value:
        raise BadInput(f"A preset cannot hold the value {value!r} of {key}", advice="export it as sh")
    return value


def _address(exported: Exported, dialect: Dialect) -> list[str]:
    argv = exported.command.argv
    found = [word for pair in pairwise(argv) if pair[0] == dialect.host_flag for word in pair]
    return [*found, dialect.port_flag, str(dialect.port_of(exported))]
