"""How much of a text repeats itself."""

from __future__ import annotations

import pytest

from tuner.domain.workload import Content
from tuner.workload.loops import repeated_share
from tuner.workload.texts import document


@pytest.mark.parametrize(
    "phrase",
    ["the same thing again and again and again, ", "春江水暖，山月明。", "x = x + 1\n", "@@ #", '{"a": 1, "b": 2}, '],
)
def test_circles_are_seen_in_any_kind_of_text(phrase: str) -> None:
    share = repeated_share(phrase * 40)
    assert share is not None
    assert share > 0.7


@pytest.mark.parametrize("content", [content for content in Content if content is not Content.OWN])
def test_honest_text_hardly_repeats_itself(content: Content) -> None:
    text = ""
    for block in document(content, 3):
        text += block
        if len(text) > 2000:
            break
    share = repeated_share(text[:2000])
    assert share is not None
    assert share < 0.2


def test_a_text_that_ends_in_a_circle_is_between_the_two() -> None:
    honest = next(document(Content.PROSE_EN, 5))[:400]
    share = repeated_share(honest + " and so on and so forth, my dear friend," * 10)
    assert share is not None
    assert 0.3 < share < 0.7


@pytest.mark.parametrize("text", ["", "Yes.", "春天来了", "one two three four five six seven"])
def test_of_a_short_text_nothing_is_known(text: str) -> None:
    assert repeated_share(text) is None
