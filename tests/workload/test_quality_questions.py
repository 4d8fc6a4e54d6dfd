"""What is asked of a server, where, how long, and what becomes of it when it goes wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tuner.domain.measurement import RequestFailure, RequestTiming
from tuner.domain.quality import QualityResult, Reply
from tuner.domain.workload import Cell, Content, Workload
from tuner.workload import quality
from tuner.workload.measure import WorkloadResult, WorkloadRun
from tuner.workload.patience import Patience
from tuner.workload.quality import QualityRun
from tuner.workload.texts import needles, questions
from tuner.workload.texts.questions import Question

KNOWN = {question.opening: question.answer for question in questions.QUESTIONS}
HIDDEN = {needle.question.opening: needle.question.answer for needle in needles.NEEDLES}


class Server:
    """A client of a server that knows everything, with four characters a token."""

    def __init__(self, failure: Callable[[str], RequestFailure | None] = lambda _: None) -> None:
        self.asked: list[tuple[str, int | None]] = []
        self.prompts: list[str] = []
        self._failure = failure

    def render(self, message: str, opening: str) -> str:
        return f"<user>{message}<answer>{opening}"

    def truncate(self, text: str, tokens: int) -> str:
        return text[: 4 * tokens]

    def generate(self, prompt: str, **_: object) -> RequestTiming | RequestFailure:
        self.prompts.append(prompt)
        return RequestTiming(
            prompt_tokens=len(prompt) // 4, cached_tokens=0, completion_tokens=10, prefill_ms=10.0, decode_ms=10.0,
            ttft_ms=1.0, total_ms=2.0, finish_reason="limit", text="round and round it goes, " * 20,
        )  # fmt: skip

    def answer(self, prompt: str, *, slot: int | None = None, **_: object) -> Reply | RequestFailure:
        before, _, opening = prompt.rpartition("<answer>")
        self.asked.append((prompt, slot))
        failed = self._failure(prompt)
        if failed is not None:
            return failed
        told = opening in HIDDEN and f"{opening} {HIDDEN[opening]}" in before
        text = KNOWN.get(opening, HIDDEN[opening] if told else "?")
        return Reply(text=f" {text}.", total_ms=1.0, first_token={1: -0.1})


def run(
    server: Server, cells: list[tuple[int, int]], *, is_baseline: bool = True, hopeless: str | None = None
) -> WorkloadResult:
    workload = Workload(
        cells=tuple(Cell(content=Content.CODE, depth=depth, streams=streams) for depth, streams in cells),
        predict_tokens=16,
    )
    questions_of_it = QualityRun(server, log=lambda *_: None, first_token_s=lambda _: 10.0, is_baseline=is_baseline)
    return WorkloadRun(
        server,
        workload,
        salt_key="x",
        slots=2,
        log=lambda *_: None,
        patience=Patience(),
        hopeless=lambda _: hopeless,
        quality=questions_of_it,
    ).measure()


def answered(result: WorkloadResult) -> QualityResult:
    assert result.failure is None
    assert result.quality is not None
    return result.quality


@pytest.mark.parametrize(
    "cells", [[(512, 1), (2048, 1)], [(512, 1), (2048, 2)], [(512, 1), (2048, 1), (512, 2), (2048, 2)], [(1024, 2)]]
)
def test_deep_questions_follow_the_text_that_lies_in_slot_0(cells: list[tuple[int, int]]) -> None:
    """Wherever the deepest text was measured: alone, or in parallel streams."""
    server = Server()
    result = answered(run(server, cells))
    depth = max(depth for depth, _ in cells)
    assert result.depth == depth
    assert (result.needles_found, result.needles_hidden) == (3, 3)
    deep = [prompt for prompt, _ in server.asked if len(prompt) > 3 * depth]
    assert len(deep) == sum(answer.deep for answer in result.answers) > 3
    common = 4 * (depth - needles.ROOM)
    cell_prompts = [prompt for prompt in server.prompts if len(prompt) > common]
    assert any(all(prompt[:common] == cell[:common] for prompt in deep) for cell in cell_prompts)
    assert {slot for _, slot in server.asked} == {0}


def test_a_short_text_hides_nothing() -> None:
    result = answered(run(Server(), [(256, 1)]))
    assert result.needles_hidden == 0
    assert result.known_right == result.known_asked > 12


def test_loops_are_told_by_cell() -> None:
    result = answered(run(Server(), [(256, 1), (512, 1)]))
    assert result.loop_shares.keys() == {"code@256", "code@512"}
    assert all(share > 0.7 for share in result.loop_shares.values())


def test_a_pass_that_is_cut_short_is_not_asked() -> None:
    server = Server()
    assert run(server, [(256, 1), (512, 1)], hopeless="it lost").quality is None
    assert server.asked == []


def test_questions_take_only_a_share_of_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that cannot reuse a prefix would compute the deepest text for each of them."""
    now = 0.0

    def slow(prompt: str) -> None:
        nonlocal now
        now += 30.0 if len(prompt) > 1000 else 0.01

    monkeypatch.setattr(quality.time, "monotonic", lambda: now)
    server = Server(slow)
    now = 0.0
    for is_baseline, most in ((False, 1), (True, 1)):
        server.asked.clear()
        result = answered(run(server, [(1024, 1)], is_baseline=is_baseline))
        deep = [answer for answer in result.answers if answer.deep]
        assert len(deep) == most
        assert deep[0].question == "needle-middle"
        assert len(result.answers) - len(deep) == len(questions.QUESTIONS)


