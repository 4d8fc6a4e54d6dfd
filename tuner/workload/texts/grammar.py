"""Text from grammars: seeded dice, and templates with slots.

Slots are written `«name»`
because braces, angle brackets and dollars all mean something in the code that is generated.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")

_SLOT = re.compile(r"«(\w+)»")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeiou])")


class Dice:
    """Choices that follow from the seed alone.

    Only `Random.random()` is used: Python promises that it gives the same sequence in every version; `choice`,
    `sample` and `randrange` carry no such promise.
    """

    def __init__(self, seed: str) -> None:
        self._random = Random(seed).random

    def pick(self, options: Sequence[T]) -> T:
        """One of the options, all equally likely."""
        return options[int(self._random() * len(options))]

    def some(self, options: Sequence[T], count: int) -> list[T]:
        """`count` options at different positions, in random order. There must be that many."""
        positions: list[int] = []
        while len(positions) < count:
            position = int(self._random() * len(options))
            if position not in positions:
                positions.append(position)
        return [options[position] for position in positions]

    def between(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return low + int(self._random() * (high - low + 1))

    def chance(self, share: float) -> bool:
        """True in `share` (0 to 1) of the throws."""
        return self._random() < share


class Grammar:
    """Named rules, each a list of templates whose slots name other rules or values that are given at expansion."""

    def __init__(self, rules: Mapping[str, Sequence[str]], given: Collection[str] = ()) -> None:
        """`given` names the slots that only `expand` fills. Raises ValueError for a slot that nothing fills."""
        self._rules: dict[str, list[list[str]]] = {
            # Splitting at a group alternates: literal, slot, literal, slot, ..., literal.
            rule: [_SLOT.split(template) for template in templates]
            for rule, templates in rules.items()
        }
        for rule, templates in self._rules.items():
            for parts in templates:
                unknown = [slot for slot in parts[1::2] if slot not in rules and slot not in given]
                if unknown:
                    raise ValueError(f"rule {rule!r} has slots that nothing fills: {unknown}")

    def expand(self, rule: str, dice: Dice, given: Mapping[str, str] | None = None) -> str:
        """One text of the rule. Given values win over rules of the same name."""
        pieces: list[str] = []
        self._append(dice.pick(self._rules[rule]), dice, given or {}, pieces)
        return "".join(pieces)

    def several(self, rule: str, dice: Dice, count: int, given: Mapping[str, str] | None = None) -> list[str]:
        """`count` texts of the rule, each from a different template. It must have that many."""
        texts: list[str] = []
        for parts in dice.some(self._rules[rule], count):
            pieces: list[str] = []
            self._append(parts, dice, given or {}, pieces)
            texts.append("".join(pieces))
        return texts

    def _append(self, parts: list[str], dice: Dice, given: Mapping[str, str], pieces: list[str]) -> None:
        pieces.append(parts[0])
        for position in range(1, len(parts), 2):
            slot = parts[position]
            if slot in given:
                pieces.append(given[slot])
            else:
                self._append(dice.pick(self._rules[slot]), dice, given, pieces)
            pieces.append(parts[position + 1])


def english(text: str) -> str:
    """The text with a capital first, and `an` where it belongs."""
    text = _ARTICLE.sub(r"\1n ", text)
    start = 1 if text.startswith("'") else 0
    return text[:start] + text[start : start + 1].upper() + text[start + 1 :]


def words(text: str) -> list[str]:
    """The entries of a long literal, separated by white space."""
    return text.split()


def listed(text: str) -> list[str]:
    """The entries of a long literal, separated by commas or line ends."""
    return [entry for entry in (piece.strip() for piece in re.split(r"[,\n]", text)) if entry]


def plural(noun: str) -> str:
    """The plural of a regular English noun."""
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def past(verb: str) -> str:
    """The past tense of a regular English verb whose last consonant is not doubled."""
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ied"
    return verb + "ed"


def gerund(verb: str) -> str:
    """The -ing form of a regular English verb whose last consonant is not doubled."""
    return (verb[:-1] if verb.endswith("e") else verb) + "ing"
