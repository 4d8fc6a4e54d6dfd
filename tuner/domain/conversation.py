"""A user's own prompt: a chat as in OpenAI's API, whose next answer is generated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, model_validator

_BYTES_PER_TOKEN = 3
"""Fewer than tokenizers need for text of any language; long runs of digits can take more tokens than this says."""
_TEMPLATE_TOKENS = 16
"""A message's share of the chat template."""


class Message(BaseModel):
    """One message. What else it holds, such as tool calls, is kept as it is: the chat template knows it."""

    model_config = ConfigDict(frozen=True, extra="allow")

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _joined(cls, values: Any) -> Any:
        """Content may be a list of parts. Only text can be measured."""
        parts = values.get("content") if isinstance(values, dict) else None
        if not isinstance(parts, list):
            return values
        texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
        if len(texts) < len(parts) or not all(isinstance(text, str) for text in texts):
            raise ValueError("only parts of type text can be measured, no images and no sound")
        return {**values, "content": "".join(map(str, texts))}

    @model_validator(mode="after")
    def _says_something(self) -> Message:
        if self.content is None and not (self.model_extra or {}).get("tool_calls"):
            raise ValueError("a message needs content, or tool_calls")
        return self


class Conversation(BaseModel):
    """The messages before an answer."""

    model_config = ConfigDict(frozen=True)

    messages: tuple[Message, ...]

    @model_validator(mode="after")
    def _asks(self) -> Conversation:
        if not any(message.role == "user" for message in self.messages):
            raise ValueError("there is no message of the role user")
        return self

    def before_answer(self) -> Conversation:
        """Without the answers at its end, if the chat was recorded with them: they are what is generated."""
        last = max(place for place, message in enumerate(self.messages) if message.role != "assistant")
        return Conversation(messages=self.messages[: last + 1])

    def behind(self, prefix: str) -> Sequence[Mapping[str, Any]]:
        """The messages with `prefix` first in the first user message.

        System messages at the beginning follow the prefix in that message, as templates of models that know no system
        role do it: the prefix must stand first, or no other prompt of the depth could share its cache.
        """
        first = next(place for place, message in enumerate(self.messages) if message.role not in _SYSTEM)
        texts = [prefix, *(message.content or "" for message in self.messages[:first])]
        rest = [message.model_dump(mode="json") for message in self.messages[first:]]
        if rest[0]["role"] == "user":
            texts.append(rest.pop(0)["content"] or "")
        return [{"role": "user", "content": "\n\n".join(text for text in texts if text)}, *rest]

    @property
    def tokens_at_most(self) -> int:
        """About how many tokens it takes, estimated from above: no tokenizer is at hand before an engine runs."""
        size = len(self.model_dump_json().encode())
        return -(-size // _BYTES_PER_TOKEN) + _TEMPLATE_TOKENS * len(self.messages)


_SYSTEM = ("system", "developer")
