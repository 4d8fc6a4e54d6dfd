"""The cross-check: the client's own clock beside the engine's timings.

The engine's timings are what is reported, since they hold no network and no Python. Where a user's clock says something
else by more than a few per cent, the figure is not what a user gets: that is shown, with its likely cause.
"""

from __future__ import annotations

from collections.abc import Sequence

from tuner.domain.measurement import CellResult

_SHARE = 0.05
"""What two clocks may differ by."""
_LEAST_MS = 25.0
"""What one request may take longer for this client without meaning anything: Python's own work, a busy scheduler."""
_OVERLAP = 0.9
"""Streams begin and end a few tokens apart, so that together they are always a little slower than their sum."""


def disagreements(cells: Sequence[CellResult]) -> list[str]:
    """In which cells the client's clock and the engine's timings disagree, and why most likely, in words."""
    told = []
    for result in cells:
        checks = (_streams,) if result.cell.streams > 1 else (_decode, _first_token)
        told += [f"{result.cell.name}: {words}" for check in checks if (words := check(result)) is not None]
    return told


def _decode(result: CellResult) -> str | None:
    engine, client = result.decode_tps, result.client_decode_tps
    if not engine or not client or not result.prompt_tokens or result.generated_tokens is None:
        return None
    tokens = result.generated_tokens / len(result.prompt_tokens) - 1
    if not _differ(1000 * tokens / engine, 1000 * tokens / client):
        return None
    both = f"decode is {engine:.1f} t/s by the engine's timings and {client:.1f} t/s by the client's clock"
    if client < engine:
        return (
            f"{both}: tokens reached the client late; another program most likely kept the processor from the client "
            "or from the server's own answering"
        )
    if result.acceptance_length is not None:
        return f"{both}: the first tokens came late and in one burst, as those of a verification do"
    return f"{both}: tokens were held back and came in bursts, or the engine's timing holds more than its decoding"


def _first_token(result: CellResult) -> str | None:
    """Only a cold first token: a warm one is mostly overhead."""
    if result.ttft_ms is None or not result.prefill_tps or not result.prompt_tokens:
        return None
    engine_ms = 1000 * result.prompt_tokens[0] / result.prefill_tps
    if not _differ(engine_ms, result.ttft_ms):
        return None
    both = f"the cold prefill took {engine_ms:.0f} ms by the engine's timings, the first token {result.ttft_ms:.0f} ms"
    if result.ttft_ms < engine_ms:
        return f"{both}: the engine's timing holds more than this prompt"
    return f"{both}: the request waited before or after it, for its tokenizing, a slot, or the first verification"


def _streams(result: CellResult) -> str | None:
    together, apart = result.decode_tps, sum(result.stream_tps)
    if not together or not apart or together >= _OVERLAP * apart:
        return None
    return (
        f"the streams come to {together:.1f} t/s together by the client's clock, to {apart:.1f} t/s by the engine's "
        "timings of each: they did not decode at the same time; fewer slots than streams, or one was held up"
    )


def _differ(engine_ms: float, client_ms: float) -> bool:
    return abs(client_ms - engine_ms) > max(_SHARE * engine_ms, _LEAST_MS)
