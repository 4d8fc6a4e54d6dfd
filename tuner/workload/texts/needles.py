"""Facts hidden in a long text, to be found again: they cannot be guessed, and only be read from where they stand."""

from __future__ import annotations

from typing import NamedTuple

from tuner.workload.texts.questions import Question


class Needle(NamedTuple):
    """One fact and where it is hidden."""

    question: Question
    rest: str
    """How its sentence ends after the answer."""
    place: float
    """Share of the text before it."""


NEEDLES = (
    Needle(Question("needle-middle", "The secret code of the lighthouse is", "7319"), ".", 0.5),
    Needle(Question("needle-early", "The ferryman's dog is called", "Bramble"), ".", 0.2),
    Needle(Question("needle-late", "A ticket for the night train costs", "46"), " crowns.", 0.8),
)
"""Unlike each other: small models mix up needles of one pattern."""

LEAD_IN = "Go on with what the papers above say."

ROOM = 80
"""Tokens that all needles take at most, in common tokenizers about 45."""
LEAST_DEPTH = 512
"""Tokens of text below which nothing is hidden: everything is near there."""


def hide_needles(text: str) -> str:
    """`text` with every needle as a paragraph of its own, about at its place."""
    for needle in sorted(NEEDLES, key=lambda each: -each.place):
        wanted = int(needle.place * len(text))
        at = max(text.rfind("\n\n", 0, wanted), 0) or wanted
        sentence = f"{needle.question.opening} {needle.question.answer}{needle.rest}"
        text = f"{text[:at]}\n\n{sentence}{text[at:]}"
    return text
