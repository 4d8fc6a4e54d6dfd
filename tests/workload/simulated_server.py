"""A server without a process: it answers at once with the timings that a test wants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tuner.domain.measurement import RequestFailure, RequestTiming
from tuner.domain.quality import Reply


@dataclass(frozen=True)
class Asked:
    """One request as the server got it."""

    prompt: str
    predict_tokens: int
    reuse_prefix: bool
    slot: int | None


@dataclass
class SimulatedServer:
    """An `EngineClient`. `speed` gives the decode speed in tokens a second of the n-th request, counted from 0."""

    speed: Callable[[int, Asked], float]
    prefill_tps: float = 1000.0
    asked: list[Asked] = field(default_factory=list)

    def render(self, message: str, opening: str) -> str:
        return f"{message}\n{opening}"

    def truncate(self, text: str, tokens: int) -> str:
        return " ".join(text.split(" ")[:tokens])

    def answer(self, prompt: str, **_: object) -> Reply | RequestFailure:  # noqa: ARG002
        return RequestFailure(kind="refused", detail="this server only generates")

    def generate(
        self,
        prompt: str,
        *,
        predict_tokens: int,
        reuse_prefix: bool,
        first_token_s: float,  # noqa: ARG002
        stall_s: float,  # noqa: ARG002
        limit_s: float,  # noqa: ARG002
        slot: int | None = None,
        **_: object,
    ) -> RequestTiming | RequestFailure:
        asked = Asked(prompt, predict_tokens, reuse_prefix, slot)
        decode_tps = self.speed(len(self.asked), asked)
        self.asked.append(asked)
        tokens = len(prompt.split())
        cached = tokens - 10 if reuse_prefix else 0
        prefill_ms = 1000 * (tokens - cached) / self.prefill_tps
        decode_ms = 1000 * (predict_tokens - 1) / decode_tps
        return RequestTiming(
            prompt_tokens=tokens,
            cached_tokens=cached,
            completion_tokens=predict_tokens,
            prefill_ms=prefill_ms,
            decode_ms=decode_ms,
            ttft_ms=prefill_ms,
            total_ms=prefill_ms + decode_ms,
        )
