"""What a cell's requests say beside its speed."""

from __future__ import annotations

from typing import Any

import pytest

from tuner.domain.measurement import CellResult, RequestTiming
from tuner.domain.workload import Cell, Content
from tuner.workload.figures import with_figures


def timing(**changes: Any) -> RequestTiming:
    values: dict[str, Any] = {
        "prompt_tokens": 600, "cached_tokens": 0, "completion_tokens": 100, "prefill_ms": 900.0, "decode_ms": 990.0,
        "ttft_ms": 1000.0, "total_ms": 2000.0, "finish_reason": "limit",
    }  # fmt: skip
    return RequestTiming(**values | changes)


def figures(*timings: RequestTiming, streams: int = 1) -> CellResult:
    cell = Cell(content=Content.CODE, depth=512, streams=streams)
    return with_figures(CellResult(cell=cell, decode_tps=100.0), timings)


def test_warm_is_only_what_the_engine_proves_to_be_cached() -> None:
    cold, warm = timing(), timing(cached_tokens=510, ttft_ms=50.0)
    assert figures(cold, warm, timing(cached_tokens=512, ttft_ms=70.0)).warm_ttft_ms == 60.0
    for unproven in (None, 0, 200):
        assert figures(cold, timing(cached_tokens=unproven, ttft_ms=50.0)).warm_ttft_ms is None
    assert figures(warm, warm, streams=2).warm_ttft_ms is None, "streams wait for each other"


def test_the_time_between_tokens_is_one_that_was_seen() -> None:
    steady = figures(timing(gaps_ms=tuple(float(i) for i in range(1, 11))), timing(gaps_ms=tuple([10.0] * 10)))
    assert (steady.inter_token_p50_ms, steady.inter_token_p95_ms) == (10.0, 10.0)
    bursts = figures(timing(gaps_ms=(0.0, 0.0, 30.0) * 20))
    assert (bursts.inter_token_p50_ms, bursts.inter_token_p95_ms) == (0.0, 30.0)
    none = figures(timing())
    assert (none.inter_token_p50_ms, none.inter_token_p95_ms) == (None, None)


def test_acceptance_is_counted_over_all_requests_that_drafted() -> None:
    plain = figures(timing(), timing())
    assert (plain.acceptance_rate, plain.acceptance_length) == (None, None)
    drafting = figures(timing(draft_tokens=90, accepted_tokens=50), timing(draft_tokens=60, accepted_tokens=25))
    assert drafting.acceptance_rate == 0.5
    assert drafting.acceptance_length == pytest.approx(200 / 125)
    useless = figures(timing(draft_tokens=90, accepted_tokens=0))
    assert (useless.acceptance_rate, useless.acceptance_length) == (0.0, 1.0)


def test_streams_keep_their_own_speeds() -> None:
    both = figures(timing(decode_ms=990.0), timing(decode_ms=1980.0), streams=2)
    assert both.stream_tps == (100.0, 50.0)
    assert both.stream_spread == pytest.approx(50 / 75)
    one = figures(timing())
    assert (one.stream_tps, one.stream_spread) == ((), None)


def test_every_request_tells_its_prompt_and_its_end() -> None:
    told = figures(timing(), timing(prompt_tokens=610, cached_tokens=512, finish_reason="cut off"))
    assert told.prompt_tokens == (600, 610)
    assert told.cached_tokens == (0, 512)
    assert told.finish_reasons == ("limit", "cut off")
