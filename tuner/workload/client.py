"""What the workload needs of an engine, whatever its dialect."""

from __future__ import annotations

from typing import Protocol

from tuner.domain.measurement import RequestFailure, RequestTiming


class EngineClient(Protocol):
    """One running server, spoken to over HTTP. Every method may be called from several threads at once."""

    def render(self, message: str, opening: str) -> str:
        """The prompt text for one user message, as the server's chat template makes it, with the answer's opening."""

    def truncate(self, text: str, tokens: int) -> str:
        """The beginning of `text` that the server's own tokenizer counts as `tokens` tokens; all of it if shorter."""

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
    ) -> RequestTiming | RequestFailure:
        """Streams one greedy completion of `predict_tokens` tokens, fewer if decoding takes longer than `limit_s`.

        Without `reuse_prefix` the whole prompt must be computed (a cold prefill). `slot` asks for a fixed slot, so
        that the next request finds its prefix there. `first_token_s` bounds the silence before the first token,
        `stall_s` that between two tokens. Whatever goes wrong is returned, not raised.
        """
