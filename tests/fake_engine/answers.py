"""What the fake server says: right answers to known questions, copies of what the prompt told it, and else plausible,
never repeating text of the prompt's own kind. The same prompt gets the same text.
"""

from __future__ import annotations

import hashlib
import math
import random
import re
from collections.abc import Iterator
from itertools import cycle

import vocabulary

TAIL = 1500
"""Characters of a prompt's end that hold the question."""
ASKED = 300
"""Characters of a prompt's end that say what kind of text is asked for: what stands before may be of any kind."""
SALT_NOISE = 0.1
"""Standard deviation of what the text before a question adds to the logits of its answer."""

KNOWN = (
    (r"capital (?:city )?of France", "Paris"),
    (r"capital (?:city )?of (?:Germany)", "Berlin"),
    (r"capital (?:city )?of (?:Italy)", "Rome"),
    (r"capital (?:city )?of (?:Spain)", "Madrid"),
    (r"capital (?:city )?of (?:Japan)", "Tokyo"),
    (r"capital (?:city )?of (?:England|the United Kingdom|Great Britain)", "London"),
    (r"capital (?:city )?of (?:Russia)", "Moscow"),
    (r"capital (?:city )?of (?:China)", "Beijing"),
    (r"opposite of hot", "cold"),
    (r"opposite of up", "down"),
    (r"opposite of black", "white"),
    (r"opposite of big", "small"),
    (r"Monday, Tuesday", "Wednesday"),
    (r"January, February", "March"),
    (r"one, two, three", "four"),
    (r"1, 2, 3, 4", "5"),
    (r"days in a week|a week has", "seven"),
    (r"months in a year|a year has", "twelve"),
    (r"color of the (?:clear )?sky|(?:the )?sky is", "blue"),
    (r"color of grass|grass is", "green"),
    (r"(?:color of )?snow is|color of snow", "white"),
    (r"Romeo and", "Juliet"),
    (r"Hamlet is William", "Shakespeare"),
    (r"author of Hamlet|wrote (?:Hamlet|Romeo)|Hamlet was written by", "William Shakespeare"),
    (r"largest planet", "Jupiter"),
    (r"planet closest to the Sun|closest planet", "Mercury"),
    (r"chemical symbol (?:for|of) gold", "Au"),
    (r"chemical (?:formula|symbol) (?:for|of) water", "H2O"),
    (r"boils at", "100"),
    (r"freezes at", "0"),
    (r"sun rises in the", "east"),
    (r"import numpy as", "np"),
    (r"return a \+", "b"),
    (r"print\($", "e)"),
    (r"法国的首都是", "巴黎"),
    (r"春、夏、秋", "冬"),
    (r"星期一、星期二", "星期三"),
)
ARITHMETIC = re.compile(
    r"(\d{1,6})\s*(\+|-|\*|x|×|plus|minus|times)\s*(\d{1,6})\s*(?:=|is|equals)?\s*\??\s*(?:A(?:nswer)?:)?\s*$"
)
MARKS = {
    "tool": r"\bJSON\b|\btools?\b|\barguments\b|function[_ ]call|\"\w+\"\s*:|\bcall the\b",
    "code": (
        r"(?<!secret )\bcode\b|\bPython\b|\bfunction\b|\bclass\b|\bdef \w|```|\breturn\b|\bimport\b|#include"
        r"|\bC\+\+|\bRust\b|\bscript\b"
    ),
    "math": (
        r"\bsolve\b|\bequations?\b|\bprove\b|\bproof\b|\bintegral\b|\bderivative\b|\\frac|\bmath|\bcalculate\b"
        r"|\btheorem\b|\bprime\b|\bsum of\b|\bstep by step\b|\bStep 1\b|\bSolution\b|\bHow (?:long|far|much|many)\b"
        r"|\bkm/h\b|\bshow each step\b|\breasoning\b|\bworked\b"
    ),
}
WORDS = {
    "prose-en": re.findall(
        r"\w+",
        "river light stone morning window quiet letter harbour garden winter street voice paper mountain evening "
        "bread lantern promise shadow market sister captain forest kettle journey silver feather bridge candle summer "
        "orchard song thunder field village memory",
    ),
    "prose-zh": list("春江水暖风山月明夜雨花木石桥人家灯火书信远近归来去时光城门海上云中清晨安静"),
    "code": re.findall(
        r"\w+",
        "value result items index node count buffer cache parse total state token stack queue width offset entry limit "
        "matrix field cursor record batch line",
    ),
    "math": list("xyzabckmnpq"),
    "tool": re.findall(r"\w+", "path query city unit limit order user date name status kind page sort lang mode"),
}
CJK = re.compile(r"[\u4E00-\u9FFF]")


def kind_of(prompt: str) -> str:
    """The content kind that the end of a prompt asks for, as in `tuner.domain.workload.Content`."""
    tail = prompt[-ASKED:]
    if len(CJK.findall(tail)) > 0.15 * len(tail):
        return "prose-zh"
    scores = {kind: len(re.findall(marks, tail, re.IGNORECASE)) for kind, marks in MARKS.items()}
    best = max(scores, key=lambda kind: scores[kind])
    return best if scores[best] else "prose-en"


