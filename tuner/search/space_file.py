"""Reading a search space file: TOML in, checked tables out, every mistake named with its line and the nearest key."""

from __future__ import annotations

import re
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tuner.domain.configuration import Value
from tuner.domain.errors import BadInput, MissingFile
from tuner.domain.space import Rule, Seed

Model = TypeVar("Model", bound=BaseModel)

Kind = Literal["flag", "switch", "environment", "model", "binary", "context", "device", "split", "main_device"]


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
    choices: list[Value | ChoiceTable] | None = None
    low: int | float | str | None = None
    high: int | float | str | None = None
    step: int | float | None = None
    log: bool = False
    default: Value | None = None
    when: str | None = None
    requires: str | None = None
    role: Literal["streams"] | None = None
    about: str = Field(min_length=1)


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
    return parse_toml(path, SpaceFile)


def parse_toml(path: Path, model: type[Model]) -> Model:
    """Reads the TOML file at `path` as `model`, with errors as in `read_space_file`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MissingFile(f"Cannot read {path.name}: {error}", where=str(path)) from error
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path.name} is not valid TOML: {error}", where=str(path)) from error
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise _first_mistake(error, path, text, model) from error


def _first_mistake(error: ValidationError, path: Path, text: str, model: type[BaseModel]) -> BadInput:
    """The first thing wrong in the file, in words, with the line where it stands."""
    detail = error.errors()[0]
    place = [str(part) for part in detail["loc"] if not str(part).startswith("function-")]
    line = _line_of(text, place)
    where = f"{path}, line {line}" if line else str(path)
    if detail["type"] == "extra_forbidden":
        nearest = get_close_matches(place[-1], _known_keys(model), n=1, cutoff=0.5)
        advice = f"did you mean `{nearest[0]}`?" if nearest else "remove it; see the files that come with the tuner"
        return BadInput(f"Unknown key `{place[-1]}` in {path.name} ({'.'.join(place)})", where=where, advice=advice)
    message = detail["msg"].removeprefix("Value error, ")
    return BadInput(f"{path.name}: {'.'.join(place) or 'the file'}: {message}", where=where)


def _known_keys(model: type[BaseModel]) -> list[str]:
    """Every key that the file's tables may have, nested ones included."""
    keys: list[str] = []
    pending: list[type[BaseModel]] = [model]
    while pending:
        current = pending.pop()
        for name, field in current.model_fields.items():
            keys.append(name)
            pending += [part for part in _models_in(field.annotation) if part is not current]
    return keys


def _models_in(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in getattr(annotation, "__args__", ()) for model in _models_in(part)]


def _line_of(text: str, place: list[str]) -> int | None:
    """The line where the last named part of `place` stands: its table first, then the key within it."""
    line_number = None
    lines = text.splitlines()
    start = 0
    for part in place:
        if part.isdigit():
            continue
        pattern = re.compile(rf'^\s*(\[+[\w."-]*\b{re.escape(part)}"?\]+|"?{re.escape(part)}"?\s*=)')
        for index in range(start, len(lines)):
            if pattern.match(lines[index]):
                line_number, start = index + 1, index
                break
    return line_number
