"""What is exported: the recommended command with its power caps, and where it comes from."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from tuner.domain.command import LaunchCommand
from tuner.domain.errors import BadInput
from tuner.domain.facts import EngineFacts
from tuner.domain.frozen import FrozenStudy
from tuner.report.recommendation import Recommendation
from tuner.report.tables import headline

MARK = "Written by tuner export"
"""Stands in every exported file, so that only such a file is written over."""


class Exported(BaseModel):
    """One recommendation on its way into a file."""

    model_config = ConfigDict(frozen=True)

    study: str
    recommendation: Recommendation
    engine: EngineFacts
    """Of the binary that the command starts."""
    system: str
    """Of the machine it was measured on, like `Linux x86_64`."""

    @classmethod
    def of(cls, study: str, frozen: FrozenStudy, recommendation: Recommendation) -> Exported:
        """The export of a recommendation of a study."""
        command = recommendation.trial.command
        assert command is not None
        facts = next((one for one in frozen.engines if one.binary == command.argv[0]), frozen.engines[0])
        return cls(study=study, recommendation=recommendation, engine=facts, system=frozen.machine.system)

    @property
    def command(self) -> LaunchCommand:
        """What a user would run."""
        command = self.recommendation.trial.command
        assert command is not None
        return command

    @property
    def cap_commands(self) -> tuple[str, ...]:
        """POSIX shell commands that set the power caps; empty where none was tuned. Each needs root."""
        return self.recommendation.trial.cap_commands

    @property
    def profile(self) -> str:
        """The profile's name."""
        return self.recommendation.profile.name

    @property
    def name(self) -> str:
        """A name for services and sections: lower case letters, digits and dashes."""
        return re.sub(r"[^a-z0-9]+", "-", f"{self.study}-{self.profile}".lower()).strip("-")

    def about(self) -> list[str]:
        """Lines for a comment at the file's head; none has a line break in it."""
        version = self.engine.version.splitlines()[0] if self.engine.version else "unknown build"
        return [
            f"{MARK}: study {self.study}, profile {self.profile}",
            headline(self.recommendation),
            f"measured with {self.engine.engine} {version}",
        ]


def grouped(argv: Sequence[str]) -> list[list[str]]:
    """The arguments after the program, each flag with its values, for one line each."""
    lines: list[list[str]] = []
    for word in argv[1:]:
        is_flag = word.startswith("-") and not re.fullmatch(r"-[\d.]+", word)
        if is_flag or not lines:
            lines.append([word])
        else:
            lines[-1].append(word)
    return lines


def refuse_control_characters(exported: Exported, form: str) -> None:
    """Raises BadInput where a line break or the like stands in a word that `form` has no way to write."""
    words = [*exported.command.argv, *(f"{n}={v}" for n, v in exported.command.env.items())]
    for word in words:
        if any(ord(letter) < 32 or ord(letter) == 127 for letter in word):
            raise BadInput(
                f"{form} cannot hold the line break or control character in {word!r}",
                advice="export it as sh, ps1, systemd or json, which can",
            )
