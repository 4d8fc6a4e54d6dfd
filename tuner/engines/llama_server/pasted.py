"""Understanding the llama-server command that a person runs today.

Flags are recognised by the installed binary's own help: short and long spellings, `=`, switches and their negations.
A flag that this build has removed is read under its present name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from tuner.domain.errors import BadInput, UnknownFlag
from tuner.domain.facts import FlagCatalogue, FlagEntry

_RENAMED = {
    "--draft": "--spec-draft-n-max",
    "--draft-n": "--spec-draft-n-max",
    "--draft-max": "--spec-draft-n-max",
    "--draft-min": "--spec-draft-n-min",
    "--draft-n-min": "--spec-draft-n-min",
    "--draft-p-min": "--spec-draft-p-min",
    "--model-draft": "--spec-draft-model",
    "--gpu-layers-draft": "--spec-draft-ngl",
    "--device-draft": "--spec-draft-device",
}
"""Spellings that older guides use -> what newer builds call them."""

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


class Argument(BaseModel):
    """One flag of a command with its value."""

    model_config = ConfigDict(frozen=True)

    flag: str
    """As it should be written for this build; the spelling of the user where it is accepted."""
    value: str | None = None
    entry: FlagEntry

    @property
    def tokens(self) -> list[str]:
        """The argument as a command line has it."""
        return [self.flag] if self.value is None else [self.flag, self.value]

    def is_one_of(self, *names: str) -> bool:
        """Whether the flag is any spelling of one of `names`."""
        return any(name in self.entry.names or name in self.entry.negations for name in names)


class ParsedCommand(BaseModel):
    """A command taken apart."""

    model_config = ConfigDict(frozen=True)

    binary: str | None
    env: dict[str, str]
    arguments: tuple[Argument, ...]
    notes: tuple[str, ...] = ()
    """What was read differently from how it was written."""


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


def parse_arguments(words: Sequence[str], flags: FlagCatalogue) -> tuple[list[Argument], list[str]]:
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
        entry, flag = _look_up(flag, flags, notes)
        value: str | None = attached if equals else None
        if entry.takes_value and value is None:
            following = words[position] if position < len(words) else None
            if following is not None and (not following.startswith("-") or _is_number(following)):
                value, position = following, position + 1
            elif entry.allowed and "on" in entry.allowed:
                # Older builds took `-fa` alone.
                value = "on"
                notes.append(f"{flag} is written with a value in this build: {flag} on")
            else:
                raise BadInput(f"{flag} needs a value", advice=f"write it after the flag: {flag} VALUE")
        found.append(Argument(flag=flag, value=value if entry.takes_value else None, entry=entry))
    return found, notes


def _look_up(flag: str, flags: FlagCatalogue, notes: list[str]) -> tuple[FlagEntry, str]:
    spelling = flag.replace("_", "-") if flag.startswith("--") else flag
    entry = flags.find(spelling)
    if entry is not None and entry.removed is None:
        return entry, spelling
    renamed = _RENAMED.get(spelling)
    successor = flags.find(renamed) if renamed else None
    if renamed and successor is not None and successor.removed is None:
        notes.append(f"{flag} is called {renamed} in this build")
        return successor, renamed
    if entry is not None:
        raise UnknownFlag(f"This llama-server has removed {flag}", advice=entry.removed)
    nearest = flags.nearest(spelling)
    raise UnknownFlag(
        f"This llama-server does not know {flag}", advice=f"nearest flag it knows: {nearest}" if nearest else None
    )


def _is_number(word: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?(,-?\d+(\.\d+)?)*", word) is not None
