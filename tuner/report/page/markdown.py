"""A document as Markdown, as forums and GitHub take it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tuner.report.page.document import (
    Block,
    Card,
    Cards,
    Choice,
    Code,
    Command,
    Details,
    Document,
    Items,
    Number,
    Paragraph,
    Picture,
    Table,
    Text,
)  # fmt: skip

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~])")


def markdown(document: Document, pictures: Mapping[str, str]) -> str:
    """The text; `pictures` is the file of each picture that was painted, relative to it."""
    parts = [f"# {_escaped(document.title)}", _runs(document.under)]
    for section in document.sections:
        parts.append(f"## {_escaped(section.title)}")
        parts += _blocks(section.blocks, pictures)
    return "\n\n".join(part for part in parts if part) + "\n"


def _blocks(blocks: Sequence[Block], pictures: Mapping[str, str]) -> list[str]:
    return [text for block in blocks for text in _block(block, pictures)]


def _block(block: Block, pictures: Mapping[str, str]) -> list[str]:
    match block:
        case Paragraph(text):
            return [_runs(text)]
        case Items(items):
            return ["\n".join(f"- {_runs(item)}" for item in items)]
        case Table():
            return [_table(block)]
        case Command(line):
            return [_fenced(line)]
        case Picture():
            return _picture(block, pictures)
        case Choice(choice):
            return [text for _, picture in choice for text in _picture(picture, pictures)]
        case Details(summary, inner):
            return [f"**{_escaped(summary)}**", *_blocks(inner, pictures)]
        case Cards(cards):
            return [text for card in cards for text in _card(card, pictures)]


def _card(card: Card, pictures: Mapping[str, str]) -> list[str]:
    under = f": {_runs(card.under)}" if card.under else ""
    told = [f"### {_escaped(card.name)}", f"**{_runs(card.headline)}**{under}"]
    for what_for, line in card.commands:
        told += [_escaped(what_for), _fenced(line)] if what_for else [_fenced(line)]
    told.append("\n".join(f"- {_escaped(name)}: {_runs(fact)}" for name, fact in card.facts))
    return told + _blocks(card.more, pictures)


def _picture(picture: Picture, pictures: Mapping[str, str]) -> list[str]:
    told = f"**{_escaped(picture.title)}.** {_escaped(picture.says)}"
    if picture.key not in pictures:
        return [told]
    return [told, f"![{_escaped(picture.says)}]({pictures[picture.key]})"]


def _table(table: Table) -> str:
    head = [_escaped(word) or " " for word in table.head]
    rule = ["---:" if place in table.numeric else "---" for place in range(len(table.head))]
    rows = [[_runs(cell) for cell in row] for row in table.rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, rule, *rows])


def _fenced(line: str) -> str:
    """A block of code, in a fence longer than any that the text itself holds."""
    longest = max((len(run) for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}sh\n{line}\n{fence}"


def _runs(text: Text) -> str:
    return "".join(_run(run) for run in text)


def _run(run: str | Number | Code) -> str:
    if isinstance(run, Number):
        return run.text
    if isinstance(run, Code):
        # In a table a bar would end the cell even here.
        ticks = "``" if "`" in run.text else "`"
        return f"{ticks}{run.text.replace('|', chr(92) + '|')}{ticks}"
    return _escaped(run)


def _escaped(text: str) -> str:
    """Text that Markdown takes as it stands."""
    return _SPECIAL.sub(r"\\\1", text).replace("\n", " ")
