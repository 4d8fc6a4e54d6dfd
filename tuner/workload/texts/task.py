"""What a user asks, and how the answer begins."""

from __future__ import annotations

from typing import NamedTuple


class Task(NamedTuple):
    """An instruction that follows the document, and the first words of its answer."""

    instruction: str
    opening: str
    """Base models do not answer instructions; from these words they too continue in the wanted kind of text."""
