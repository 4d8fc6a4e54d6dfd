"""Short lines with one right way to go on, of several kinds, in own words or common knowledge.

They are asked as the beginning of the answer itself, so that base and chat models alike go on with them. A small model
does not know all of them: only those that the baseline answers count.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Question(NamedTuple):
    """The beginning of a line, and what must follow."""

    key: str
    opening: str
    answer: str

    def is_right(self, text: str) -> bool:
        """Whether an answer begins with the right words, and not with a longer word or number.

        Quotes and marks of emphasis before it are no part of it.
        """
        ends = r"(?![A-Za-z0-9])" if self.answer.isascii() else ""
        return re.match(rf"[\s\"'`*:]*{re.escape(self.answer)}{ends}", text, re.IGNORECASE) is not None


QUESTIONS = (
    Question("verona", "Romeo and", "Juliet"),
    Question("sum", "7 + 5 =", "12"),
    Question("import", "import numpy as", "np"),
    Question("weekdays-zh", "星期一、星期二、", "星期三"),
    Question("hamlet", "The author of Hamlet is William", "Shakespeare"),
    Question("product", "6 * 7 =", "42"),
    Question("addition", "def add(a, b):\n    return a +", "b"),
    Question("seasons-zh", "一年有四个季节：春、夏、秋、", "冬"),
    Question("sunrise", "The sun rises in the", "east"),
    Question("except", "try:\n    run()\nexcept Exception as e:\n    print(", "e"),
    Question("capital-zh", "法国的首都是", "巴黎"),
    Question("france", "The capital of France is", "Paris"),
)
"""Kinds in turn, so that a part from the beginning is as mixed as the whole."""

LEAD_IN = """Some lines and how they go on:

Grass is green.
3 + 3 = 6
One, two, three, four, five.

Go on with the next line."""
"""Asked before every question. The examples tell base models what is wanted."""

APART = "Here the papers end; what follows has nothing to do with them."
"""Put between a long text and the lead-in: the words just before a question are then the same in every launch, though
the text before them is salted and may break off anywhere."""
