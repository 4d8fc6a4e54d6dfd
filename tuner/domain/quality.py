"""What a server answered to questions whose answers are known, and how that differs from the baseline's."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class ShortAnswer(BaseModel):
    """The beginning of one greedy answer."""

    model_config = ConfigDict(frozen=True)

    text: str
    chances: dict[str, float] | None = None
    """The most probable first tokens and their log probabilities (natural); None where the engine does not tell."""


class AnsweredQuestion(BaseModel):
    """One question of the quality gate, and what came of it."""

    model_config = ConfigDict(frozen=True)

    question: str
    """Names it."""
    deep: bool
    """Whether it was asked behind a long text."""
    right: bool
    answer: ShortAnswer


class Quality(BaseModel):
    """What one launch answered. Compared only with a launch on the same machine."""

    model_config = ConfigDict(frozen=True)

    questions: tuple[AnsweredQuestion, ...] = ()
    needle_found: bool | None = None
    """Whether it found what was hidden in the middle of its deepest prompt; None where that was not asked."""
    loop_share: float | None = None
    """Share of the generated text that repeats itself: the median over all measured requests."""


class QualityCost(BaseModel):
    """In what a launch differs from the baseline. All None or zero for the baseline itself."""

    model_config = ConfigDict(frozen=True)

    kl_shallow: float | None = None
    """Mean Kullback-Leibler divergence of the first answer token from the baseline's, in nats; short prompts."""
    kl_deep: float | None = None
    """The same behind a long text."""
    answered: int = 0
    """Of the known questions that the baseline answers, how many are answered here too."""
    known: int = 0
    """How many the baseline answers."""
    needle_lost: bool = False
    """Whether the baseline finds the hidden sentence and this launch does not."""
    more_loops: float = 0.0
    """By how much the share of repeated text exceeds the baseline's."""
