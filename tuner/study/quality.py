"""The quality gate: holds a launch's answers against the baseline's, and names those that are wrong.

Everything is relative to the baseline on the same machine, so a base model that knows little is judged as fairly as a
large chat model. What a quantised cache costs is shown, not punished; the gate is for what is broken.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

from tuner.domain.measurement import Measurement
from tuner.domain.quality import Answer, PlaceCost, QualityCost, QualityResult


@dataclass(frozen=True)
class Thresholds:
    """Beyond what an answer is called wrong.

    Measured with Gemma 3 270M, a model that suffers more than larger ones, over eleven or twelve questions, alone and
    behind 2,000 to 3,000 tokens, in nats: the same configuration with another salt 0 and 0.003 to 0.012, another batch
    size 0 and 0.004 to 0.010, a q8_0 cache 0.004 and 0.005 to 0.009, a q4_0 cache 0.05 to 0.07 and 0.05 to 0.09. With
    another rope base it is right alone and 3.2 nats away behind 768 tokens. Text that is garbage comes to
    several nats. The limit lies between the two, nearer to what may still be of use to someone.
    """

    most_kl: float = 0.5
    """Mean divergence of the first answer token, in nats."""
    least_known: float = 0.5
    """Share of the questions that the baseline answers. A q4_0 cache changed one answer in six to one in three."""
    least_needles: float = 0.5
    """Share of the needles that the baseline finds."""
    most_loops: float = 0.5
    """By how much the share of a cell's text that repeats itself may grow. A small model goes round in circles in one
    cell and not in the next, and with another salt the other way round: so nearly all cells have to agree."""
    looping_cells: float = 0.9
    """The share of cells that it takes."""
    few_questions: int = 4
    """With fewer questions in common nothing is concluded from them, nor from their distributions."""
    few_needles: int = 2
    """The same for needles: a small model can lose a single one by chance; a q4_0 cache lost one of three."""
    few_cells: int = 4
    """The same for cells whose texts could go round in circles."""


THRESHOLDS = Thresholds()


def is_comparable(reference: Measurement | None) -> bool:
    """Whether a launch has anything to be held against, or is the one that others will be held against."""
    return reference is None or (reference.quality is not None and bool(reference.quality.answers))


def against_baseline(result: QualityResult, reference: Measurement | None) -> QualityResult:
    """`result` with what it lost against the baseline's; the baseline's first keeps its distributions instead."""
    known = reference.quality if reference is not None else None
    if reference is None or known is None:
        return result
    pairs = list(_pairs(result, known))
    loops = [
        result.loop_shares[cell] - known.loop_shares[cell] for cell in result.loop_shares.keys() & known.loop_shares
    ]
    needles = [ours.right for ours, theirs in pairs if theirs.is_needle and theirs.right]
    cost = QualityCost(
        alone=_at_place([pair for pair in pairs if not pair[0].deep]),
        deep=_at_place([pair for pair in pairs if pair[0].deep]),
        needles_found=sum(needles),
        needles_hidden=len(needles),
        loop_share_added=fmean(loops) if len(loops) >= THRESHOLDS.few_cells else None,
        cells_looping=sum(added > THRESHOLDS.most_loops for added in loops),
        cells_compared=len(loops),
    )
    return result.without_distributions().model_copy(update={"cost": cost})


def what_is_wrong(cost: QualityCost | None, limits: Thresholds = THRESHOLDS) -> str | None:
    """Why a launch's answers are not worth having, in words; None when nothing speaks against them."""
    if cost is None:
        return None
    told = [*_wrong_at(cost.alone, "", limits), *_wrong_at(cost.deep, " at depth", limits)]
    if cost.needles_hidden >= limits.few_needles and cost.needles_found < limits.least_needles * cost.needles_hidden:
        found = cost.needles_found or "none"
        told.append(f"finds {found} of {cost.needles_hidden} hidden facts that the baseline finds in the deepest text")
    if cost.cells_compared >= limits.few_cells and cost.cells_looping >= limits.looping_cells * cost.cells_compared:
        told.append(
            f"goes round in circles in {cost.cells_looping} of {cost.cells_compared} cells, unlike the baseline"
        )
    return "; ".join(told) or None


