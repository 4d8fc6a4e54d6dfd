"""A user's own prompts: what is read, what is refused and where, and how they stand behind a prefix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tuner.domain.conversation import Conversation
from tuner.domain.errors import BadInput, MissingFile
from tuner.workload.prompts_file import read_prompts

ASK = {"role": "user", "content": "Why?"}


def written(folder: Path, *lines: Any) -> Path:
    path = folder / "mine.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    return path


def messages(conversation: Conversation) -> list[dict[str, Any]]:
    return [message.model_dump(exclude_unset=True) for message in conversation.messages]


def test_every_line_is_a_chat(tmp_path: Path) -> None:
    calls = [{"id": "1", "type": "function", "function": {"name": "w", "arguments": "{}"}}]
    agent = [
        {"role": "system", "content": "Be brief."},
        ASK,
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "1", "content": "Rain\u2028and 日本."},
    ]
    parts = [{"role": "user", "content": [{"type": "text", "text": "One, "}, {"type": "text", "text": "two."}]}]
    lines = [{"messages": agent, "custom_id": "x"}, "", "  ", {"messages": parts}]
    first, second = read_prompts(written(tmp_path, *lines))
    assert messages(first) == agent
    assert messages(second) == [{"role": "user", "content": "One, two."}]
    assert Conversation.model_validate_json(first.model_dump_json()) == first


def test_recorded_answers_at_the_end_are_what_is_generated(tmp_path: Path) -> None:
    answer = {"role": "assistant", "content": "Because."}
    (one,) = read_prompts(written(tmp_path, {"messages": [ASK, answer, ASK, answer, answer]}))
    assert messages(one) == [ASK, answer, ASK]


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ('{"messages": [', "no JSON"),
        ("[]", "no `messages`"),
        ({"prompt": "Why?"}, "no `messages`"),
        ({"messages": []}, "no `messages`"),
        ({"messages": "Why?"}, "messages"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages.0.role"),
        ({"messages": [ASK, {"role": "user"}]}, "messages.1: a message needs content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, "no images"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages.0.content"),
        ({"messages": [{"role": "system", "content": "Be brief."}]}, "no message of the role user"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, bad: Any, told: str) -> None:
    path = written(tmp_path, {"messages": [ASK]}, "", bad)
    with pytest.raises(BadInput) as caught:
        read_prompts(path)
    assert told in caught.value.what
    assert caught.value.where == f"{path}, line 3"


def test_a_file_without_prompts(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="empty"):
        read_prompts(written(tmp_path, "", " "))
    with pytest.raises(MissingFile):
        read_prompts(tmp_path / "none.jsonl")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(MissingFile):
        read_prompts(tmp_path / "bytes")


def test_the_prefix_stands_first_whatever_the_chat_begins_with() -> None:
    """Otherwise the prompts of a depth would share no cache."""
    later = {"role": "assistant", "content": "Yes."}
    for chat, expected in (
        ([ASK], "PREFIX\n\nWhy?"),
        ([{"role": "system", "content": "Be brief."}, ASK], "PREFIX\n\nBe brief.\n\nWhy?"),
        ([{"role": "developer", "content": "A"}, {"role": "system", "content": "B"}, ASK], "PREFIX\n\nA\n\nB\n\nWhy?"),
    ):
        first, *rest = Conversation(messages=[*chat, later, ASK]).behind("PREFIX")  # type: ignore[arg-type]
        assert first == {"role": "user", "content": expected}
        assert rest == [later, ASK]
    begun = Conversation(messages=[later, ASK])  # type: ignore[arg-type]
    assert begun.behind("PREFIX") == [{"role": "user", "content": "PREFIX"}, later, ASK]


def test_its_length_is_estimated_from_above() -> None:
    english = Conversation(messages=[{"role": "user", "content": "some plain words here " * 100}])  # type: ignore[list-item]
    chinese = Conversation(messages=[{"role": "user", "content": "春江水暖" * 100}])  # type: ignore[list-item]
    assert 400 < english.tokens_at_most < 1200
    assert 400 <= chinese.tokens_at_most < 600
