"""Speed never buys nonsense: what a launch answers, held against the baseline on the same machine.

The thresholds leave room for what people choose with open eyes. On a 270M model q8_0 keys and values cost 0.011 nats
of the first token's distribution on short prompts and 0.016 behind 3,000 tokens, q4_0 0.076 and 0.114; another batch
shape alone 0.007. A broken cache or kernel costs several nats. Everything below the thresholds is shown as a cost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean

from tuner.domain.quality import Quality, QualityCost

_MOST_KL = 1.0
"""Nats. At q4_0's tenfold the answers are another model's."""
_LEAST_ANSWERED = 0.5
"""Of the questions that the baseline answers."""
_MOST_LOOPS = 0.5
_UNSEEN = 2.0
"""Nats by which a token that the other did not list is taken to lie below the last one listed."""


def quality_cost(ours: Quality, reference: Quality) -> QualityCost:
    """In what a launch's answers differ from the reference's."""
    theirs = {(q.question, q.deep): q for q in reference.questions}
    pairs = [(q, theirs[q.question, q.deep]) for q in ours.questions if (q.question, q.deep) in theirs]
    known = [(mine, other) for mine, other in pairs if other.right]
    divergences: dict[bool, list[float]] = {False: [], True: []}
    for mine, other in pairs:
        if mine.answer.chances and other.answer.chances:
            divergences[mine.deep].append(divergence(other.answer.chances, mine.answer.chances))
    return QualityCost(
        kl_shallow=fmean(divergences[False]) if divergences[False] else None,
        kl_deep=fmean(divergences[True]) if divergences[True] else None,
        answered=sum(mine.right for mine, _ in known),
        known=len(known),
        needle_lost=reference.needle_found is True and ours.needle_found is False,
        more_loops=max(0.0, (ours.loop_share or 0.0) - (reference.loop_share or 0.0)),
    )


def divergence(reference: Mapping[str, float], ours: Mapping[str, float]) -> float:
    """Kullback-Leibler divergence of `ours` from `reference` over the tokens that the reference lists, in nats.

    Both map tokens to natural log probabilities. What the reference does not list counts as one token more.
    """
    floor = min(ours.values()) - _UNSEEN
    total = sum(math.exp(value) * (value - ours.get(token, floor)) for token, value in reference.items())
    rest = 1 - sum(math.exp(value) for value in reference.values())
    left = 1 - sum(math.exp(ours[token]) for token in reference if token in ours)
    if rest > 1e-6:
        total += rest * math.log(rest / max(left, math.exp(floor)))
    return max(0.0, total)


def what_is_wrong(cost: QualityCost) -> str | None:
    """Why a launch's answers cannot be accepted, in words; None if they can."""
    wrong = []
    if cost.known and cost.answered < _LEAST_ANSWERED * cost.known:
        wrong.append(f"it answers {cost.answered} of {cost.known} known questions that the baseline answers")
    if cost.needle_lost:
        wrong.append("it does not find a sentence in its deepest prompt that the baseline finds")
    for where, nats in (("short prompts", cost.kl_shallow), ("a long prompt", cost.kl_deep)):
        if nats is not None and nats > _MOST_KL:
            wrong.append(f"its first words after {where} are others than the baseline's ({nats:.1f} nats)")
    if cost.more_loops > _MOST_LOOPS:
        wrong.append("its text goes round in loops, the baseline's does not")
    return "; ".join(wrong) or None
