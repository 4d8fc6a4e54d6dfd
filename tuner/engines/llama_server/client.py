"""llama-server over HTTP: readiness, what it runs with, and one streamed completion.

Shapes as in llama.cpp's tools/server/README.md, seen on builds b9093 to b11434.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from tuner.domain.measurement import RequestFailure, RequestTiming
from tuner.domain.quality import Reply
from tuner.domain.sampling import GREEDY, Sampling
from tuner.engines.http import KEPT_TEXT, AnswerStream, answered, connection, get_json, streamed


class LlamaServerClient:
    """Speaks to one server. Thread-safe, as httpx's client is."""

    def __init__(self, base_url: str) -> None:
        self._http = connection(base_url)

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def is_ready(self) -> bool:
        """Whether the model is loaded. False while nothing listens yet."""
        try:
            return self._http.get("/health", timeout=2.0).status_code == 200
        except httpx.HTTPError:
            return False

    def alias(self) -> str | None:
        """The model alias that the server reports: tells the server just started from a stale one on the port."""
        models = self._get("/v1/models")
        data = models.get("data") if isinstance(models, dict) else None
        return str(data[0].get("id")) if data else None

    def context_and_slots(self) -> tuple[int | None, int | None, bool | None]:
        """Context of one slot in tokens, number of slots, and whether speculation is on; None for what is not told."""
        props = self._get("/props")
        settings = props.get("default_generation_settings", {}) if isinstance(props, dict) else {}
        slots = self._get("/slots")
        speculative = [slot.get("speculative") for slot in slots if isinstance(slot, dict)] if slots else []
        known = [flag for flag in speculative if flag is not None]
        return (
            settings.get("n_ctx"),
            props.get("total_slots") if isinstance(props, dict) else None,
            any(known) if known else None,
        )

    def render(self, message: str | Sequence[Mapping[str, Any]], opening: str) -> str:
        """The chat template's prompt; the bare texts where the server has no template, or one that refuses the chat."""
        messages = [{"role": "user", "content": message}] if isinstance(message, str) else list(message)
        try:
            reply = self._http.post("/apply-template", json={"messages": messages})
            prompt = str(reply.raise_for_status().json()["prompt"])
        except (httpx.HTTPError, KeyError, ValueError):
            prompt = "\n\n".join(str(each["content"]) for each in messages if each.get("content")) + "\n"
        return prompt + opening

    def truncate(self, text: str, tokens: int) -> str:
        """The first `tokens` tokens of `text`, by the server's own tokenizer; all of it where it cannot say."""
        try:
            ids = self._http.post("/tokenize", json={"content": text}, timeout=60.0).raise_for_status().json()["tokens"]
            if len(ids) <= tokens:
                return text
            reply = self._http.post("/detokenize", json={"tokens": ids[:tokens]}, timeout=60.0).raise_for_status()
            # A cut inside a character leaves its first bytes: they would be another token.
            return str(reply.json()["content"]).rstrip("\N{REPLACEMENT CHARACTER}")
        except (httpx.HTTPError, KeyError, ValueError):
            return text

    def generate(
        self,
        prompt: str,
        *,
        predict_tokens: int,
        reuse_prefix: bool,
        first_token_s: float,
        stall_s: float,
        limit_s: float,
        slot: int | None = None,
        sampling: Sampling = GREEDY,
    ) -> RequestTiming | RequestFailure:
        """See `tuner.workload.client.EngineClient`."""
        body: dict[str, Any] = {
            "prompt": prompt,
            "n_predict": predict_tokens,
            "ignore_eos": True,
            "temperature": 0.0,
            "seed": 1,
            **sampling.given(),
            "stream": True,
            "cache_prompt": reuse_prefix,
            # Every event then carries the engine's timings: a request that is cut off has them too.
            "timings_per_token": True,
        }
        if slot is not None:
            body["id_slot"] = slot
        return streamed(
            self._http, "/completion", body, _Stream(time.perf_counter()), _refusal,
            first_token_s=first_token_s, stall_s=stall_s, limit_s=limit_s,
        )  # fmt: skip

    def answer(
        self, prompt: str, *, predict_tokens: int, top_tokens: int, limit_s: float, slot: int | None = None
    ) -> Reply | RequestFailure:
        """See `tuner.workload.client.EngineClient`."""
        body: dict[str, Any] = {
            "prompt": prompt,
            "n_predict": predict_tokens,
            # An answer that ends before it begins would have no first token.
            "ignore_eos": True,
            "temperature": 0.0,
            "seed": 1,
            "cache_prompt": True,
            "n_probs": top_tokens,
        }
        if slot is not None:
            body["id_slot"] = slot
        found = answered(self._http, "/completion", body, _refusal, text_key="content", limit_s=limit_s)
        if isinstance(found, RequestFailure):
            return found
        told, total_ms = found
        timings = told.get("timings", {})
        cached, computed = timings.get("cache_n"), timings.get("prompt_n")
        return Reply(
            text=told["content"],
            first_token=_first_token(told.get("completion_probabilities")),
            prompt_tokens=None if computed is None else computed + (cached or 0),
            cached_tokens=cached,
            total_ms=total_ms,
        )

    def _get(self, path: str) -> Any:
        return get_json(self._http, path)


