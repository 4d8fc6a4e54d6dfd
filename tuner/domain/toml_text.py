"""Text in TOML, checked against a model; every mistake named with its line and the nearest key."""

from __future__ import annotations

import re
import tomllib
from difflib import get_close_matches
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from tuner.domain.errors import BadInput

Model = TypeVar("Model", bound=BaseModel)


def parse_toml(text: str, model: type[Model], *, where: str) -> Model:
    """The content of a TOML text as `model`. `where` names the file in errors.

    Raises:
        BadInput: it is not TOML, has an unknown key or a value of the wrong kind; names the line.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(
            f"This is not valid TOML: {error}",
            where=where,
            advice='mend that line; texts stand in quotes, lists in brackets: name = "text", name = ["a", "b"]',
        ) from error
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise _first_mistake(error, text, model, where) from error


def _first_mistake(error: ValidationError, text: str, model: type[BaseModel], where: str) -> BadInput:
    """The first thing wrong in the file, in words, with the line where it stands."""
    detail = error.errors()[0]
    place = [str(part) for part in detail["loc"] if not str(part).startswith(("function-", "["))]
    line = _line_of(text, place)
    place_told = ".".join(place) or "the file"
    where = f"{where}, line {line}" if line else where
    if detail["type"] == "extra_forbidden":
        nearest = get_close_matches(place[-1], _known_keys(model), n=1, cutoff=0.5)
        advice = (
            f"did you mean `{nearest[0]}`?" if nearest else f"known keys: {', '.join(sorted(set(_known_keys(model))))}"
        )
        return BadInput(f"Unknown key `{place[-1]}` ({place_told})", where=where, advice=advice)
    message = detail["msg"].removeprefix("Value error, ")
    given = "" if isinstance(detail["input"], dict | list) else f", not {detail['input']!r}"
    return BadInput(f"{place_told}: {message}{given}", where=where, advice="mend that line, then try again")


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
