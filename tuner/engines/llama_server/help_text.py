"""Reads what llama-server prints of itself: `--help`, `--list-devices` and `--version`.

The help text (written by llama.cpp's common/arg.cpp) has one entry a flag. An entry starts in the first column with its
names, joined by commas, then a hint for the value; the description follows after two or more spaces or on indented
lines. Flags change within weeks, so this text and never the version number says what a binary can do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tuner.domain.facts import Device, FlagCatalogue, FlagEntry

_NAME = re.compile(r"(--?[A-Za-z0-9][\w.-]*)(,\s+)?")
_WORD = re.compile(r"[a-z0-9][a-z0-9+_-]*")
_CHOICES_IN_HINT = re.compile(r"\{([^{}]+)\}|\[([^\[\]]+\|[^\[\]]+)\]|<([^<>]+\|[^<>]+)>")
_ALLOWED_VALUES = re.compile(r"allowed values:\s*([^()]+)")
_BULLET = re.compile(r"^- ([\w+-]+)(?: \([^)]*\))?:")
_DEFAULT = re.compile(r"\(default: '?([\w+-]+)'?\)")
_ENVIRONMENT = re.compile(r"\(env: \w+\)")
_REMOVED = re.compile(r"^the argument has been removed\.?\s*(.*)")
_DEVICE = re.compile(r"^\s+(\S+): (.+?)(?: \((\d+) MiB, (\d+) MiB free\))?\s*$")


def parse_help(text: str) -> FlagCatalogue:
    """The flags of `llama-server --help`, in the order of the text. A text without entries gives an empty catalogue."""
    return FlagCatalogue(entries=tuple(_entry(head, lines) for head, lines in _entries(text)))


def parse_devices(text: str) -> tuple[Device, ...]:
    """The devices of `llama-server --list-devices`, in the engine's order. Sizes are in MiB; the CPU is not listed."""
    _, _, listing = text.partition("Available devices:")
    matches = (_DEVICE.match(line) for line in listing.splitlines())
    return tuple(
        Device(
            name=match[1],
            description=match[2],
            total_mib=None if match[3] is None else int(match[3]),
            free_mib=None if match[4] is None else int(match[4]),
        )
        for match in matches
        if match
    )


def parse_version(text: str) -> str:
    """The version in the output of `llama-server --version` (both streams may be given), or `unknown`.

    Forms seen: `version: 6123 (abcdef)`, `version: 0.1.0-dev (build 1, commit 7e4c0a9)`.
    """
    match = re.search(r"^version:\s*(\S.*?)\s*$", text, re.MULTILINE)
    return match[1] if match else "unknown"


def _entries(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each entry as its first line and the stripped lines below it."""
    head: str | None = None
    below: list[str] = []
    for line in text.splitlines():
        if line.startswith("-----"):  # a section title
            continue
        if line.startswith("-"):
            if head is not None:
                yield head, below
            head, below = line, []
        elif line.startswith(" ") and head is not None:
            below.append(line.strip())
    if head is not None:
        yield head, below


def _entry(head: str, below: list[str]) -> FlagEntry:
    names: list[str] = []
    position = 0
    while match := _NAME.match(head, position):
        names.append(match[1])
        position = match.end()
        if match[2] is None:
            break
    # One space stands before a value hint, at least two before a description.
    hint, _, first = head[position:].removeprefix(" ").partition("  ")
    hint = hint.strip()
    description = [first.strip(), *below]
    positive, negative = _split_negations(names)
    prose = _ENVIRONMENT.sub("", " ".join(description)).strip()
    removed = _REMOVED.match(prose)
    allowed, list_valued = _allowed(hint, description, prose) if hint else (None, False)
    return FlagEntry(
        names=tuple(positive),
        negations=tuple(negative),
        takes_value=bool(hint),
        allowed=allowed,
        list_valued=list_valued,
        removed=(removed[1].strip() or "the argument has been removed") if removed else None,
    )


def _split_negations(names: list[str]) -> tuple[list[str], list[str]]:
    """The positive and the negated spellings; the text lists the negated ones last, their short forms first.

    A flag that exists in the negative only (`--no-host`) is a flag of its own and not a negation.
    """
    start = next((i for i, name in enumerate(names) if name.startswith("--no-")), len(names))
    while start < len(names) and start > 0 and re.match(r"-n", names[start - 1]):
        start -= 1
    return (names[:start], names[start:]) if start else (names, [])


def _allowed(hint: str, description: list[str], prose: str) -> tuple[tuple[str, ...] | None, bool]:
    """The values that the entry lists, wherever it lists them, and whether several may be joined."""
    if choices := _CHOICES_IN_HINT.fullmatch(hint):
        return tuple(re.split(r"[,|]", choices[1] or choices[2] or choices[3])), False
    words = hint.split(",")
    if len(words) > 2 and all(_WORD.fullmatch(word) for word in words):
        return tuple(words), True  # the hint is the list itself, as for --spec-type
    if listed := _ALLOWED_VALUES.search(prose):
        return tuple(word.strip() for word in listed[1].split(",") if word.strip()), False
    bullets = [match[1] for line in description if (match := _BULLET.match(line))]
    if not bullets:
        return None, False
    # The bullets explain the choices but may leave out the default one (--reasoning-format).
    default = _DEFAULT.search(prose)
    if default and default[1] not in bullets:
        bullets.append(default[1])
    return tuple(bullets), False
