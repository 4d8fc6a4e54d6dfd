"""Draft counters in the spellings of several builds."""

from __future__ import annotations

import pytest

from tuner.engines.sglang.acceptance import draft_tokens


@pytest.mark.parametrize(
    "meta",
    [
        {"spec_verify_ct": 30, "spec_num_proposed_drafts": 90, "spec_num_correct_drafts": 69},
        {"spec_verify_ct": 30, "spec_draft_token_num": 90, "spec_accept_token_num": 69},
        {"spec_verify_ct": 30, "spec_draft_token_num": 120, "spec_accept_token_num": 69},
        {"spec_verify_ct": 30, "completion_tokens": 100},
        {"spec_verify_ct": 30, "completion_tokens": 100, "spec_accept_rate": 0.77},
    ],
    ids=["newest", "before", "with the certain token", "verifications alone", "with a rate"],
)
def test_every_spelling_gives_the_same(meta: dict[str, float]) -> None:
    assert draft_tokens(meta, 3) == (90, 69)


def test_without_speculation_nothing_is_known() -> None:
    assert draft_tokens({"completion_tokens": 100}, None) == (None, None)
    assert draft_tokens({"completion_tokens": 100, "spec_verify_ct": 0}, None) == (None, None)


def test_a_rate_alone_gives_the_drafts() -> None:
    meta = {"spec_verify_ct": 50, "completion_tokens": 101, "spec_accept_rate": 0.5}
    assert draft_tokens(meta, None) == (100, 50)
