"""SGLang over HTTP: readiness, what it runs with, and one streamed answer.

Shapes as in SGLang's docs on its native API and in its own code, seen on 0.5.23.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from tuner.domain.measurement import RequestFailure, RequestTiming
from tuner.domain.quality import Reply
from tuner.domain.sampling import GREEDY, Sampling
from tuner.engines.http import answered, connection, get_json, streamed
from tuner.engines.sglang.stream import Stream, refusal

_FIRST_ANSWER_S = 30.0
"""How long the generation that proves readiness may take before it is asked again: the first one compiles kernels."""
_FLUSH_S = 10.0
"""How long a cache that is still in use is asked to be emptied. A request that was cut off ends a moment later."""
_SAMPLING_NAMES = {"repeat_penalty": "repetition_penalty", "seed": "sampling_seed"}
_SERVER_INFO = ("/server_info", "/get_server_info")
"""The present name and the one of older builds."""


class SglangClient:
    """Speaks to one server. Thread-safe, as httpx's client is."""

    def __init__(self, base_url: str) -> None:
        self._http = connection(base_url)
        self._answered = False
        self._drafts: int | None = None

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def is_ready(self) -> bool:
        """Whether it has generated a token. `/health` can be green while a rank is dead. False until then."""
        try:
            healthy = self._http.get("/health", timeout=5.0).status_code == 200
            if healthy and not self._answered:
                body = {"text": "1, 2,", "sampling_params": {"max_new_tokens": 1, "temperature": 0.0}}
                answer = self._http.post("/generate", json=body, timeout=_FIRST_ANSWER_S)
                self._answered = answer.status_code == 200 and "meta_info" in answer.json()
                if self._answered:
                    self._drafts = drafts_a_verification(self.server_info())
            return healthy and self._answered
        except (httpx.HTTPError, ValueError):
            return False

    def alias(self) -> str | None:
        """The name that the server serves its model under: tells the one just started from a stale one on the port."""
        models = self._models()
        return str(models[0]["id"]) if models else None

    def context_length(self) -> int | None:
        """What the server takes the model's context to be, in tokens; None where it does not say."""
        told = self._models()[0].get("max_model_len") if self._models() else None
        return told if isinstance(told, int) else None

    def server_info(self) -> dict[str, Any]:
        """All arguments as they were resolved, and the state of the schedulers; empty where there is no such page."""
        for path in _SERVER_INFO:
            info = self._get(path)
            if isinstance(info, dict):
                return info
        return {}

    def render(self, message: str | Sequence[Mapping[str, Any]], opening: str) -> str:
        """The chat template's prompt; the bare texts where the server has no template or cannot apply it apart.

        SGLang has no route that gives the text, but one that gives a chat's tokens, which are turned back.
        """
        messages = [{"role": "user", "content": message}] if isinstance(message, str) else list(message)
        try:
            reply = self._http.post("/tokenize", json={"messages": messages}, timeout=60.0)
            prompt = self._text_of(reply.raise_for_status().json()["tokens"])
        except (httpx.HTTPError, KeyError, ValueError, TypeError):
            prompt = "\n\n".join(str(each["content"]) for each in messages if each.get("content")) + "\n"
        return prompt + opening

    def truncate(self, text: str, tokens: int) -> str:
        """The first `tokens` tokens of `text`, by the server's own tokenizer.

        A build without a route for that is asked how many tokens a text has, and cut in proportion.
        """
        try:
            body = {"prompt": text, "add_special_tokens": False}
            ids = self._http.post("/tokenize", json=body, timeout=60.0).raise_for_status().json()["tokens"]
            if len(ids) <= tokens:
                return text
            # A cut inside a character leaves its first bytes: they would be another token.
            return self._text_of(ids[:tokens]).rstrip("\N{REPLACEMENT CHARACTER}")
        except (httpx.HTTPError, KeyError, ValueError, TypeError):
            return self._cut_in_proportion(text, tokens)

    def generate(
        self,
        prompt: str,
        *,
        predict_tokens: int,
        reuse_prefix: bool,
        first_token_s: float,
        stall_s: float,
        limit_s: float,
        slot: int | None = None,  # noqa: ARG002 - one pool serves all requests, whoever asks
        sampling: Sampling = GREEDY,
    ) -> RequestTiming | RequestFailure:
        """See `tuner.workload.client.EngineClient`. There are no slots: a prefix is found wherever it lies."""
        if not reuse_prefix and (failure := self._flush_cache()) is not None:
            return failure
        said = {_SAMPLING_NAMES.get(name, name): value for name, value in sampling.given().items()}
        if said.get("top_k") == 0:
            said["top_k"] = -1  # both stand for all tokens
        body = {
            "text": prompt,
            "sampling_params": {
                "max_new_tokens": predict_tokens, "ignore_eos": True, "temperature": 0.0, **said,
            },
            "stream": True,
        }  # fmt: skip
        stream = Stream(time.perf_counter(), asked_tokens=predict_tokens, drafts_a_verification=self._drafts)
        return streamed(
            self._http, "/generate", body, stream, _refused,
            first_token_s=first_token_s, stall_s=stall_s, limit_s=limit_s,
        )  # fmt: skip

    def answer(
        self,
        prompt: str,
        *,
        predict_tokens: int,
        top_tokens: int,
        limit_s: float,
        slot: int | None = None,  # noqa: ARG002 - as above
    ) -> Reply | RequestFailure:
        """See `tuner.workload.client.EngineClient`."""
        body = {
            "text": prompt,
            # An answer that ends before it begins would have no first token.
            "sampling_params": {"max_new_tokens": predict_tokens, "temperature": 0.0, "ignore_eos": True},
            "return_logprob": True,
            "top_logprobs_num": top_tokens,
        }
        found = answered(self._http, "/generate", body, _refused, text_key="text", limit_s=limit_s)
        if isinstance(found, RequestFailure):
            return found
        told, total_ms = found
        meta = told.get("meta_info") or {}
        return Reply(
            text=told["text"],
            first_token=_first_token(meta.get("output_top_logprobs")),
            prompt_tokens=meta.get("prompt_tokens"),
            cached_tokens=meta.get("cached_tokens"),
            total_ms=total_ms,
        )

    def _flush_cache(self) -> RequestFailure | None:
        """Empties the prefix cache, which is refused while a request runs; why it could not be, or None."""
        deadline = time.monotonic() + _FLUSH_S
        while True:
            try:
                reply = self._http.post("/flush_cache", timeout=_FLUSH_S)
            except httpx.HTTPError as error:
                return RequestFailure(kind="connection_lost", detail=str(error) or type(error).__name__)
            if reply.status_code == 200:
                return None
            if time.monotonic() > deadline:
                return RequestFailure(
                    kind="refused", detail=f"HTTP {reply.status_code}: the prefix cache could not be emptied"
                )
            time.sleep(0.1)

    def _text_of(self, ids: Sequence[int]) -> str:
        body = {"tokens": list(ids), "skip_special_tokens": False}
        return str(self._http.post("/detokenize", json=body, timeout=60.0).raise_for_status().json()["text"])

    def _cut_in_proportion(self, text: str, tokens: int) -> str:
        # No more than what surely holds enough: a whole document may not fit the context.
        text = text[: 8 * tokens]
        body = {"text": text, "sampling_params": {"max_new_tokens": 1, "temperature": 0.0}}
        try:
            reply = self._http.post("/generate", json=body, timeout=600.0)
            count = reply.raise_for_status().json()["meta_info"]["prompt_tokens"]
        except (httpx.HTTPError, KeyError, ValueError, TypeError):
            return text[: 4 * tokens]
        return text if count <= tokens else text[: len(text) * tokens // count]

    def _models(self) -> list[dict[str, Any]]:
        models = self._get("/v1/models")
        data = models.get("data") if isinstance(models, dict) else None
        return data or []

    def _get(self, path: str) -> Any:
        return get_json(self._http, path)


def drafts_a_verification(info: Mapping[str, Any]) -> int | None:
    """Draft tokens that the server proposes at once; None without speculation.

    `speculative_num_draft_tokens` counts the token that every verification gives in any case.
    """
    told = info.get("speculative_num_draft_tokens")
    return told - 1 if isinstance(told, int) and told > 1 and info.get("speculative_algorithm") else None


def _first_token(tops: Any) -> dict[int, float] | None:
    """Token -> log probability at the answer's first place."""
    if not tops or not tops[0]:
        return None
    return {int(token): float(chance) for chance, token, *_ in tops[0]} or None


def _refused(status: int, body: bytes) -> RequestFailure:
    """The native route wraps its error in `error`, OpenAI's routes do not."""
    try:
        told = json.loads(body)
        error = told.get("error", told)
        message = str(error.get("message", error) if isinstance(error, dict) else error)
        status = error.get("code", status) if isinstance(error, dict) else status
    except (ValueError, AttributeError, TypeError):
        message = body[:300].decode(errors="replace")
    return refusal(int(status) if str(status).isdigit() else 200, message)
