"""What the client sends, and what it makes of a stream of events: every token counts, whatever it is for."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import httpx

from tuner.domain.measurement import RequestFailure, RequestTiming
from tuner.domain.sampling import GREEDY, Sampling
from tuner.engines.llama_server.client import LlamaServerClient

Answer = Callable[[httpx.Request], httpx.Response]


class NoSocket:
    """What stands for the connection where there is none."""

    def get_extra_info(self, _: str) -> None:
        return None


def client(answer: Answer) -> LlamaServerClient:
    made = LlamaServerClient("http://server")
    made._http = httpx.Client(base_url="http://server", transport=httpx.MockTransport(answer))
    return made


def streamed(
    pieces: Sequence[dict[str, Any]], sent: list[dict[str, Any]] | None = None, **final: Any
) -> RequestTiming | RequestFailure:
    """One completion of which these are the events."""
    timings = {"cache_n": 100, "prompt_n": 20, "prompt_ms": 10.0, "predicted_n": len(pieces), "predicted_ms": 50.0}
    last = {"content": "", "tokens": [], "stop": True, "stop_type": "limit", "timings": timings} | final
    text = "".join(f"data: {json.dumps(event)}\n\n" for event in [*pieces, last])

    def answer(request: httpx.Request) -> httpx.Response:
        if sent is not None:
            sent.append(json.loads(request.content))
        return httpx.Response(200, text=text, extensions={"network_stream": NoSocket()})

    return ask(client(answer))


def ask(asked: LlamaServerClient, sampling: Sampling = GREEDY) -> RequestTiming | RequestFailure:
    return asked.generate(
        "Why?", predict_tokens=4, reuse_prefix=True, first_token_s=9, stall_s=9, limit_s=60, sampling=sampling
    )


def piece(content: str, token: int = 7) -> dict[str, Any]:
    return {"content": content, "tokens": [token], "stop": False}


def test_thinking_and_special_tokens_are_tokens() -> None:
    """A token that opens or closes the thinking has no text where special tokens are not printed."""
    timing = streamed([piece("", 106), piece("Let me"), piece(" think."), piece("", 107), piece("Seven.")])
    assert isinstance(timing, RequestTiming)
    assert timing.completion_tokens == 5
    assert len(timing.gaps_ms) == 4
    assert timing.text == "Let me think.Seven."
    assert timing.ttft_ms <= timing.total_ms


def test_the_first_token_counts_though_it_has_no_text() -> None:
    timing = streamed([piece("", 106)])
    assert isinstance(timing, RequestTiming)
    assert (timing.completion_tokens, timing.gaps_ms, timing.text) == (1, (), "")


def test_why_an_answer_ended() -> None:
    for final, reason in (({}, "limit"), ({"stop_type": "eos"}, "eos"), ({"truncated": True}, "truncated")):
        timing = streamed([piece("a"), piece("b")], **final)
        assert isinstance(timing, RequestTiming)
        assert timing.finish_reason == reason


def test_requests_are_greedy_unless_a_user_samples() -> None:
    sent: list[dict[str, Any]] = []
    streamed([piece("a")], sent)
    (greedy,) = sent
    assert greedy["temperature"] == 0
    assert greedy["ignore_eos"] is True
    assert not {"top_p", "top_k", "min_p"} & greedy.keys()

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        return httpx.Response(500)

    ask(client(answer), Sampling(temperature=0.7, top_p=0.95, seed=4))
    assert {**greedy, "temperature": 0.7, "top_p": 0.95, "seed": 4} == sent[1]


CHAT = [
    {"role": "user", "content": "Weather?"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "w", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "Rain."},
]


def test_a_chat_goes_through_the_servers_template_whole() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        assert request.url.path == "/apply-template"
        return httpx.Response(200, json={"prompt": json.dumps(body["messages"]) + "<think>\n"})

    assert client(answer).render(CHAT, "So") == json.dumps(CHAT) + "<think>\nSo"
    one = json.dumps([{"role": "user", "content": "Hello"}])
    assert client(answer).render("Hello", "") == one + "<think>\n"


def test_without_a_template_the_texts_alone_are_the_prompt() -> None:
    for reply in (httpx.Response(404), httpx.Response(500, json={"error": {"message": "roles must alternate"}})):
        assert client(lambda _, reply=reply: reply).render(CHAT, "It") == "Weather?\n\nRain.\nIt"  # type: ignore[misc]
        assert client(lambda _, reply=reply: reply).render("Hello", "It") == "Hello\nIt"  # type: ignore[misc]
