"""Reading a user's own prompts: a JSONL file, one chat a line."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from tuner.domain.conversation import Conversation
from tuner.domain.errors import BadInput, MissingFile

_ADVICE = 'a line looks like {"messages": [{"role": "user", "content": "..."}]}'


def read_prompts(path: Path) -> tuple[Conversation, ...]:
    """The chats in the file, in its order, without recorded last answers. Empty lines and other keys are passed over.

    Raises:
        MissingFile: it cannot be read.
        BadInput: a line is no JSON object with `messages` in OpenAI's chat format, or there is none; names the line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise MissingFile(f"Cannot read the prompts: {error}", where=str(path), advice="check the file") from error
    # Not splitlines(): JSON may hold other line separators within its strings.
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if not lines:
        raise BadInput("The prompts file is empty", where=str(path), advice=_ADVICE)
    return tuple(_conversation(line, f"{path}, line {number}") for number, line in lines)


def _conversation(line: str, where: str) -> Conversation:
    try:
        values = json.loads(line)
    except ValueError as error:
        raise BadInput(f"This is no JSON: {error}", where=where, advice=_ADVICE) from error
    if not isinstance(values, dict) or not values.get("messages"):
        raise BadInput("There are no `messages`", where=where, advice=_ADVICE)
    try:
        return Conversation(messages=values["messages"]).before_answer()
    except ValidationError as error:
        mistake = error.errors()[0]
        place = ".".join(map(str, mistake["loc"]))
        told = mistake["msg"].removeprefix("Value error, ")
        raise BadInput(f"{place}: {told}" if place else told, where=where, advice=_ADVICE) from error
