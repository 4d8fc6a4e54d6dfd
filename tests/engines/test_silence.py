"""A stream that falls silent is ended in time: before its first token, and between two, each by its own deadline."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tuner.domain.measurement import RequestFailure, RequestTiming
from tuner.engines.llama_server.client import LlamaServerClient

Script = Callable[[Callable[[str], None]], None]


def token(text: str, **more: object) -> str:
    event = {"content": text, "timings": {"cache_n": 0, "prompt_n": 1, "predicted_n": 1}, **more}
    return f"data: {json.dumps(event)}\n\n"


@contextmanager
def server(script: Script) -> Iterator[LlamaServerClient]:
    """A server that answers every completion as `script` says: it is given what sends a piece at once."""

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()

            def say(text: str) -> None:
                self.wfile.write(text.encode())
                self.wfile.flush()

            script(say)

        def log_message(self, *_: object) -> None:
            pass

    service = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    service.daemon_threads = True
    threading.Thread(target=service.serve_forever, daemon=True).start()
    client = LlamaServerClient(f"http://127.0.0.1:{service.server_address[1]}")
    try:
        yield client
    finally:
        client.close()
        service.shutdown()
        service.server_close()


def asked(
    client: LlamaServerClient, *, first_token_s: float, stall_s: float
) -> tuple[RequestTiming | RequestFailure, float]:
    started = time.monotonic()
    answer = client.generate(
        "x", predict_tokens=9, reuse_prefix=False, first_token_s=first_token_s, stall_s=stall_s, limit_s=60
    )
    return answer, time.monotonic() - started


def test_silence_after_the_first_token_does_not_wait_for_the_first_ones_deadline() -> None:
    def script(say: Callable[[str], None]) -> None:
        say(token("a"))
        time.sleep(30)

    with server(script) as client:
        answer, took = asked(client, first_token_s=30, stall_s=0.3)
    assert isinstance(answer, RequestFailure)
    assert answer.kind == "stalled"
    assert "after 1 tokens" in answer.detail
    assert took < 10


def test_the_first_token_may_take_longer_than_the_ones_that_follow() -> None:
    def script(say: Callable[[str], None]) -> None:
        time.sleep(1.2)
        say(token("a"))
        say(token("b", stop=True))

    with server(script) as client:
        answer, _ = asked(client, first_token_s=20, stall_s=0.3)
    assert isinstance(answer, RequestTiming)
    assert answer.text == "ab"


def test_headers_alone_are_no_first_token() -> None:
    with server(lambda _: time.sleep(30)) as client:
        answer, took = asked(client, first_token_s=0.5, stall_s=20)
    assert isinstance(answer, RequestFailure)
    assert answer.kind == "no_first_token"
    assert took < 10


def test_a_server_that_only_keeps_the_line_warm_is_silent() -> None:
    """Newer builds send comments while they compute, so that proxies do not hang up."""

    def script(say: Callable[[str], None]) -> None:
        say(token("a"))
        for _ in range(100):
            time.sleep(0.1)
            say(": ping\n\n")

    with server(script) as client:
        answer, took = asked(client, first_token_s=30, stall_s=0.5)
    assert isinstance(answer, RequestFailure)
    assert answer.kind == "stalled"
    assert took < 8


def test_a_server_that_hangs_up_is_no_silent_one() -> None:
    with server(lambda say: say(token("a"))) as client:
        answer, _ = asked(client, first_token_s=30, stall_s=30)
    assert isinstance(answer, RequestFailure)
    assert answer.kind == "connection_lost"


def test_nothing_of_a_watch_is_left() -> None:
    with server(lambda say: say(token("a", stop=True))) as client:
        before = threading.active_count()
        for _ in range(5):
            asked(client, first_token_s=30, stall_s=30)
        deadline = time.monotonic() + 5
        while threading.active_count() > before and time.monotonic() < deadline:
            time.sleep(0.05)
        assert threading.active_count() <= before
