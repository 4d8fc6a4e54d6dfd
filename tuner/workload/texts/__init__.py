"""Deterministic text for the measured requests: endless documents, instructions, and salts.

Everything is generated from grammars, so a document of any length can be had without a corpus, and holds hardly any
verbatim repeats: a long repeat would let n-gram drafting guess the text, and its gain would then be the text's and not
the model's. The same content and seed give the same text in every process and on every Python version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice

from tuner.domain.workload import Content
from tuner.workload.texts import code, english_words, maths, prose_en, prose_zh, tool
from tuner.workload.texts.grammar import Dice
from tuner.workload.texts.task import Task

_BLOCKS: dict[Content, Callable[[Dice], str]] = {
    Content.CODE: code.block,
    Content.TOOL: tool.block,
    Content.MATH: maths.block,
    Content.PROSE_EN: prose_en.block,
    Content.PROSE_ZH: prose_zh.block,
}
_TASKS: dict[Content, Callable[[Dice], Task]] = {
    Content.CODE: code.task,
    Content.TOOL: tool.task,
    Content.MATH: maths.task,
    Content.PROSE_EN: prose_en.task,
    Content.PROSE_ZH: prose_zh.task,
}
_HEADINGS: dict[Content, tuple[str, ...]] = {
    Content.CODE: ("Source under review", "Excerpt from the repository", "Changed file"),
    Content.TOOL: ("Tool log", "Recorded call", "Agent trace"),
    Content.MATH: ("Worked example", "Exercise with solution", "From the problem book"),
    Content.PROSE_EN: ("Reading", "From the archive", "Notebook"),
    Content.PROSE_ZH: ("阅读材料", "摘录", "来稿"),
}


def document(content: Content, seed: int) -> Iterator[str]:
    """Endless blocks of one kind of content, about 100 to 900 characters each. Joined, they are the document.

    A code block is one fenced function or statement; a tool block is one JSON value; a maths block is a problem with
    its solution; a prose block is a paragraph. Each ends in an empty line.
    """
    dice = _dice("document", content, seed)
    write = _BLOCKS[content]
    while True:
        yield write(dice) + "\n\n"


def mixed_document(seed: int) -> Iterator[str]:
    """Endless sections, each a heading and a block, of every kind of content in turn.

    One prefix that serves the instructions of all contents, so that a depth is prefilled once and not once a content.
    """
    dice = Dice(f"headings/{seed}")
    documents = {content: document(content, seed) for content in _BLOCKS}
    number = 0
    while True:
        for content, blocks in documents.items():
            number += 1
            place = f"{dice.pick(english_words.TOWN_STARTS)}{dice.pick(english_words.TOWN_ENDS)}"
            yield f"## {number}. {dice.pick(_HEADINGS[content])}, {place}\n\n{next(blocks)}"


def instruction(content: Content, seed: int) -> str:
    """What a user asks after the document, as people use that kind of content; it does not refer to the document.

    About 50 to 200 tokens, so that it, the opening and a chat template fit into the workload's room for them.
    """
    return _task(content, seed).instruction


def opening(content: Content, seed: int) -> str:
    """The first words of the answer to `instruction(content, seed)`, for completions that the engine shall go on with.

    Base models do not answer instructions; from these words they too continue in the wanted kind of text.
    """
    return _task(content, seed).opening


def salt(seed: str) -> str:
    """A short paragraph to put first in a prompt, so that no prompt cache has seen what follows it.

    It begins with one of some 170 first names, so two salts mostly differ from their first token on, but not always:
    a prompt that must be cold still has to be proven cold.
    """
    dice = Dice(f"salt/{seed}")
    name = f"{dice.pick(english_words.WOMEN + english_words.MEN)} {dice.pick(english_words.SURNAMES)}"
    thing = f"{dice.pick(english_words.QUALITIES)} {dice.pick(english_words.THINGS)}"
    mark = hashlib.sha256(seed.encode()).hexdigest()[:24]
    return f"{name} filed these papers as {mark}, beside the {thing}.\n\n"


@lru_cache(maxsize=1)
def fingerprint() -> str:
    """Tells these texts from those of a tuner that writes others: twelve hexadecimal digits over samples of each kind.

    Speeds that were measured with other texts do not compare, since speculation gains differ with the text.
    """
    digest = hashlib.sha256()
    for content in _BLOCKS:
        for seed in range(3):
            digest.update("".join(islice(document(content, seed), 24)).encode())
            digest.update((instruction(content, seed) + opening(content, seed)).encode())
    digest.update("".join(islice(mixed_document(0), 24)).encode())
    return digest.hexdigest()[:12]


@lru_cache(maxsize=256)
def _task(content: Content, seed: int) -> Task:
    # Some take a tenth of a second to write, and every launch asks for the same few between its requests.
    return _TASKS[content](_dice("task", content, seed))


def _dice(purpose: str, content: Content, seed: int) -> Dice:
    return Dice(f"{purpose}/{content.value}/{seed}")