def known_answer(prompt: str) -> str | None:
    """The right answer where the prompt ends in a question this server knows, or can be read off the prompt."""
    tail = re.sub(r"<\|im_(?:start|end)\|>(?:assistant|user|system)?\s*", "\n", prompt[-TAIL:]).rstrip()
    sum_ = ARITHMETIC.search(tail)
    if sum_:
        left, sign, right = int(sum_[1]), sum_[2], int(sum_[3])
        return str(left + right if sign in ("+", "plus") else left - right if sign in ("-", "minus") else left * right)
    last = re.split(r"(?<=[.!?])\s+(?=[A-Z])|\n", re.sub(r"\s*(?:A|Answer):$", "", tail))[-1]
    copied = _copied(prompt, last)
    if copied:
        return copied
    return next((answer for question, answer in KNOWN if re.search(question, last, re.IGNORECASE)), None)


def _copied(prompt: str, last: str) -> str | None:
    """What the prompt says earlier: a sentence that begins as the last line does, or that answers its question."""
    if re.search(r" (?:is|called|costs)$", last) and len(last) > 12:
        start = prompt.find(last + " ")
        found = (
            re.match(r"[\w-]+", prompt[start + len(last) + 1 :]) if 0 <= start < len(prompt) - len(last) - 1 else None
        )
        return found[0] if found else None
    asked = re.search(r"[Ww]hat (?:is|was) (the .+?)\?$", last)
    told = re.search(re.escape(asked[1]) + r" (?:is|was) ([\w-]+)", prompt, re.IGNORECASE) if asked else None
    return told[1] if told else None


def _last_line(prompt: str) -> str:
    return prompt.rstrip().rsplit("\n", 1)[-1][-ASKED:]


def _seed(*parts: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "big")


def _phrases(kind: str, rng: random.Random) -> Iterator[str]:
    words = WORDS[kind]
    number = 0
    while True:
        a, b, c = rng.sample(words, 3)
        number += 1
        if kind == "prose-en":
            verb = rng.choice(("kept", "crossed", "found", "left", "held"))
            yield f" The {a} {verb} a {b} of {c} {rng.randint(2, 999)}."
        elif kind == "prose-zh":
            yield a + b + c + rng.choice(words) + rng.choice("，。")
        elif kind == "code":
            yield f"\n    {a}_{number} = {b}[{rng.randint(0, 99)}] + {c}"
        elif kind == "math":
            yield f" {rng.randint(2, 99)}{a} + {rng.randint(2, 99)}{b} = {rng.randint(100, 9999)}."
        else:
            yield f'{{"{a}": {rng.randint(1, 9999)}, "{b}": "{c}-{number}"}},'


def answer(prompt: str, garbage: bool = False, loops: bool = False) -> Iterator[int]:
    """Endless tokens that follow a prompt. After a known answer comes a full stop, then text of the prompt's kind; with
    `loops` its first phrase again and again."""
    if garbage:
        broken = random.Random(_seed(_last_line(prompt)))
        while True:
            yield from vocabulary.encode(broken.choice((" #", "@@", " ?!", "\u25a1", " zq", "%%")))
    rng = random.Random(_seed(prompt))
    known = known_answer(prompt)
    if known:
        space = "" if prompt.endswith((" ", "\n")) else " "
        yield from vocabulary.encode(f"{space}{known}.")
    phrases = _phrases(kind_of(prompt), rng)
    for phrase in cycle([next(phrases)]) if loops else phrases:
        yield from vocabulary.encode(phrase)


def known_tokens(prompt: str) -> int:
    """How many tokens of the answer belong to a known answer, its full stop included; after them the text may end."""
    known = known_answer(prompt)
    return len(vocabulary.encode(f" {known}.")) if known else 0


def top_logprobs(
    prompt: str, position: int, token: int, count: int, noise: float, setup: str
) -> list[dict[str, object]]:
    """The most probable tokens at one place, best first, the chosen one among them.

    They follow from the last line; what stands before it changes them a little, as another salt does in a real model.
    `noise` is what a quantised cache adds to the logits; it depends on the prompt and on `setup` alone, so the same
    configuration always says the same.
    """
    question = _last_line(prompt)
    rng = random.Random(_seed(question, position))
    words = [word for kind in ("prose-en", "code") for word in WORDS[kind]]
    others = dict.fromkeys(vocabulary.encode(f" {word}")[0] for word in rng.sample(words, 40))
    others.pop(token, None)
    logits = {token: 6.0 + rng.random()} | {other: rng.uniform(-2.0, 3.0) for other in others}
    before = random.Random(_seed(prompt, position))
    shift = random.Random(_seed(question, position, setup))
    logits = {
        each: value + SALT_NOISE * before.gauss(0, 1) + noise * shift.gauss(0, 1) for each, value in logits.items()
    }
    total = math.log(sum(math.exp(value) for value in logits.values()))
    best = sorted(logits, key=lambda each: -logits[each])[:count]
    return [entry(each, logits[each] - total) for each in best]


def entry(token: int, logprob: float) -> dict[str, object]:
    """One token with its log probability, in llama-server's shape."""
    text = vocabulary.piece(token)
    return {"id": token, "token": text.decode("utf-8", "replace"), "bytes": list(text), "logprob": logprob}