def baseline_told(result: QualityResult) -> list[str]:
    """What a user should know of a gate whose baseline answers little."""
    if result.unchecked is not None:
        return [f"quality: answers are not checked, the engine refused the questions: {result.unchecked}"]
    told = []
    if result.known_asked and not result.known_right:
        compared = "only distributions are compared" if _distributions(result) else "answers cannot be checked"
        told.append(f"quality: the model answers none of the known questions: {compared}")
    elif result.known_asked and not _distributions(result):
        told.append("quality: the engine tells no probabilities: only known answers are compared")
    if result.needles_hidden and not result.needles_found:
        told.append("quality: the model finds none of the facts hidden in the deepest text")
    return told


def divergence(theirs: Mapping[int, float], ours: Mapping[int, float]) -> float:
    """Kullback-Leibler divergence in nats of `ours` from `theirs`, each the log probabilities of the likeliest tokens.

    A token that `ours` does not list has there at most the probability of the least that it lists, and all of them
    together no more than what its list leaves; the rest of each distribution counts as one token. That makes it a lower
    bound of the true divergence, and never negative.
    """
    p = {token: math.exp(logprob) for token, logprob in theirs.items()}
    q = {token: math.exp(logprob) for token, logprob in ours.items()}
    missing = [token for token in p if token not in q]
    left = max(1 - sum(q.values()), 0.0)
    unlisted = min(min(q.values()), left / len(missing)) if missing else 0.0
    here = {token: max(q.get(token, unlisted), _LEAST_PROBABILITY) for token in p}
    total = sum(share * math.log(share / here[token]) for token, share in p.items() if share > 0)
    rest, rest_here = 1 - sum(p.values()), 1 - sum(here.values())
    if rest > _LEAST_PROBABILITY:
        total += rest * math.log(rest / max(rest_here, _LEAST_PROBABILITY))
    return max(total, 0.0)


_LEAST_PROBABILITY = 1e-6
"""What lies below it is rounding: without a floor, one token that became impossible would decide everything."""


def _pairs(result: QualityResult, baseline: QualityResult) -> Iterable[tuple[Answer, Answer]]:
    """Our answers with the baseline's to the same questions."""
    known = {(answer.question, answer.deep): answer for answer in baseline.answers}
    for answer in result.answers:
        theirs = known.get((answer.question, answer.deep))
        if theirs is not None:
            yield answer, theirs


def _at_place(pairs: list[tuple[Answer, Answer]]) -> PlaceCost:
    kept = [ours for ours, theirs in pairs if theirs.right and not theirs.is_needle]
    divergences = [
        divergence(theirs.first_token, ours.first_token)
        for ours, theirs in pairs
        if theirs.first_token and ours.first_token
    ]
    return PlaceCost(
        known_right=sum(answer.right for answer in kept),
        known_asked=len(kept),
        kl=fmean(divergences) if len(divergences) >= THRESHOLDS.few_questions else None,
    )


def _wrong_at(cost: PlaceCost, where: str, limits: Thresholds) -> list[str]:
    told = []
    if cost.known_asked >= limits.few_questions and cost.known_right < limits.least_known * cost.known_asked:
        right = cost.known_right or "none"
        told.append(f"answers {right} of {cost.known_asked} known questions that the baseline answers{where}")
    if cost.kl is not None and cost.kl > limits.most_kl:
        told.append(f"what it would say first is {cost.kl:.1f} nats from the baseline{where}, {limits.most_kl} allowed")
    return told


def _distributions(result: QualityResult) -> bool:
    return any(answer.first_token for answer in result.answers)
