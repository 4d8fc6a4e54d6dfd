"""What the requests of a cell say beside its speed: acceptance, time between tokens, warm starts, how answers ended."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from tuner.domain.measurement import CellResult, RequestTiming


def with_figures(result: CellResult, timings: Sequence[RequestTiming]) -> CellResult:
    """A cell's result with the figures of its measured requests, in the order in which they were sent."""
    gaps = sorted(gap for timing in timings for gap in timing.gaps_ms)
    streams = result.cell.streams
    return result.model_copy(
        update={
            "warm_ttft_ms": _warm_ttft_ms(result, timings) if streams == 1 else None,
            "inter_token_p50_ms": _percentile(gaps, 0.50),
            "inter_token_p95_ms": _percentile(gaps, 0.95),
            "acceptance_rate": _acceptance_rate(timings),
            "acceptance_length": _acceptance_length(timings),
            "stream_tps": tuple(t.decode_tps for t in timings if t.decode_tps is not None) if streams > 1 else (),
            "prompt_tokens": tuple(timing.prompt_tokens for timing in timings),
            "cached_tokens": tuple(timing.cached_tokens for timing in timings),
            "finish_reasons": tuple(timing.finish_reason for timing in timings),
        }
    )


def _warm_ttft_ms(result: CellResult, timings: Sequence[RequestTiming]) -> float | None:
    """Median over the requests of which the prefix was cached; what is only partly cached is neither cold nor warm."""
    times = [timing.ttft_ms for timing in timings if (timing.cached_tokens or 0) >= 0.9 * result.cell.depth]
    return statistics.median(times) if times else None


def _percentile(ascending: Sequence[float], share: float) -> float | None:
    """The nearest-rank percentile: a value that was really seen."""
    return ascending[max(0, math.ceil(share * len(ascending)) - 1)] if ascending else None


def _acceptance_rate(timings: Sequence[RequestTiming]) -> float | None:
    drafted = sum(timing.draft_tokens or 0 for timing in timings)
    accepted = sum(timing.accepted_tokens or 0 for timing in timings)
    return accepted / drafted if drafted else None


def _acceptance_length(timings: Sequence[RequestTiming]) -> float | None:
    drafting = [timing for timing in timings if timing.draft_tokens]
    generated = sum(timing.completion_tokens for timing in drafting)
    verifications = generated - sum(timing.accepted_tokens or 0 for timing in drafting)
    return generated / verifications if verifications > 0 else None
