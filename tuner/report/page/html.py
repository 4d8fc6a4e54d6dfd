"""A document as one HTML page that needs nothing from outside. Every text goes through `escape`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from tuner.report.page.colours import DARK, LIGHT, style, variable
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
from tuner.report.page.sheet import Sheet

_WIDE = 880
_PHONE = 350
_HERE = Path(__file__).parent
_A_NUMBER = re.compile(r"-[\d.]")


MARK = ": tuner report</title>"
"""By which a page is known to be a report."""


def html(document: Document) -> str:
    """The page."""
    body = "".join(
        f'<section id="{escape(section.key)}"><h2>{escape(section.title)}</h2>{_blocks(section.blocks)}</section>'
        for section in document.sections
    )
    links = "".join(f'<a href="#{escape(s.key)}">{escape(s.title)}</a>' for s in document.sections)
    palette = f":root{{{style(LIGHT)}}}@media screen and (prefers-color-scheme:dark){{:root{{{style(DARK)}}}}}"
    title = escape(document.title)
    # The policy has the browser itself refuse whatever would go out to the network.
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}{MARK}'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<style>{palette}{(_HERE / 'page.css').read_text(encoding='utf-8')}</style></head><body>"
        f"<header><h1>{title}</h1><p>{_runs(document.under)}</p><nav>{links}</nav></header><main>{body}</main>"
        f'<div id="hover" role="status" hidden></div>'
        f'<script type="application/json" id="hovers">{_hovers(document)}</script>'
        f"<script>{(_HERE / 'page.js').read_text(encoding='utf-8')}</script></body></html>\n"
    )


def _hovers(document: Document) -> str:
    """After the pictures, which fill it. `<` is written so that no text can end the script."""
    told = [{"t": one.title, "l": list(one.lines), "c": one.command} for one in document.hovers]
    return json.dumps(told, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _runs(text: Text) -> str:
    return "".join(_run(run) for run in text)


def _run(run: str | Number | Code) -> str:
    if isinstance(run, Code):
        return f"<code>{escape(run.text)}</code>"
    if isinstance(run, Number):
        source = f' data-json="{escape(run.pointer)}"' if run.pointer else ""
        scale = f' data-scale="{run.scale:g}"' if run.scale != 1 else ""
        return f'<data value="{run.value!r}"{source}{scale}>{escape(run.text)}</data>'
    return escape(run)


def _blocks(blocks: Sequence[Block]) -> str:
    return "".join(_block(block) for block in blocks)


def _block(block: Block) -> str:
    match block:
        case Paragraph(text):
            return f"<p>{_runs(text)}</p>"
        case Items(items):
            return "<ul>" + "".join(f"<li>{_runs(item)}</li>" for item in items) + "</ul>"
        case Table():
            return _table(block)
        case Command(line):
            return _command("", line)
        case Picture():
            return _picture(block)
        case Choice(pictures):
            return _choice(pictures)
        case Details(summary, inner):
            return f"<details><summary>{escape(summary)}</summary>{_blocks(inner)}</details>"
        case Cards(cards):
            return '<div class="cards">' + "".join(_card(card) for card in cards) + "</div>"


def _table(table: Table) -> str:
    def cells(row: Sequence[str], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=n' if place in table.numeric else ''}>{cell}</{tag}>" for place, cell in enumerate(row)
        )

    head = f"<thead><tr>{cells([escape(word) for word in table.head], 'th')}</tr></thead>" if any(table.head) else ""
    rows = "".join(f"<tr>{cells([_runs(cell) for cell in row], 'td')}</tr>" for row in table.rows)
    return f'<div class="table"><table>{head}<tbody>{rows}</tbody></table></div>'


def _command(what_for: str, line: str) -> str:
    told = f"<p class=for>{escape(what_for)}</p>" if what_for else ""
    return (
        f'{told}<div class="command"><pre><code>{_wrapped(line)}</code></pre><button type="button">Copy</button></div>'
    )


def _wrapped(line: str) -> str:
    """The command so that a flag stays with its value where lines break; the text that is copied is the line itself."""
    words = re.split(r"( +)", line)
    parts: list[str] = []
    for place, word in enumerate(words):
        starts = place == 0 or (word.startswith("-") and not _A_NUMBER.match(word))
        if starts or not parts:
            parts.append(word)
        else:
            parts[-1] += word
    return "".join(f"<span>{escape(part)}</span>" for part in parts)


def _picture(picture: Picture) -> str:
    """Painted twice, for a desktop and for a phone; the style sheet shows one of them."""
    drawn = ""
    for kind, width in (("wide", _WIDE), ("phone", _PHONE)):
        sheet = Sheet(width, variable)
        picture.paint(sheet)
        drawn += f'<div class="{kind}">{sheet.svg(picture.says)}</div>'
    return f"<figure><figcaption><b>{escape(picture.title)}.</b> {escape(picture.says)}</figcaption>{drawn}</figure>"


def _choice(pictures: Sequence[tuple[str, Picture]]) -> str:
    if len(pictures) == 1:
        return _picture(pictures[0][1])
    name = escape(pictures[0][1].key)
    told = "".join(
        f'<input type="radio" name="{name}" id="{escape(picture.key)}"{" checked" if place == 0 else ""}>'
        f'<label for="{escape(picture.key)}">{escape(words)}</label><div class="chosen">{_picture(picture)}</div>'
        for place, (words, picture) in enumerate(pictures)
    )
    return f'<div class="choice">{told}</div>'


def _card(card: Card) -> str:
    commands = "".join(_command(what_for, line) for what_for, line in card.commands)
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{_runs(told)}</dd>" for name, told in card.facts)
    more = (
        f"<details><summary>All figures, and what is different</summary>{_blocks(card.more)}</details>"
        if card.more
        else ""
    )
    under = f'<p class="under">{_runs(card.under)}</p>' if card.under else ""
    return (
        f'<article class="card {card.verdict}"><h3>{escape(card.name)}</h3>'
        f'<p class="headline">{_runs(card.headline)}</p>{under}'
        f'<p class="about">{escape(card.about)}</p>{commands}<dl>{facts}</dl>{more}</article>'
    )
