"""Text in TOML, checked against a model; every mistake named with its line and the nearest key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tuner.domain.errors import BadInput

Model = TypeVar("Model", bound=BaseModel)

Place = tuple[str | int, ...]
"""Keys and indices from the top of the file."""

_HEAD = re.compile(r"^\s*(\[\[?)([^\[\]=]+)\]")
_KEY = re.compile(r"""^\s*((?:[\w.-]+|"[^"]*"|'[^']*')+)\s*=""")
_NAME = re.compile(r"""([\w-]+)|"([^"]*)"|'([^']*)'""")


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
        raise _told(error, content, text, model, where) from error


def _told(error: ValidationError, content: object, text: str, model: type[BaseModel], where: str) -> BadInput:
    """What is wrong in the file, in words, with the line where it stands."""
    detail = _most_telling(error.errors())
    place = _place(detail, content)
    line = _line_of(text, place)
    place_told = ".".join(map(str, place)) or "the file"
    where = f"{where}, line {line}" if line else where
    if detail["type"] == "extra_forbidden":
        key = str(place[-1])
        nearest = get_close_matches(key, _known_keys(model), n=1, cutoff=0.5)
        advice = (
            f"did you mean `{nearest[0]}`?" if nearest else f"known keys: {', '.join(sorted(set(_known_keys(model))))}"
        )
        return BadInput(f"Unknown key `{key}` ({place_told})", where=where, advice=advice)
    message = detail["msg"].removeprefix("Value error, ")
    given = "" if isinstance(detail["input"], dict | list) else f", not {detail['input']!r}"
    return BadInput(f"{place_told}: {message}{given}", where=where, advice="mend that line, then try again")


def _most_telling(errors: list[ErrorDetails]) -> ErrorDetails:
    """An unknown key comes first: a mistyped one is also missing. Of several readings of a value, the deepest one."""
    unknown = next((detail for detail in errors if detail["type"] == "extra_forbidden"), None)
    return unknown or max(errors, key=lambda detail: len(detail["loc"]))


def _place(detail: ErrorDetails, content: Any) -> Place:
    """The keys and indices that lead to the mistake. Pydantic's own has the names of the types it tried in between."""
    place: list[str | int] = []
    for part in detail["loc"]:
        try:
            content = content[part]
        except (KeyError, IndexError, TypeError):
            if detail["type"] != "missing" or part != detail["loc"][-1]:
                continue
        place.append(part)
    return tuple(place)


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


def _line_of(text: str, place: Place) -> int | None:
    """The line of the key at `place`, or of the innermost key or table around it that has a line of its own."""
    found: int | None = None
    depth = 0
    for number, named in _named_places(text):
        if named == place[: len(named)] and len(named) > depth:
            found, depth = number, len(named)
        elif found is None and named[: len(place)] == place:
            found = number
    return found


def _named_places(text: str) -> Iterator[tuple[int, Place]]:
    """Line number and place of every table's head and of every key that begins a line."""
    table: Place = ()
    last: dict[Place, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if head := _HEAD.match(line):
            table = ()
            names = _names(head[2])
            for index, name in enumerate(names):
                table += (name,)
                if head[1] == "[[" and index == len(names) - 1:
                    last[table] = last.get(table, -1) + 1
                if table in last:
                    table += (last[table],)
            yield number, table
        elif key := _KEY.match(line):
            yield number, table + _names(key[1])


def _names(dotted: str) -> tuple[str, ...]:
    return tuple("".join(groups) for groups in _NAME.findall(dotted))
