"""What a pass over a workload sends: the user's sampling and prompts, on prefixes that are shared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tuner.domain.conversation import Conversation
from tuner.domain.measurement import RequestTiming
from tuner.domain.sampling import Sampling
from tuner.domain.workload import Cell, Content, Workload
from tuner.workload.measure import WorkloadRun
from tuner.workload.patience import Patience

SAMPLING = Sampling(temperature=0.7)
OWN = tuple(Conversation(messages=[{"role": "user", "content": f"Question {n}?"}]) for n in range(3))  # type: ignore[list-item]


class Recorder:
    """A server that answers everything at once, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def render(self, message: str | Sequence[Mapping[str, Any]], opening: str) -> str:
        text = message if isinstance(message, str) else json.dumps([dict(each) for each in message])
        return text + opening

    def truncate(self, text: str, tokens: int) -> str:
        return text[: 4 * tokens]

    def generate(self, prompt: str, **how: Any) -> RequestTiming:
        self.asked.append((prompt, how))
        return RequestTiming(
            prompt_tokens=len(prompt) // 4, cached_tokens=0 if not how["reuse_prefix"] else 32, ttft_ms=5.0,
            completion_tokens=how["predict_tokens"], prefill_ms=4.0, decode_ms=10.0, total_ms=16.0,
        )  # fmt: skip


def run(*cells: Cell, repeats: int = 1) -> Recorder:
    recorder = Recorder()
    workload = Workload(cells=cells, predict_tokens=16, repeats=repeats, sampling=SAMPLING, conversations=OWN)
    passed = WorkloadRun(
        recorder, workload, salt_key="k", slots=2, log=lambda *_: None, patience=Patience()
    ).measure()  # fmt: skip
    assert passed.failure is None
    assert len(passed.cells) == len(cells)
    return recorder


@pytest.mark.parametrize("streams", [1, 2, 4])
def test_every_request_is_sampled_as_the_user_asked(streams: int) -> None:
    asked = run(Cell(content=Content.CODE, depth=32, streams=streams)).asked
    assert len(asked) > streams
    assert all(how["sampling"] == SAMPLING for _, how in asked)


def test_repeats_and_streams_take_the_prompts_in_turn() -> None:
    def questions(recorder: Recorder) -> list[str]:
        return [prompt[prompt.index("Question ") :][:11] for prompt, _ in recorder.asked if "Question " in prompt]

    asked = questions(run(Cell(content=Content.OWN, depth=32), repeats=4))
    assert asked[-4:] == ["Question 0?", "Question 1?", "Question 2?", "Question 0?"]
    together = questions(run(Cell(content=Content.OWN, depth=32, streams=2)))
    assert set(together[-2:]) == {"Question 0?", "Question 1?"}


def test_own_prompts_stand_behind_the_same_prefix_as_other_contents() -> None:
    recorder = run(Cell(content=Content.CODE, depth=32), Cell(content=Content.OWN, depth=32))
    code, own = (prompt for prompt, how in recorder.asked[-2:])
    assert json.loads(own)[0]["content"].startswith(code[: 4 * 32])
