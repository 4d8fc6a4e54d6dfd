"""What a launch's answers are worth, beside its speed. Unknown is None, never 0."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Reply(BaseModel):
    """A short greedy answer of the server. One raw line of `requests.jsonl`."""

    model_config = ConfigDict(frozen=True)

    text: str
    total_ms: float
    """By the client's clock, from sending the request to the whole answer."""
    first_token: dict[int, float] | None = None
    """Token -> natural logarithm of its probability, for the most probable first tokens of the answer.

    None where the engine does not tell. Of later tokens nothing is kept: under speculation llama-server tells of none.
    """
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    """Prompt tokens that came from a cache. None where the engine does not say."""


class Answer(BaseModel):
    """What came of one question."""

    model_config = ConfigDict(frozen=True)

    question: str
    """The question's key; those of needles begin with `needle`."""
    deep: bool
    """Asked behind the deepest measured text; otherwise alone."""
    text: str
    right: bool
    first_token: dict[int, float] | None = None
    """As in `Reply`. Kept for the baseline, against which every other launch is held, and dropped elsewhere."""

    @property
    def is_needle(self) -> bool:
        """Whether it was hidden in the text before."""
        return self.question.startswith("needle")


class PlaceCost(BaseModel):
    """What was lost where the questions stand: alone, or behind a long text. It counts only what both were asked."""

    model_config = ConfigDict(frozen=True)

    known_right: int
    """Right answers to known questions, among those that the baseline answers."""
    known_asked: int
    """How many the baseline answers."""
    kl: float | None = None
    """Mean Kullback-Leibler divergence of the first answer token from the baseline's, in nats; over needles too.

    None: too few questions are common to both, or the engine tells no probabilities.
    """


class QualityCost(BaseModel):
    """What a launch's answers lost against the baseline's."""

    model_config = ConfigDict(frozen=True)

    alone: PlaceCost
    deep: PlaceCost
    needles_found: int
    """Among those that the baseline finds."""
    needles_hidden: int
    """How many the baseline finds."""
    loop_share_added: float | None = None
    """By how much more of what it generates repeats itself than in the baseline, as a share; negative for less.

    The mean over the cells of both. None: too few are known.
    """
    cells_looping: int = 0
    """In how many of these cells it grew so much that it cannot be chance."""
    cells_compared: int = 0


class QualityResult(BaseModel):
    """What one launch answered."""

    model_config = ConfigDict(frozen=True)

    answers: tuple[Answer, ...]
    depth: int | None = None
    """Tokens of text before the deep questions; None where none was asked."""
    loop_shares: dict[str, float] = {}
    """Cell -> how much of what was generated in it repeats itself, 0 to 1: see `tuner.workload.loops`."""
    seconds: float = 0.0
    """Wall time of all questions."""
    unchecked: str | None = None
    """Why the engine was not asked to the end, where it refused the questions."""
    cost: QualityCost | None = None
    """Against the baseline; None for the first measurement of the baseline itself."""

    @property
    def known_asked(self) -> int:
        """Known questions asked, alone and deep."""
        return sum(not answer.is_needle for answer in self.answers)

    @property
    def known_right(self) -> int:
        """Known questions answered right, alone and deep."""
        return sum(answer.right for answer in self.answers if not answer.is_needle)

    @property
    def needles_hidden(self) -> int:
        """Needles asked for."""
        return sum(answer.is_needle for answer in self.answers)

    @property
    def needles_found(self) -> int:
        """Needles found."""
        return sum(answer.right for answer in self.answers if answer.is_needle)

    def without_distributions(self) -> QualityResult:
        """A copy that takes little room in a record."""
        bare = tuple(answer.model_copy(update={"first_token": None}) for answer in self.answers)
        return self.model_copy(update={"answers": bare})
