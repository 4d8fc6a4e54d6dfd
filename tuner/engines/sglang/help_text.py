"""Reads the help text of SGLang's server, as Python's argparse writes it.

An entry starts behind two spaces with its spellings, joined by commas, each with a hint for its value (before Python
3.13; from then on the hint stands once, behind the last). The description follows after two or more spaces or on
indented lines. Flags change within weeks, so this text and never the version number says what an installation can do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tuner.domain.facts import FlagCatalogue, FlagEntry

_ENTRY = re.compile(r"^  (?=-)(.*)$")
_NAME = re.compile(r"(--?[A-Za-z][\w.-]*)")
_CHOICES = re.compile(r"\{([^{}]*)\}")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_DEPRECATED = re.compile(
    r"^\(?deprecated\b[:.,]?\s*(?P<advice>[^)]*)|^NOTE: \S+ is (?:now )?deprecated\b\.?\s*(?P<more>.*)",
    re.IGNORECASE,
)


def parse_help(text: str) -> FlagCatalogue:
    """The flags of the help text, in its order. A text without entries gives an empty catalogue."""
    return FlagCatalogue(entries=tuple(_entry(head, below) for head, below in _entries(_COLOUR.sub("", text))))


def _entries(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each entry as its first line and the stripped lines below it."""
    head: str | None = None
    below: list[str] = []
    for line in text.splitlines():
        if match := _ENTRY.match(line):
            if head is not None:
                yield head, below
            head, below = match[1], []
        elif head is not None and line.startswith("     "):
            below.append(line.strip())
        elif head is not None and line.strip():
            # The next section's title: what follows belongs to no flag until one begins.
            yield head, below
            head, below = None, []
    if head is not None:
        yield head, below


def _entry(head: str, below: list[str]) -> FlagEntry:
    invocation, _, first = head.partition("  ")
    names: list[str] = []
    hint = ""
    for part in _parts(invocation):
        name, _, value = part.partition(" ")
        if _NAME.fullmatch(name):
            names.append(name)
            hint = value.strip() or hint
    positive = [name for name in names if not name.startswith("--no-")]
    negative = [name for name in names if name.startswith("--no-")]
    if not positive:  # A flag that exists in the negative only is a flag of its own.
        positive, negative = negative, []
    choices = _CHOICES.search(hint)
    prose = " ".join([first.strip(), *below]).strip()
    told = _DEPRECATED.search(prose)
    return FlagEntry(
        names=tuple(positive),
        negations=tuple(negative),
        takes_value=bool(hint),
        allowed=tuple(word.strip() for word in choices[1].split(",")) if choices else None,
        several="..." in hint,
        deprecated=((told["advice"] or told["more"] or "").strip() or "it is deprecated") if told else None,
    )


def _parts(invocation: str) -> list[str]:
    """`--a A, --b {x,y}` without the commas between; those inside braces stay."""
    parts, depth, current = [], 0, ""
    for character in invocation:
        depth += (character in "{[") - (character in "}]")
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    return [*parts, current.strip()]
