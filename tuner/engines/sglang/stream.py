"""One streamed answer of `/generate`, from its events to a timing.

Text and token numbers of an event are all that was generated so far; with `--incremental-streaming-output` they are
what is new. Latencies come in the last event only, and only from a server with `--enable-metrics`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from tuner.domain.measurement import RequestFailure, RequestTiming
from tuner.engines.http import KEPT_TEXT, AnswerStream
from tuner.engines.sglang.acceptance import draft_tokens


@dataclass
class Stream(AnswerStream):
    """What has arrived of one answer."""

    asked_tokens: int = 0
    """How many tokens were asked for: a pool that is too small cuts the answer and says nothing."""
    drafts_a_verification: int | None = None
    tokens: int = 0
    text: str = ""
    meta: dict[str, Any] = field(default_factory=dict)
    cut_off: bool = False

    def take(self, event: dict[str, Any]) -> None:
        """One event, at the moment it arrived."""
        now = time.perf_counter()
        self.meta.update(event.get("meta_info") or {})
        text = str(event.get("text") or "")
        tokens = int(self.meta.get("completion_tokens") or 0)
        ids = event.get("output_ids")
        is_new_only = ids is not None and len(ids) < tokens
        self.text = self.text + text if is_new_only else text
        if tokens > self.tokens:
            if self.first is None:
                self.first = now
            elif self.last is not None:
                self.gaps.append(now - self.last)
            self.tokens, self.last = tokens, now

    def arrived(self) -> int:
        """Tokens so far."""
        return self.tokens

    def cut(self) -> None:
        """See `AnswerStream.cut`."""
        self.cut_off = True

    def timing(self) -> RequestTiming | RequestFailure:
        """The figures of an answer that came to its end, or was cut off on purpose."""
        finish = self.meta.get("finish_reason") or {}
        if finish.get("type") == "abort":
            return refusal(int(finish.get("status_code") or 200), str(finish.get("message") or "aborted"))
        if self.first is None or self.last is None or not (finish or self.cut_off):
            return RequestFailure(kind="connection_lost", detail="the stream ended before the answer did")
        drafted, accepted = draft_tokens(self.meta, self.drafts_a_verification)
        reason = "cut off" if self.cut_off else str(finish.get("type"))
        if reason == "length" and self.tokens < self.asked_tokens:
            reason = "truncated"
        return RequestTiming(
            prompt_tokens=int(self.meta.get("prompt_tokens") or 0),
            cached_tokens=self.meta.get("cached_tokens"),
            completion_tokens=self.tokens,
            prefill_ms=1000 * self._prefill_s(),
            decode_ms=1000 * self._decode_s(),
            draft_tokens=drafted,
            accepted_tokens=accepted,
            ttft_ms=1000 * (self.first - self.started),
            total_ms=1000 * (self.last - self.started),
            gaps_ms=tuple(round(1000 * gap, 3) for gap in self.gaps),
            finish_reason=reason,
            text=self.text[:KEPT_TEXT],
        )

    def _prefill_s(self) -> float:
        """The scheduler's own time for the prompt; where it does not tell, until the first token was there.

        A build without such figures leaves the client's clock as the only one.
        """
        begun, ended = self.meta.get("forward_entry_time"), self.meta.get("prefill_finished_time")
        if begun and ended and ended > begun:
            return float(ended - begun)
        waited = float(self.meta.get("queue_time") or 0.0)
        told = self.meta.get("first_token_latency")
        assert self.first is not None
        return max(float(told) - waited, 1e-6) if told else self.first - self.started

    def _decode_s(self) -> float:
        whole, first = self.meta.get("e2e_latency"), self.meta.get("first_token_latency")
        if whole and first and not self.cut_off:
            return float(whole - first)
        return self.decoding_s()


def refusal(status: int, message: str) -> RequestFailure:
    """Why a request was turned away. Status and place differ between builds and routes: the words decide."""
    told = f"HTTP {status}: {message}"
    if "longer than the model's context length" in message or "maximum context length" in message:
        return RequestFailure(kind="context_exceeded", detail=f"{told} (a larger --context-length)")
    if "exceeds the maximum allowed length" in message:
        repair = "the KV pool is too small for it: a larger --mem-fraction-static or a smaller --kv-cache-dtype"
        return RequestFailure(kind="context_exceeded", detail=f"{told} ({repair})")
    return RequestFailure(kind="refused", detail=told)
