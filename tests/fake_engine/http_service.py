"""HTTP of the fake server: routes, plain and streamed answers, over HTTP/1.1 with chunked streams."""

from __future__ import annotations

import json
import os
import socketserver
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import shapes
import vocabulary
from rig import Measured
from slots import Generation, RequestRefused, Slots


@dataclass
class Model:
    """What the routes need of a loaded model."""

    aliases: list[str]
    path: str
    slots: Slots
    measured: Measured
    metrics: bool
    endpoint_slots: bool
    cache_prompt: bool


class Service(ThreadingHTTPServer):
    """Bound before the model is loaded; answers 503 until `model` is set."""

    daemon_threads = True
    request_queue_size = 128
    model: Model | None = None

    def __init__(self, host: str, port: int) -> None:
        super().__init__((host, port), Handler)

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(
            self
        )  # HTTPServer's own would look the host's name up, which can take seconds
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error of the server; anything else is, and is printed."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Service

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the log is the engine's."""

    def version_string(self) -> str:
        return "llama.cpp"

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def _answer(self, body: bytes | None) -> None:
        try:
            if self.server.model is None:
                raise RequestRefused(503, "unavailable_error", "Loading model")
            self._route(self.server.model, self.path.partition("?")[0], body)
        except RequestRefused as refused:
            self._send(refused.body, refused.status)
        except json.JSONDecodeError as problem:
            self._send(shapes.error(500, "server_error", f"[json.exception.parse_error.101] {problem}"), 500)

    def _route(self, model: Model, path: str, body: bytes | None) -> None:
        if body is None:
            self._get(model, path)
            return
        request = json.loads(body or b"{}")
        if path == "/tokenize":
            self._send(self._tokenize(request))
        elif path == "/detokenize":
            self._send({"content": vocabulary.decode(request.get("tokens", []))})
        elif path == "/apply-template":
            self._send({"prompt": shapes.chat_prompt(request["messages"])})
        elif path in ("/completion", "/completions"):
            self._completion(model, request)
        elif path in ("/v1/completions", "/v1/chat/completions", "/chat/completions"):
            self._openai(model, request, chat="chat" in path)
        else:
            raise RequestRefused(404, "not_found_error", "File Not Found")

    def _get(self, model: Model, path: str) -> None:
        if path in ("/health", "/v1/health"):
            self._send({"status": "ok"})
        elif path == "/props":
            self._send(shapes.props(model.aliases[0], model.path, model.slots, model.metrics, model.endpoint_slots))
        elif path == "/slots" and model.endpoint_slots:
            self._send(shapes.slot_list(model.slots, bool(model.measured.plan.spec)))
        elif path == "/metrics" and model.metrics:
            self._send_text(shapes.metrics(model.slots), "text/plain; version=0.0.4")
        elif path in ("/slots", "/metrics"):
            flag = path[1:]
            about = f"This server does not support {flag} endpoint. Start it with `--{flag}`"
            raise RequestRefused(501, "not_supported_error", about)
        elif path in ("/v1/models", "/models"):
            trained = model.measured.rig.model["trained_context"]
            self._send(shapes.models(model.aliases, model.slots.context, trained))
        else:
            raise RequestRefused(404, "not_found_error", "File Not Found")

    @staticmethod
    def _tokenize(request: dict[str, Any]) -> dict[str, Any]:
        tokens = vocabulary.encode(request.get("content", ""))
        if not request.get("with_pieces"):
            return {"tokens": tokens}
        return {"tokens": [{"id": token, "piece": vocabulary.decode([token])} for token in tokens]}

    def _task(self, model: Model, request: dict[str, Any], prompt: Any) -> Generation:
        if isinstance(prompt, list):
            if not all(map(vocabulary.is_token, prompt)):
                raise RequestRefused(400, "invalid_request_error", "Prompt contains invalid tokens")
            tokens, text = prompt, vocabulary.decode(prompt)
        else:
            tokens, text = vocabulary.encode(prompt), prompt
        limit = request.get("n_predict", request.get("max_tokens", request.get("max_completion_tokens")))
        return Generation(
            prompt=tokens or vocabulary.encode(" "),
            text=text,
            n_predict=-1 if limit is None else int(limit),
            ignore_eos=bool(request.get("ignore_eos", False)),
            cache_prompt=bool(request.get("cache_prompt", model.cache_prompt)),
            id_slot=int(request.get("id_slot", -1)),
            n_probs=int(request.get("n_probs", 0)),
        )

    def _completion(self, model: Model, request: dict[str, Any]) -> None:
        if "prompt" not in request:
            raise RequestRefused(
                400, "invalid_request_error", "[json.exception.out_of_range.403] key 'prompt' not found"
            )
        task = self._task(model, request, request["prompt"])
        produced = model.slots.run(task)
        finish = (request, model.aliases[0], model.measured.plan.spec)
        if not request.get("stream"):
            tokens, probabilities = [], []
            for token, chances in produced:
                tokens.append(token)
                probabilities.append(shapes.with_top(token, chances))
            body = shapes.final(task, *finish, vocabulary.decode(tokens))
            if request.get("return_tokens"):
                body["tokens"] = tokens
            self._send(body | ({"completion_probabilities": probabilities} if task.n_probs else {}))
            return

        def events() -> Iterator[dict[str, Any]]:
            per_token = request.get("timings_per_token")
            for token, chances in produced:
                text = vocabulary.decode([token])
                yield shapes.chunk(task, token, text, chances) | ({"timings": task.timings()} if per_token else {})
            yield shapes.final(task, *finish, "")

        self._stream(events(), done=False)

    def _openai(self, model: Model, request: dict[str, Any], chat: bool) -> None:
        missing = "messages" if chat else "prompt"
        if missing not in request:
            raise RequestRefused(
                400, "invalid_request_error", f"[json.exception.out_of_range.403] key '{missing}' not found"
            )
        prompt = shapes.chat_prompt(request["messages"]) if chat else request["prompt"]
        task = self._task(model, request, prompt)
        produced, alias = model.slots.run(task), model.aliases[0]
        identity = f"chatcmpl-{os.urandom(16).hex()}"
        if not request.get("stream"):
            text = vocabulary.decode([token for token, _ in produced])
            choice = {"message": {"role": "assistant", "content": text}} if chat else {"text": text, "logprobs": None}
            kind = "chat.completion" if chat else "text_completion"
            self._send(shapes.openai(task, alias, identity, kind, choice, last=True))
            return
        kind = "chat.completion.chunk" if chat else "text_completion"
        with_usage = chat and (request.get("stream_options") or {}).get("include_usage")

        def event(text: str | None, last: bool = False, first: bool = False) -> dict[str, Any]:
            if chat:
                delta: dict[str, Any] = {"role": "assistant", "content": None} if first else {"content": text}
                return shapes.openai(task, alias, identity, kind, {"delta": {} if last else delta}, last)
            return shapes.openai(task, alias, identity, kind, {"text": text or "", "logprobs": None}, last)

        def events() -> Iterator[dict[str, Any]]:
            for place, (token, _) in enumerate(produced):
                if chat and place == 0:
                    yield event(None, first=True)
                yield event(vocabulary.decode([token]))
            ending = event(None, last=True)
            if not with_usage:
                yield ending
                return
            timings = ending.pop("timings")
            yield ending
            yield ending | {"choices": [], "usage": shapes.usage(task), "timings": timings}

        self._stream(events(), done=True)

    def _send(self, body: Any, status: int = 200) -> None:
        self._send_text(
            json.dumps(body, ensure_ascii=False, separators=(",", ":")), "application/json; charset=utf-8", status
        )

    def _send_text(self, text: str, kind: str, status: int = 200) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: Iterator[dict[str, Any]], done: bool) -> None:
        """Server-sent events. The status goes out with the first event, so that a refused request still gets its own;
        a failure after that comes as an event."""
        first = next(events)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._event("data", first)
        try:
            for event in events:
                self._event("data", event)
        except RequestRefused as refused:
            self._event("error", refused.body["error"])
        else:
            if done:
                self._chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, name: str, body: dict[str, Any]) -> None:
        self._chunk(f"{name}: {json.dumps(body, ensure_ascii=False, separators=(',', ':'))}\n\n".encode())

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
