"""Known questions: what counts as an answer, what repeats itself."""

from __future__ import annotations

import pytest

from tuner.domain.measurement import RequestFailure
from tuner.domain.quality import ShortAnswer
from tuner.workload.known_questions import QUESTIONS
from tuner.workload.quality import MOST_DEPTH, ask_known_questions, loop_share


class Server:
    """Answers as a test says."""

    def __init__(self, fails_at: int = -1) -> None:
        self.prompts: list[str] = []
        self.fails_at = fails_at

    def truncate(self, text: str, tokens: int) -> str:
        return text[:tokens]

    def short_answer(self, prompt: str, *, tokens: int, first_token_s: float) -> ShortAnswer | RequestFailure:
        assert tokens > 0
        assert first_token_s > 0
        self.prompts.append(prompt)
        if len(self.prompts) == self.fails_at:
            return RequestFailure(kind="connection_lost", detail="")
        return ShortAnswer(text=" Paris, of course" if prompt.endswith("France is") else " no", chances=None)


def test_every_question_is_asked_alone_and_behind_one_and_the_same_text() -> None:
    one, two = Server(), Server()
    logged: list[str] = []
    found = ask_known_questions(one, 100_000, first_token_s=1, log=lambda name, *_: logged.append(name))  # type: ignore[arg-type]
    ask_known_questions(two, 100_000, first_token_s=1, log=lambda *_: None)  # type: ignore[arg-type]
    assert not isinstance(found, RequestFailure)
    assert len(found) == len(logged) == 2 * len(QUESTIONS)
    assert one.prompts == two.prompts, "answers can be compared only where the questions are the same"
    deep = one.prompts[len(QUESTIONS) :]
    assert len({prompt[:MOST_DEPTH] for prompt in deep}) == 1, "one prefix: it is computed once"
    assert all(MOST_DEPTH <= len(prompt) < MOST_DEPTH + 200 for prompt in deep)
    assert {(q.question, q.deep) for q in found if q.right} == {("capital", False), ("capital", True)}


def test_the_first_failure_ends_the_questions() -> None:
    server = Server(fails_at=3)
    assert isinstance(ask_known_questions(server, 64, first_token_s=1, log=lambda *_: None), RequestFailure)  # type: ignore[arg-type]
    assert len(server.prompts) == 3


@pytest.mark.parametrize(
    ("said", "right"),
    [
        (" Paris", True),
        ('\n"Paris".', True),
        (" paris is", True),
        (" a city", False),
        (" not Paris", False),
        ("", False),
    ],
)
def test_an_answer_is_right_when_it_begins_so(said: str, right: bool) -> None:
    assert QUESTIONS[0].is_answered_by(said) == right


def test_loops_are_the_share_of_text_that_was_said_before() -> None:
    prose = "The captain crossed the river at dawn, and nobody in the village heard the oars until noon had passed."
    assert loop_share([prose]) == 0
    looping = loop_share(["and so on, and so forth, " * 12])
    assert looping is not None
    assert looping > 0.8
    assert loop_share([]) is None
    assert loop_share(["short"]) is None
    assert loop_share([prose, prose, "x" * 100]) == 0, "one request alone is no sign"
