"""A tokenizer without a vocabulary: a token's number *is* its text, so it is the same in every process and reversible.

A token is up to six bytes of UTF-8, read as one number below 2**48. English comes to about four characters a token.
"""

from __future__ import annotations

import re

PIECE = re.compile(
    r" ?[A-Za-z]{1,5}"  # a word, or five letters of it, with the space before it
    r"| ?[0-9]{1,3}"
    r"| {2,6}|\n{1,2}"
    r"|[\u2E80-\uFFFF]"  # CJK: one character each
    r"| ?[^\sA-Za-z0-9\u2E80-\uFFFF]"
    r"|."
    r"|\s",
    re.DOTALL,
)
LIMIT = 1 << 48


def encode(text: str) -> list[int]:
    """Token numbers of a text."""
    return [int.from_bytes(piece.encode("utf-8", "replace"), "big") for piece in PIECE.findall(text)]


def piece(token: int) -> bytes:
    """The bytes of one token."""
    return token.to_bytes(max(1, (token.bit_length() + 7) // 8), "big")


def decode(tokens: list[int]) -> str:
    """The text of token numbers; bytes that are no UTF-8 become replacement characters."""
    return b"".join(map(piece, tokens)).decode("utf-8", "replace")


def is_token(value: object) -> bool:
    """Whether a number can be a token at all."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LIMIT
