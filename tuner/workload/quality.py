"""Asks a server what can be known of its answers' quality: known questions, hidden needles, loops in what it writes.

The deep questions follow the deepest cell's own text while it is still in the cache, so they cost a few tokens each.
That text is salted anew in every launch. What the salt changes in the first answer token was measured with Gemma 3 270M
behind 2,000 and 3,000 tokens: a mean of 0.003 to 0.012 nats, no more than another batch size makes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

from tuner.domain.measurement import RequestFailure
from tuner.domain.quality import Answer, QualityResult, Reply
from tuner.workload.client import EngineClient
from tuner.workload.loops import repeated_share
from tuner.workload.texts import needles, questions
from tuner.workload.texts.questions import Question

QualityLog = Callable[[str, bool, Reply | RequestFailure], None]
"""As `tuner.workload.measure.RequestLog`, for the questions."""

_ANSWER_TOKENS = 6
_TOP_TOKENS = 20
_DEEP_QUESTIONS = 8
"""Each costs a few tokens of prefill behind the longest text."""
_LEAST_S = 2.0
_SHARE = 0.05
"""Of a trial's time so far that the questions asked alone may take, and again the deep ones."""
_BASELINE_SHARE = 0.3
"""The baseline is asked once, and what it was not asked nobody can be compared in."""


class QualityRun:
    """The questions of one launch, made when its measurement begins."""

    def __init__(
        self,
        client: EngineClient,
        *,
        log: QualityLog,
        first_token_s: Callable[[int], float],
        is_baseline: bool,
    ) -> None:
        """Prepares the questions.

        Args:
            client: speaks to the server.
            log: where every request's raw figures go.
            first_token_s: depth in tokens -> how long an answer may take.
            is_baseline: whether later launches are held against this one.
        """
        self._client = client
        self._log = log
        self._first_token_s = first_token_s
        self._is_baseline = is_baseline
        self._share = _BASELINE_SHARE if is_baseline else _SHARE
        self._began = time.monotonic()
        self._answers: list[Answer] = []
        self._depth: int | None = None
        self._texts: dict[str, list[str]] = {}
        self._seconds = 0.0
        self._unchecked: str | None = None

    def hear(self, cell: str, text: str) -> None:
        """Takes note of what was generated in a cell."""
        self._texts.setdefault(cell, []).append(text)

    def ask_deep(self, prefix: str, depth: int) -> RequestFailure | None:
        """Asks behind `prefix`, a text of `depth` tokens that the server has in its cache; what failed, if anything."""
        self._depth = depth
        asked: list[tuple[Question, str]] = []
        if depth >= needles.LEAST_DEPTH:
            inside = self._client.render(f"{prefix}\n\n{needles.LEAD_IN}", "")
            asked += [(needle.question, inside) for needle in needles.NEEDLES]
        apart = self._client.render(f"{prefix}\n\n{questions.APART} {questions.LEAD_IN}", "")
        asked += [(question, apart) for question in questions.QUESTIONS[:_DEEP_QUESTIONS]]
        return self._ask(asked, depth)

    def ask_alone(self) -> RequestFailure | None:
        """Asks without any text before; what failed, if anything."""
        alone = self._client.render(questions.LEAD_IN, "")
        return self._ask([(question, alone) for question in questions.QUESTIONS], 0)

    def result(self) -> QualityResult:
        """What was answered so far."""
        loops = {
            cell: statistics.fmean(shares)
            for cell, texts in self._texts.items()
            if (shares := [share for text in texts if (share := repeated_share(text)) is not None])
        }
        return QualityResult(
            answers=tuple(self._answers),
            depth=self._depth,
            loop_shares=loops,
            seconds=round(self._seconds, 3),
            unchecked=self._unchecked,
        )

    def _ask(self, asked: Sequence[tuple[Question, str]], depth: int) -> RequestFailure | None:
        """Asks until all are answered, one fails, or too much of the trial's time is spent."""
        began = time.monotonic()
        allowed_s = max(_LEAST_S, self._share * (began - self._began))
        failure = None
        for question, before in asked:
            if self._unchecked is not None or time.monotonic() - began > allowed_s:
                break
            reply = self._client.answer(
                before + question.opening,
                predict_tokens=_ANSWER_TOKENS,
                top_tokens=_TOP_TOKENS,
                limit_s=self._first_token_s(depth),
                slot=0,
            )
            self._log(f"quality {question.key}@{depth}", False, reply)
            if isinstance(reply, RequestFailure):
                if self._is_baseline and reply.kind == "refused":
                    # An engine that has no such requests can be tuned all the same.
                    self._unchecked = reply.detail
                else:
                    failure = reply
                break
            self._answers.append(_judged(question, reply, deep=depth > 0))
        self._seconds += time.monotonic() - began
        return failure


def _judged(question: Question, reply: Reply, *, deep: bool) -> Answer:
    return Answer(
        question=question.key,
        deep=deep,
        text=reply.text,
        right=question.is_right(reply.text),
        first_token=reply.first_token,
    )