@dataclass
class _Stream(AnswerStream):
    text: list[str] = field(default_factory=list)
    timings: dict[str, Any] = field(default_factory=dict)
    finish_reason: str | None = None

    def take(self, event: dict[str, Any]) -> None:
        before, self.last = self.last, time.perf_counter()
        if event.get("content") or event.get("tokens"):
            # A special token, such as one that opens a model's thinking, has no text: it is a token all the same.
            if self.first is None:
                self.first = self.last
            elif before is not None:
                self.gaps.append(self.last - before)
            self.text.append(event.get("content", ""))
        self.timings = event.get("timings", self.timings)
        if event.get("stop"):
            self.finish_reason = "truncated" if event.get("truncated") else event.get("stop_type", "stop")

    def arrived(self) -> int:
        return len(self.text)

    def cut(self) -> None:
        self.finish_reason = "cut off"

    def timing(self) -> RequestTiming | RequestFailure:
        if self.last is None or self.first is None or self.finish_reason is None:
            return RequestFailure(kind="connection_lost", detail="the stream ended before the answer did")
        timings = self.timings
        cached = timings.get("cache_n")
        computed = timings.get("prompt_n")
        return RequestTiming(
            prompt_tokens=(computed or 0) + (cached or 0),
            cached_tokens=cached,
            completion_tokens=timings.get("predicted_n", len(self.text)),
            prefill_ms=timings.get("prompt_ms"),
            decode_ms=timings.get("predicted_ms"),
            draft_tokens=timings.get("draft_n"),
            accepted_tokens=timings.get("draft_n_accepted"),
            ttft_ms=1000 * (self.first - self.started),
            total_ms=1000 * (self.last - self.started),
            gaps_ms=tuple(round(1000 * gap, 3) for gap in self.gaps),
            finish_reason=self.finish_reason,
            text="".join(self.text)[:KEPT_TEXT],
        )


def _first_token(probabilities: Any) -> dict[int, float] | None:
    """Token -> log probability at the answer's first place; tokens that have none are left out."""
    if not probabilities:
        return None
    top = probabilities[0].get("top_logprobs") or []
    return {entry["id"]: entry["logprob"] for entry in top if entry.get("logprob") is not None} or None


def _refusal(status: int, body: bytes) -> RequestFailure:
    """Why a request was turned away. Builds differ in how they refuse a prompt that is too long: the words decide."""
    try:
        error = json.loads(body)["error"]
        message, kind = str(error.get("message", error)), str(error.get("type", ""))
    except (ValueError, KeyError, AttributeError, TypeError):
        message, kind = body[:300].decode(errors="replace"), ""
    exceeded = kind == "exceed_context_size_error" or "exceeds the available context size" in message
    return RequestFailure(kind="context_exceeded" if exceeded else "refused", detail=f"HTTP {status}: {message}")
