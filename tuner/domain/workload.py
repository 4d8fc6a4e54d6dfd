"""The workload: the cells that are measured in every trial."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, model_validator

from tuner.domain.conversation import Conversation
from tuner.domain.sampling import GREEDY, Sampling


class Content(StrEnum):
    """What kind of text is generated. Speculation gains differ by kind, so kinds are never pooled silently."""

    CODE = "code"
    TOOL = "tool"
    MATH = "math"
    PROSE_EN = "prose-en"
    PROSE_ZH = "prose-zh"
    OWN = "own"
    """The user's own prompts, if there are any."""


class Cell(BaseModel):
    """One content kind x one depth x one number of parallel streams."""

    model_config = ConfigDict(frozen=True)

    content: Content
    depth: int
    """Tokens already in the context when decoding starts."""
    streams: int = 1

    @property
    def name(self) -> str:
        """Short and unique in a workload: `code@512`, `prose-en@512x2`."""
        return f"{self.content.value}@{self.depth}" + (f"x{self.streams}" if self.streams > 1 else "")


class Workload(BaseModel):
    """The cells of a study, cheap first, and how each is measured."""

    model_config = ConfigDict(frozen=True)

    cells: tuple[Cell, ...]
    """Ordered by streams, then depth: changing the depth costs a full prefill, changing the content only a little."""
    predict_tokens: int
    """Tokens generated in each measured request."""
    repeats: int = 1
    """Measured requests a cell; the first of a depth is also its cold prefill."""
    decode_limit_s: float = 60.0
    """A request is cut off after decoding for so long: what is hopelessly slow need not be measured to its end."""
    sampling: Sampling = GREEDY
    conversations: tuple[Conversation, ...] = ()
    """The user's own prompts. Repeats and streams take them in turn."""

    @model_validator(mode="after")
    def _ordered(self) -> Workload:
        keys = [(cell.streams, cell.depth) for cell in self.cells]
        if not self.cells or keys != sorted(keys):
            raise ValueError("cells must be given, ordered by streams and depth")
        if not self.conversations and any(cell.content is Content.OWN for cell in self.cells):
            raise ValueError("cells of the user's own prompts need prompts")
        return self

    @property
    def depths(self) -> tuple[int, ...]:
        """The single-stream depths, ascending."""
        return tuple(sorted({cell.depth for cell in self.cells if cell.streams == 1}))

    @property
    def context_needed(self) -> int:
        """Tokens of context a slot needs for the deepest cell, a margin for the instruction included."""
        return max(cell.depth for cell in self.cells) + self.predict_tokens + question_tokens(self.conversations)


INSTRUCTION_TOKENS = 256
"""Room left for what follows the shared prefix: the instruction and the chat template."""


def question_tokens(conversations: Sequence[Conversation]) -> int:
    """Room for what follows the shared prefix, where these are the user's own prompts."""
    return max([INSTRUCTION_TOKENS, *(conversation.tokens_at_most for conversation in conversations)])
