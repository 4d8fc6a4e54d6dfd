"""The little language of search space files: `ubatch_size <= batch_size and spec_type != none`.

    expression  = conjunction { "or" conjunction }
    conjunction = condition { "and" condition }
    condition   = name [ operator operand ] | "(" expression ")"
    operator    = == | != | < | <= | > | >= | contains
    operand     = name | number | word | "quoted text"

After ==, != and contains, a bare word that is no known name stands for itself, so strings need no quotes; what is
greater or less is a number or a name. Evaluation is three-valued: a name without a value makes its condition unknown
(None), and the caller decides what unknown means.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tuner.domain.configuration import Value
from tuner.domain.errors import BadInput

_TOKEN_PATTERN = re.compile(r'\s*(?:(?P<op>==|!=|<=|>=|<|>)|(?P<paren>[()])|"(?P<text>[^"]*)"|(?P<word>[\w.,+-]+))')
_COMPARE: dict[str, Callable[[Value, Value], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "contains": lambda whole, part: str(part) in str(whole),
}
_ORDERING = ("<", "<=", ">", ">=")


@dataclass(frozen=True)
class _Word:
    text: str


_Token = str | _Word


@dataclass(frozen=True)
class _Condition:
    name: str
    op: str | None = None
    operand: _Word | Value | None = None

    def names(self) -> set[str]:
        """What must have a value for this to be true or false."""
        return {self.name} | (self.words() if self.op in _ORDERING else set())

    def words(self) -> set[str]:
        """The bare words on the right, be they names or texts."""
        return {self.operand.text} if isinstance(self.operand, _Word) else set()

    def evaluate(self, values: Mapping[str, Value | None]) -> bool | None:
        left = values.get(self.name)
        if left is None:
            return None
        if self.op is None:
            return bool(left)
        right: Value | None
        if isinstance(self.operand, _Word):
            word = self.operand.text
            right = values.get(word) if word in values or self.op in _ORDERING else word
        else:
            right = self.operand
        if right is None:
            return None
        try:
            return _COMPARE[self.op](left, right)
        except TypeError:
            return False


@dataclass(frozen=True)
class _Joined:
    word: str
    parts: tuple[_Joined | _Condition, ...]

    def names(self) -> set[str]:
        return set().union(*(part.names() for part in self.parts))

    def words(self) -> set[str]:
        return set().union(*(part.words() for part in self.parts))

    def evaluate(self, values: Mapping[str, Value | None]) -> bool | None:
        results = [part.evaluate(values) for part in self.parts]
        decisive = self.word == "or"
        if decisive in results:
            return decisive
        return None if None in results else not decisive


Expression = _Joined | _Condition


@lru_cache(maxsize=1024)
def parse(text: str) -> Expression:
    """The expression written in `text`.

    Raises:
        BadInput: `text` is not an expression.
    """
    tokens = _tokens(text)
    expression, rest = _parse_joined(text, tokens, "or")
    if rest:
        raise _not_understood(text, str(rest[0]))
    return expression


def evaluate(text: str, values: Mapping[str, Value | None]) -> bool | None:
    """The truth of `text` for `values`; None where a name that decides it has no value.

    A name that may stand on the right of == and has no value must be in `values`, as None.
    """
    return parse(text).evaluate(values)


def _tokens(text: str) -> list[_Token]:
    """Operators, parentheses and joining words as str; everything else as _Word, a quoted text with its first quote."""
    tokens: list[_Token] = []
    position = 0
    while position < len(text.rstrip()):
        match = _TOKEN_PATTERN.match(text, position)
        if match is None:
            raise _not_understood(text, text[position:].strip())
        position = match.end()
        if match["op"] or match["paren"]:
            tokens.append(match["op"] or match["paren"])
        elif match["text"] is not None:
            tokens.append(_Word('"' + match["text"]))
        else:
            word = match["word"]
            tokens.append(word if word in ("and", "or", "contains") else _Word(word))
    return tokens


def _parse_joined(text: str, tokens: list[_Token], word: str) -> tuple[Expression, list[_Token]]:
    parts: list[Expression] = []
    while True:
        part, tokens = _parse_joined(text, tokens, "and") if word == "or" else _parse_condition(text, tokens)
        parts.append(part)
        if not tokens or tokens[0] != word:
            return (parts[0] if len(parts) == 1 else _Joined(word, tuple(parts))), tokens
        tokens = tokens[1:]


def _parse_condition(text: str, tokens: list[_Token]) -> tuple[Expression, list[_Token]]:
    if tokens and tokens[0] == "(":
        inner, rest = _parse_joined(text, tokens[1:], "or")
        if not rest or rest[0] != ")":
            raise _not_understood(text, "a parenthesis that is not closed")
        return inner, rest[1:]
    if not tokens or not isinstance(tokens[0], _Word):
        raise _not_understood(text, str(tokens[0]) if tokens else "its end")
    name = tokens[0].text
    if len(tokens) < 2 or tokens[1] not in _COMPARE:
        return _Condition(name), tokens[1:]
    if len(tokens) < 3 or not isinstance(tokens[2], _Word):
        raise _not_understood(text, "an operator with nothing to its right")
    return _Condition(name, str(tokens[1]), _operand(tokens[2].text)), tokens[3:]


def _operand(word: str) -> _Word | Value:
    if word.startswith('"'):
        return word[1:]
    if word in ("true", "false"):
        return word == "true"
    for number in (int, float):
        try:
            return number(word)
        except ValueError:
            continue
    return _Word(word)


def _not_understood(text: str, near: str) -> BadInput:
    return BadInput(
        f"The expression `{text}` is not understood, near: {near}",
        advice="write `name operator name-or-value`, joined by `and` / `or`, for example `ubatch_size <= batch_size`",
    )
