"""The command that starts an engine, as data: a list of arguments and what is added to the environment."""

from __future__ import annotations

import shlex

from pydantic import BaseModel, ConfigDict


class LaunchCommand(BaseModel):
    """An argument list and the environment variables set beside it. Never a shell string until it is printed."""

    model_config = ConfigDict(frozen=True)

    argv: tuple[str, ...]
    env: dict[str, str] = {}
    """Variables set in addition to the inherited environment."""

    def posix_line(self) -> str:
        """The command as one line for a POSIX shell, quoted where needed."""
        assignments = [f"{name}={shlex.quote(value)}" for name, value in self.env.items()]
        return " ".join([*assignments, *(shlex.quote(argument) for argument in self.argv)])
