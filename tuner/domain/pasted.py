"""A command that a person runs today, understood by the engine's own file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from tuner.domain.configuration import Value


class UnderstoodCommand(BaseModel):
    """What a user's arguments mean for a study."""

    model_config = ConfigDict(frozen=True)

    present: dict[str, Value] = {}
    """Parameter -> the value that the arguments give it."""
    arguments: tuple[str, ...] = ()
    """All arguments in their order, as this engine build spells them; without the model."""
    kept: tuple[str, ...] = ()
    """The arguments that no parameter stands for, unchanged and in their order."""
    flags: frozenset[str] = frozenset()
    """All spellings of all flags among the arguments."""
    model: str | None = None
    draft_model: bool = False
    """Whether a separate draft model is named."""
    notes: tuple[str, ...] = ()
    """What was read differently from how it was written."""
