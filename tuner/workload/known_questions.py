"""Questions with known answers, for base and chat models alike: beginnings that every model of the language completes.

Several kinds, since a broken cache or kernel may spare one: facts, counting, arithmetic, code, Chinese. Of these only
what the baseline answers on the user's own model counts.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KnownQuestion:
    """A text to be continued, and how the continuation begins."""

    name: str
    text: str
    answer: str

    def is_answered_by(self, continuation: str) -> bool:
        """Whether the continuation begins with the answer, but for spaces, quotes and case."""
        return continuation.lstrip(" \n\t\"'`*:").casefold().startswith(self.answer.casefold())


QUESTIONS = (
    KnownQuestion("capital", "The capital of France is", "Paris"),
    KnownQuestion("opposite", "The opposite of hot is", "cold"),
    KnownQuestion("days", "The days of the week are Sunday, Monday, Tuesday,", "Wednesday"),
    KnownQuestion("counting", "Counting up: 1, 2, 3, 4,", "5"),
    KnownQuestion("sum", "2 + 3 = 5\n4 + 4 = 8\n7 + 2 =", "9"),
    KnownQuestion("code", "def add(a, b):\n    return a", "+ b"),
    KnownQuestion("planet", "The largest planet of the solar system is", "Jupiter"),
    KnownQuestion("chinese", "法国的首都是", "巴黎"),
)

NEEDLE = "The secret code of the lighthouse is {code}."
"""Hidden in the middle of the deepest prompt."""
NEEDLE_QUESTION = "The secret code of the lighthouse is"
