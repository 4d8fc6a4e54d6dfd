"""Reading a search space file: TOML in, checked tables out, every mistake named with its line and the nearest key."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tuner.domain.configuration import Value
from tuner.domain.errors import MissingFile
from tuner.domain.space import Rule, Seed
from tuner.domain.toml_text import parse_toml

Kind = Literal[
    "flag", "switch", "environment", "model", "binary", "context", "device", "split", "main_device", "power_cap"
]


class ChoiceTable(BaseModel):
    """A choice that needs a fact: `{ value = "draft-mtp", requires = "model.mtp_layers > 0" }`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: Value
    requires: str


class ParameterTable(BaseModel):
    """One `[parameters.NAME]` table as it is written. What each key means stands in search_spaces/README.md."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Kind = "flag"
    flag: str | None = None
    off_flag: str | None = None
    environment: str | None = None
    choices: list[Value | ChoiceTable] | None = Field(default=None, min_length=1)
    low: int | float | str | None = None
    high: int | float | str | None = None
    step: int | float | None = Field(default=None, gt=0)
    log: bool = False
    default: Value | None = None
    when: str | None = None
    requires: str | None = None
    unit: Literal["W"] | None = None
    role: Literal["streams"] | None = None
    about: str = Field(min_length=1)

    @model_validator(mode="after")
    def _changes_something(self) -> ParameterTable:
        """A parameter that is applied to nothing would be searched for nothing."""
        if self.kind == "environment" and not self.environment:
            raise ValueError("needs `environment`, the variable's name")
        if self.kind not in ("environment", "binary", "power_cap") and not (
            self.flag or (self.kind == "switch" and self.off_flag)
        ):
            raise ValueError("needs `flag`, the long spelling")
        if self.kind == "switch" and not (self.choices and all(isinstance(choice, bool) for choice in self.choices)):
            raise ValueError("a switch needs `choices` of true and false")
        if self.kind in ("flag", "environment"):
            bounds = [bound for bound in (self.low, self.high) if bound is not None]
            if len(bounds) != (0 if self.choices else 2):
                raise ValueError("needs `choices`, or else both `low` and `high`")
        return self


class SpaceFile(BaseModel):
    """A whole search space file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1]
    engine: str
    parameters: dict[str, ParameterTable]
    rules: list[Rule] = []
    seeds: list[Seed] = []


def read_space_file(path: Path) -> SpaceFile:
    """The checked content of the file at `path`.

    Raises:
        MissingFile: it cannot be read.
        BadInput: it is not TOML, has an unknown key or a value of the wrong kind; names the line.
    """
    return parse_toml(read_text(path), SpaceFile, where=str(path))


def read_text(path: Path) -> str:
    """The text of a file. Raises MissingFile."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MissingFile(f"Cannot read {path.name}: {error}", where=str(path), advice="name a TOML file") from error
