"""Failures that want more of something, and those that want less."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.builders import record
from tests.search.spaces import parameter, space
from tuner.domain.configuration import Configuration, Value
from tuner.domain.record import TrialRecord
from tuner.domain.verdict import Explanation, Move, Outcome, Verdict
from tuner.search.directions import contradicts, next_on_the_line

SHARES = ("unset", 0.5, 0.6, 0.7, 0.8, 0.9)
SPACE = space(parameter("share", SHARES), parameter("chunk", (512, 1024, 2048)), parameter("cache", ("f16", "q8")))


def failed(number: int, values: Mapping[str, Value], *moves: Move) -> TrialRecord:
    made = record(number, values, outcome=Outcome.OUT_OF_MEMORY)
    explanation = Explanation(outcome=Outcome.OUT_OF_MEMORY, reason="because", moves=moves)
    verdict = Verdict(outcome=Outcome.OUT_OF_MEMORY, reason="because", explanation=explanation)
    return made.model_copy(update={"verdict": verdict})


def values(share: Value, chunk: int = 512, cache: str = "f16") -> dict[str, Value]:
    return {"share": share, "chunk": chunk, "cache": cache}


MORE = Move(flag="--share", larger=True, at=0.65)
LESS = Move(flag="--share", larger=False, at=0.65)
SMALLER_CHUNK = Move(flag="--chunk", larger=False)


@pytest.mark.parametrize(
    ("move", "out", "open_"),
    [(MORE, (0.5, 0.6, 0.7), (0.8, 0.9, "unset")), (LESS, (0.7, 0.8, 0.9), (0.5, 0.6, "unset"))],
    ids=["more", "less"],
)
def test_what_lies_beyond_a_failure_is_ruled_out_on_its_side_alone(
    move: Move, out: tuple[Value, ...], open_: tuple[Value, ...]
) -> None:
    failures = [failed(1, values(0.7), move)]
    for share in out:
        assert contradicts(SPACE, Configuration(values=values(share)), failures)
    for share in open_:
        assert not contradicts(SPACE, Configuration(values=values(share)), failures)
    # With anything else changed as well, nothing is known.
    assert not contradicts(SPACE, Configuration(values=values(out[0], cache="q8")), failures)


def test_a_value_that_the_engine_chose_counts_as_what_it_was() -> None:
    failures = [failed(1, values("unset"), MORE)]
    assert contradicts(SPACE, Configuration(values=values(0.6)), failures)
    assert not contradicts(SPACE, Configuration(values=values(0.7)), failures)


def test_a_failure_that_wants_several_things_rules_out_what_is_better_in_none() -> None:
    failures = [failed(1, values(0.7, chunk=1024), LESS, SMALLER_CHUNK)]
    assert contradicts(SPACE, Configuration(values=values(0.8, chunk=2048)), failures)
    assert not contradicts(SPACE, Configuration(values=values(0.8, chunk=512)), failures)
    assert not contradicts(SPACE, Configuration(values=values(0.6, chunk=2048)), failures)


def test_other_failures_rule_nothing_out() -> None:
    plain = record(1, values(0.7), outcome=Outcome.CRASHED)
    assert not contradicts(SPACE, Configuration(values=values(0.7)), [plain, failed(2, values(0.7))])
    assert next_on_the_line(SPACE, plain, [plain]) is None
    elsewhere = failed(3, values(0.7), Move(flag="--other", larger=True, at=1.0))
    assert next_on_the_line(SPACE, elsewhere, [elsewhere]) is None


def test_the_next_value_lies_between_what_failed_on_either_side() -> None:
    little = failed(1, values(0.5), MORE)
    step = next_on_the_line(SPACE, little, [little])
    assert step is not None
    assert step.value == 0.8
    much = failed(2, values(0.8), LESS)
    step = next_on_the_line(SPACE, much, [little, much])
    assert step is not None
    assert step.value in (0.6, 0.7)
    other = failed(3, values(0.5, cache="q8"), MORE)
    step = next_on_the_line(SPACE, other, [little, much, other])
    assert step is not None
    assert step.value == 0.8, "the lines are apart"


def test_two_failures_with_nothing_between_say_that_something_else_is_short() -> None:
    little, much = failed(1, values(0.7), MORE), failed(2, values(0.8), LESS)
    step = next_on_the_line(SPACE, much, [little, much])
    assert step is not None
    assert step.value is None


def test_a_line_on_which_something_ran_is_left_to_the_sampler() -> None:
    ran, little = record(1, values(0.8)), failed(2, values(0.5), MORE)
    assert next_on_the_line(SPACE, little, [ran, little]) is None
