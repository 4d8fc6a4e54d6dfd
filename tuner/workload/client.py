"""What the workload needs of an engine, whatever its dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tuner.domain.measurement import RequestFailure, RequestTiming
from tuner.domain.quality import Reply
from tuner.domain.sampling import GREEDY, Sampling


class EngineClient(Protocol):
    """One running server, spoken to over HTTP. Every method may be called from several threads at once."""

    def render(self, message: str | Sequence[Mapping[str, Any]], opening: str) -> str:
        """The prompt text for a user's message, as the server's chat template makes it, with the answer's opening.

        Instead of one message a whole chat may be given, as in OpenAI's API. A server without a template gets the
        texts alone.
        """

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
        sampling: Sampling = GREEDY,
    ) -> RequestTiming | RequestFailure:
        """Streams one completion of `predict_tokens` tokens, fewer if decoding takes longer than `limit_s`.

        Every token counts, also one that a chat route would hide or set apart, such as a model's thinking.

        Without `reuse_prefix` the whole prompt must be computed (a cold prefill). `slot` asks for a fixed slot, so
        that the next request finds its prefix there. `first_token_s` bounds the silence before the first token,
        `stall_s` that between two tokens. Whatever goes wrong is returned, not raised.
        """

    def answer(
        self, prompt: str, *, predict_tokens: int, top_tokens: int, limit_s: float, slot: int | None = None
    ) -> Reply | RequestFailure:
        """A short greedy answer, with the `top_tokens` most probable first tokens and their log probabilities.

        The probabilities are those before sampling, over the whole vocabulary. An engine that cannot tell them leaves
        them out (None) and still answers. Whatever of the prompt is in the cache is taken from there. `limit_s` bounds
        the whole answer. Whatever goes wrong is returned, not raised.
        """
