"""Worked maths problems: a question, steps whose every equation holds, and the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tuner.workload.texts import english_words as w
from tuner.workload.texts.algebra import ALGEBRA
from tuner.workload.texts.grammar import Dice, Grammar, english
from tuner.workload.texts.task import Task
from tuner.workload.texts.word_problems import WORD_PROBLEMS, Problem

_GRAMMAR = Grammar(
    {
        "first": [
            "First,",
            "To begin,",
            "We start here:",
            "Step 1.",
            "Note that",
            "By definition,",
            "Reading the question,",
        ],
        "next": [
            "Then",
            "So",
            "Next,",
            "It follows that",
            "Hence",
            "From this,",
            "After that,",
            "Therefore",
            "Now",
            "Thus",
        ],
        "close": ["Answer:", "The answer is", "Result:", "Final answer:", "In conclusion:", "So the result is"],
        "title": [
            "Problem «n»",
            "Exercise «n»",
            "Question «n»",
            "Example «n»",
            "Task «n» («surname»)",
            "«n» («surname»)",
        ],
        "surname": w.SURNAMES,
        "ask": [
            "Solve the following problem. Show each step as an equation, explain it in one sentence, and give the "
            "answer at the end.\n\n«question»",
            "Work through this problem step by step and check the result by another method.\n\n«question»",
            "«question»\n\nExplain your reasoning as to a pupil, in numbered steps. State the answer last.",
            "A pupil asks: «question» Answer with a complete worked solution, then invent a similar problem "
            "and solve it too.",
        ],
        "opening": ["Step 1:", "Let us work through it step by step.\n\nStep 1:", "Solution.\n1."],
    },
    given=("n", "question"),
)


class _Worked(NamedTuple):
    question: str
    steps: tuple[str, ...]
    answer: str


def _problem(dice: Dice, kinds: tuple[Callable[[Dice], Problem], ...]) -> _Worked:
    question, steps, answer = dice.pick(kinds)(dice)
    return _Worked(english(question), steps, answer)


def block(dice: Dice) -> str:
    """A problem with its solution."""
    question, steps, answer = _problem(dice, ALGEBRA + WORD_PROBLEMS)
    title = _GRAMMAR.expand("title", dice, {"n": f"{dice.between(1, 40)}.{dice.between(1, 99)}"})
    told = [_led("next" if place else "first", step, dice) for place, step in enumerate(steps)]
    return f"{title}. {question}\n{' '.join(told)}\n{_GRAMMAR.expand('close', dice)} {answer}."


def _led(rule: str, step: str, dice: Dice) -> str:
    if step.startswith("check"):
        return english(step)
    lead = _GRAMMAR.expand(rule, dice)
    return f"{lead} {english(step) if lead.endswith('.') else step}"


def task(dice: Dice) -> Task:
    """A word problem to be solved step by step."""
    question = _problem(dice, WORD_PROBLEMS).question
    return Task(_GRAMMAR.expand("ask", dice, {"question": question}), _GRAMMAR.expand("opening", dice))
