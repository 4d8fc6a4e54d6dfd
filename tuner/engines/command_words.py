"""Understanding the command that a person runs today, for every engine that is told its parameters by flags.

Flags are recognised by the installed engine's own help: short and long spellings, `=`, switches and their negations.
A flag that this build has removed is read under its present name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict

from tuner.domain.configuration import Value
from tuner.domain.errors import BadInput, UnknownFlag
from tuner.domain.facts import FlagCatalogue, FlagEntry

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


class Argument(BaseModel):
    """One flag of a command with its value."""

    model_config = ConfigDict(frozen=True)

    flag: str
    """As it should be written for this build; the spelling of the user where it is accepted."""
    value: str | None = None
    more: tuple[str, ...] = ()
    """Further values, of a flag that takes several words."""
    entry: FlagEntry

    @property
    def tokens(self) -> list[str]:
        """The argument as a command line has it."""
        return [self.flag] if self.value is None else [self.flag, self.value, *self.more]

    def is_one_of(self, *names: str) -> bool:
        """Whether the flag is any spelling of one of `names`."""
        return any(name in self.entry.names or name in self.entry.negations for name in names)


@dataclass(frozen=True)
class Spelling:
    """How one engine's flags are written beside what its help says."""

    program: str
    """What the engine is called in messages."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Spellings that older guides use -> what newer builds call them."""
    abbreviated: bool = False
    """Whether the beginning of a flag stands for it, as Python's argparse has it."""


def split_command(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The environment in front of a command, and the command. A whole command in one quoted word is taken apart."""
    words = list(words)
    if len(words) == 1 and any(character.isspace() for character in words[0]):
        try:
            words = shlex.split(words[0])
        except ValueError as error:
            raise BadInput(f"The command is not understood: {error}", advice="check its quotes") from error
    # A command copied over several lines keeps its backslashes when the quoting was lost.
    words = [word for word in words if word.strip() not in ("", "\\")]
    env: dict[str, str] = {}
    if words and words[0] == "env":
        words = words[1:]
    while words and _ASSIGNMENT.match(words[0]):
        name, value = words.pop(0).split("=", 1)
        env[name] = value
    return env, words


def parse_arguments(words: Sequence[str], flags: FlagCatalogue, spelling: Spelling) -> tuple[list[Argument], list[str]]:
    """The arguments of a command, without its program, and notes on what was renamed.

    Raises:
        UnknownFlag: the binary does not know one; says which is nearest.
        BadInput: a value is missing, or stands where no flag takes one.
    """
    found: list[Argument] = []
    notes: list[str] = []
    position = 0
    while position < len(words):
        word, position = words[position], position + 1
        if not word.startswith("-") or _is_number(word):
            raise BadInput(f"`{word}` in the command belongs to no flag", advice="quote values that contain spaces")
        flag, equals, attached = word.partition("=") if word.startswith("--") else (word, "", "")
        entry, flag = _look_up(flag, flags, spelling, notes)
        value: str | None = attached if equals else None
        more: list[str] = []
        if entry.takes_value and value is None:
            following = words[position] if position < len(words) else None
            if following is not None and _is_value(following):
                value, position = following, position + 1
            elif entry.allowed and "on" in entry.allowed:
                # Older builds took `-fa` alone.
                value = "on"
                notes.append(f"{flag} is written with a value in this build: {flag} on")
            else:
                raise BadInput(f"{flag} needs a value", advice=f"write it after the flag: {flag} VALUE")
        while entry.several and position < len(words) and _is_value(words[position]):
            more.append(words[position])
            position += 1
        found.append(Argument(flag=flag, value=value if entry.takes_value else None, more=tuple(more), entry=entry))
    return found, notes


def parameter_of(argument: Argument, searchable: Mapping[str, tuple[str | None, str | None]]) -> str | None:
    """The parameter that an argument sets. `searchable` maps each parameter to its flag and its off flag."""
    for name, spellings in searchable.items():
        if any(spelling and argument.is_one_of(spelling) for spelling in spellings):
            return name
    return None


def value_of(argument: Argument) -> Value:
    """An argument's value with its type: a number where it reads as one, a truth for a switch."""
    if argument.value is None:
        return argument.flag not in argument.entry.negations
    for number in (int, float):
        try:
            return number(argument.value)
        except ValueError:
            continue
    return argument.value


def _look_up(flag: str, flags: FlagCatalogue, spelling: Spelling, notes: list[str]) -> tuple[FlagEntry, str]:
    written = flag.replace("_", "-") if flag.startswith("--") else flag
    entry = flags.find(written)
    if entry is not None and entry.removed is None:
        return entry, written
    renamed = spelling.renamed.get(written)
    successor = flags.find(renamed) if renamed else None
    if renamed and successor is not None and successor.removed is None:
        notes.append(f"{flag} is called {renamed} in this build")
        return successor, renamed
    if entry is not None:
        raise UnknownFlag(f"This {spelling.program} has removed {flag}", advice=entry.removed)
    if spelling.abbreviated and len(meant := _beginning_with(written, flags)) == 1:
        (whole,) = meant
        notes.append(f"{flag} is short for {whole}")
        return meant[whole], whole
    nearest = flags.nearest(written)
    raise UnknownFlag(
        f"This {spelling.program} does not know {flag}", advice=f"nearest flag it knows: {nearest}" if nearest else None
    )


def _beginning_with(written: str, flags: FlagCatalogue) -> dict[str, FlagEntry]:
    """The flags that an abbreviation may stand for."""
    if not written.startswith("--"):
        return {}
    return {
        name: entry
        for entry in flags.entries
        for name in (*entry.names, *entry.negations)
        if name.startswith(written) and entry.removed is None
    }


def listening(argv: Sequence[str], address: Mapping[str, str]) -> tuple[str, ...]:
    """The command with an address: `address` is flag -> value, for what the command does not say itself."""
    said = {word.partition("=")[0] for word in argv}
    return (*argv, *(word for flag, value in address.items() if flag not in said for word in (flag, value)))


def _is_value(word: str) -> bool:
    return not word.startswith("-") or _is_number(word)


def _is_number(word: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?(,-?\d+(\.\d+)?)*", word) is not None