def test_a_request_that_fails_ends_the_pass() -> None:
    lost = RequestFailure(kind="connection_lost", detail="gone")
    for deep in (True, False):
        server = Server(lambda prompt, at=deep: lost if (len(prompt) > 1000) == at else None)  # type: ignore[misc]
        result = run(server, [(1024, 1)], is_baseline=False)
        assert (result.failure, result.failed_cell, len(result.cells)) == (lost, "quality", 1)


def test_a_baseline_that_refuses_the_questions_can_be_tuned_all_the_same() -> None:
    refused = RequestFailure(kind="refused", detail="HTTP 400: no such thing")
    server = Server(lambda _: refused)
    result = answered(run(server, [(1024, 1)]))
    assert result.answers == ()
    assert result.unchecked == refused.detail
    assert len(server.asked) == 1
    assert run(Server(lambda _: refused), [(1024, 1)], is_baseline=False).failure == refused


@pytest.mark.parametrize(
    ("answer", "text", "right"),
    [
        ("12", " 12\n\n7 +", True), ("12", "120", False), ("12", "12.5", True), ("Paris", " paris.", True),
        ("np", " numpy", False), ("e", "e)", True), ("e", "exception)", False), ("冬", "冬天", True),
        ("冬", "夏", False), ("Paris", "", False), ("Paris", " **Paris**", True), ("Paris", " I think Paris", False),
    ],
)  # fmt: skip
def test_right_is_what_begins_with_the_answer(answer: str, text: str, right: bool) -> None:
    assert Question("x", "", answer).is_right(text) is right


def test_questions_are_mixed_and_told_apart() -> None:
    keys = [question.key for question in questions.QUESTIONS] + [needle.question.key for needle in needles.NEEDLES]
    assert len(keys) == len(set(keys))
    assert all(question.answer not in question.opening for question in questions.QUESTIONS if len(question.answer) > 1)
    assert all(question.opening not in questions.LEAD_IN for question in questions.QUESTIONS)


def test_needles_stand_where_they_should_and_fit_into_their_room() -> None:
    text = "".join(f"Paragraph {number} says nothing much of note.\n\n" for number in range(400))
    hidden = needles.hide_needles(text)
    for needle in needles.NEEDLES:
        sentence = f"\n\n{needle.question.opening} {needle.question.answer}{needle.rest}\n\n"
        assert hidden.count(sentence) == 1
        assert hidden.index(sentence) / len(hidden) == pytest.approx(needle.place, abs=0.03)
    assert (len(hidden) - len(text)) / 3 < needles.ROOM
    for needle in needles.NEEDLES:
        hidden = hidden.replace(f"\n\n{needle.question.opening} {needle.question.answer}{needle.rest}", "")
    assert hidden == text, "and nothing else was changed"


def test_needles_can_be_hidden_in_a_text_without_paragraphs() -> None:
    hidden = needles.hide_needles("word " * 1000)
    assert all(needle.question.answer in hidden for needle in needles.NEEDLES)
