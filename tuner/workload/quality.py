"""Asks a running server what is known, shallow and behind a long text.

The long text is the same in every launch, unlike the salted prompts whose speed is measured: only so can the answers'
distributions be compared. Its length is bounded, since it costs a prefill of its own; what lies deeper is covered by
the sentence hidden in the deepest prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median

from tuner.domain.measurement import RequestFailure
from tuner.domain.quality import AnsweredQuestion, Quality, ShortAnswer
from tuner.workload.client import EngineClient
from tuner.workload.known_questions import QUESTIONS
from tuner.workload.measure import document

MOST_DEPTH = 2048
"""Tokens of the long text at most."""
_LEAST_DEPTH = 256
_SHARE = 4
"""Its part of the deepest depth, as a divisor: so the gate costs little beside the cells."""
_ANSWER_TOKENS = 4
_GRAM = 16
"""Characters that count as a repetition when they come again."""

AnswerLog = Callable[[str, bool, ShortAnswer | RequestFailure], None]


def ask_known_questions(
    client: EngineClient, depth: int, *, first_token_s: float, log: AnswerLog
) -> tuple[AnsweredQuestion, ...] | RequestFailure:
    """Every question twice, alone and behind a long text; or what failed. `depth` is the workload's deepest."""
    found: list[AnsweredQuestion] = []
    for name, deep, prompt, answer in _prompts(client, text_depth(depth)):
        said = client.short_answer(prompt, tokens=_ANSWER_TOKENS, first_token_s=first_token_s)
        log(f"question {name}{' deep' if deep else ''}", False, said)
        if isinstance(said, RequestFailure):
            return said
        found.append(AnsweredQuestion(question=name, deep=deep, right=answer(said.text), answer=said))
    return tuple(found)


def text_depth(deepest: int) -> int:
    """Tokens of the long text, for a workload with this deepest depth."""
    return min(deepest, max(_LEAST_DEPTH, min(deepest // _SHARE, MOST_DEPTH)))


def _prompts(client: EngineClient, depth: int) -> Iterator[tuple[str, bool, str, Callable[[str], bool]]]:
    for question in QUESTIONS:
        yield question.name, False, question.text, question.is_answered_by
    text = client.truncate(document(depth), depth)
    for question in QUESTIONS:
        yield question.name, True, f"{text}\n\n{question.text}", question.is_answered_by


def loop_share(texts: Sequence[str]) -> float | None:
    """The share of a text that repeats what it said before: the median over the texts; None without any."""
    shares = []
    for text in texts:
        grams = [text[place : place + _GRAM] for place in range(len(text) - _GRAM + 1)]
        if grams:
            shares.append(1 - len(set(grams)) / len(grams))
    return median(shares) if shares else None


def quality_of(questions: tuple[AnsweredQuestion, ...], needle_found: bool | None, generated: Sequence[str]) -> Quality:
    """All of it together."""
    return Quality(questions=questions, needle_found=needle_found, loop_share=loop_share(generated))
