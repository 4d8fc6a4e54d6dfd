"""What a report says, before it is HTML or Markdown: sections of paragraphs, tables, commands and pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tuner.report.page.sheet import Sheet


@dataclass(frozen=True)
class Number:
    """A figure as it is shown, together with the exact value it was rounded from."""

    value: float
    text: str
    pointer: str = ""
    """Where the value stands in what `tuner best --json` prints, as an RFC 6901 pointer; empty where it does not."""
    scale: float = 1.0
    """What the value was multiplied by for showing: 100 for a percentage."""


@dataclass(frozen=True)
class Code:
    """A flag, a value, a name: set in the typewriter's letters."""

    text: str


Run = str | Number | Code
Text = tuple[Run, ...]


@dataclass(frozen=True)
class Paragraph:
    """Running text."""

    text: Text


@dataclass(frozen=True)
class Items:
    """A list."""

    items: Sequence[Text]


@dataclass(frozen=True)
class Table:
    """A table; the columns in `numeric` hold figures and stand to the right."""

    head: Sequence[str]
    rows: Sequence[Sequence[Text]]
    numeric: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Command:
    """A line to copy into a shell."""

    line: str


@dataclass(frozen=True)
class Picture:
    """A drawing. It is painted for the width it is shown at, so that its letters never shrink with it."""

    key: str
    """Names the PNG file."""
    title: str
    says: str
    """What a person sees in it, in one sentence: the text for those who do not see it."""
    paint: Callable[[Sheet], None]


@dataclass(frozen=True)
class Choice:
    """Pictures of which one is shown at a time; the first as long as nothing is chosen."""

    pictures: Sequence[tuple[str, Picture]]


@dataclass(frozen=True)
class Details:
    """What most readers can do without: folded in HTML."""

    summary: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Card:
    """One profile's recommendation."""

    name: str
    about: str
    headline: Text
    verdict: str
    """`better`, `same` or `unmet`."""
    under: Text
    """What to make of the headline."""
    commands: Sequence[tuple[str, str]]
    """What a command is for, and its line."""
    facts: Sequence[tuple[str, Text]]
    more: Sequence[Block]


@dataclass(frozen=True)
class Cards:
    """The first screen."""

    cards: Sequence[Card]


Block = Paragraph | Items | Table | Command | Picture | Choice | Details | Cards


@dataclass(frozen=True)
class Section:
    """A part of the report with a heading."""

    key: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Document:
    """A whole report."""

    title: str
    under: Text
    sections: Sequence[Section]
    foot: Text = ()
    hovers: Sequence[Hover] = field(default=())


@dataclass(frozen=True)
class Hover:
    """What is told of a trial beside its mark in a picture."""

    title: str
    lines: Sequence[str]
    command: str = ""


def paragraph(*runs: Run) -> Paragraph:
    """Running text."""
    return Paragraph(tuple(runs))


def pictures_of(blocks: Sequence[Block]) -> list[Picture]:
    """All pictures among the blocks, in order."""
    found: list[Picture] = []
    for block in blocks:
        if isinstance(block, Picture):
            found.append(block)
        elif isinstance(block, Choice):
            found += [picture for _, picture in block.pictures]
        elif isinstance(block, Details):
            found += pictures_of(block.blocks)
    return found
