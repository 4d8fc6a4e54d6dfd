"""HTTP of the fake SGLang: routes, streams, the prefix cache, and how long a request takes."""

from __future__ import annotations

import json
import os
import signal
import socketserver
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import answers
import sglang_server
import vocabulary
from faults import Faults
from noise import Noise
from sglang_plan import Plan

END_OF_TEXT = 256
"""Tokens after which an answer without a limit of its own ends."""


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Request:
    """One request while it runs, and its figures afterwards. Times are nominal seconds."""

    prompt: list[int]
    text: str
    asked: int
    ignore_eos: bool
    tops: int = 0
    cached: int = 0
    tokens: list[int] = field(default_factory=list)
    prefill_s: float = 0.0
    decode_s: float = 0.0
    verifications: float = 0.0
    drafted: int = 0
    accepted: int = 0
    finish: str | None = None


class Service(ThreadingHTTPServer):
    """Bound once everything is loaded, as SGLang's is."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self, host: str, port: int, settings: dict[str, Any], planned: Plan, faults: Faults, scale: float
    ) -> None:
        super().__init__((host, port), Handler)
        self.settings, self.planned, self.faults, self.scale = settings, planned, faults, scale
        self.alias = settings.get("served_model_name") or settings["model_path"]
        self.noise = Noise.read(self.alias, planned.measured.rig)
        self.speculates = planned.steps > 0 and "no_speculation" not in faults
        self.lock = threading.Lock()
        self.remembered: list[list[int]] = []
        self.running = 0
        self.asked = 0

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # HTTPServer's own would look the host's name up
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error of the server."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def flush(self) -> bool:
        with self.lock:
            if self.running:
                return False
            self.remembered.clear()
            return True

    def run(self, request: Request) -> Iterator[int]:
        """Yields the answer's tokens at the rig's speed. Raises Refused."""
        planned, depth = self.planned, len(request.prompt)
        if depth >= planned.context:
            raise Refused(
                400,
                f"The input ({depth} tokens) is longer than the model's context length ({planned.context} tokens).",
            )
        if depth + request.asked > planned.context:
            raise Refused(
                400,
                f"Requested token count exceeds the model's maximum context length of {planned.context} tokens. You "
                f"requested a total of {depth + request.asked} tokens.",
            )
        if depth > planned.pool - 6:
            raise Refused(
                400,
                f"Input length ({depth} tokens) exceeds the maximum allowed length ({planned.pool - 6} tokens). Use a "
                "shorter input or enable --allow-auto-truncate.",
            )
        request.asked = min(request.asked, planned.pool - depth - 1)
        self._faults_of_a_request()
        with self.lock:
            self.running += 1
            self.asked += 1
            noise = self.noise.of_request(self.asked)
            kept = [] if self.settings.get("disable_radix_cache") else self.remembered
            request.cached = max((_common(one, request.prompt) for one in kept), default=0)
            request.cached = min(request.cached, depth - 1)
        try:
            self._prefill(request, noise)
            yield from self._decode(request, noise)
        finally:
            with self.lock:
                self.running -= 1
                self._remember(request.prompt + request.tokens)

    def _remember(self, tokens: list[int]) -> None:
        self.remembered.append(tokens)
        while len(self.remembered) > 1 and sum(map(len, self.remembered)) > self.planned.pool:
            self.remembered.pop(0)

    def _faults_of_a_request(self) -> None:
        faults = self.faults
        if "http500" in faults:
            raise Refused(500, "Internal server error")
        if "hang_request" in faults and self.asked:
            threading.Event().wait()
        if "crash_request" in faults and self.asked:
            sglang_server.fail("RuntimeError", "CUDA error: device-side assert triggered")
        if "watchdog" in faults and self.asked:
            sglang_server.say("Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)", " TP0")
            sglang_server.say("SIGQUIT received. signum=3, frame=None. It usually means one child failed.")
            os.kill(os.getpid(), signal.SIGKILL)

    def _prefill(self, request: Request, noise: float) -> None:
        planned, depth = self.planned, len(request.prompt)
        limit = planned.out_of_memory_at()
        if "oom_midprompt" in self.faults:
            limit = min(limit, self.faults.number("oom_midprompt", 0))
        if min(depth, planned.chunk) > limit or ("oom_midprompt" in self.faults and depth > limit):
            need = planned.chunk * planned.measured.rig.sglang["activation_mib_per_1k"] / 1000
            out = sglang_server.out_of_memory(need, planned.rest_mib - planned.graphs_mib)
            sglang_server.fail("torch.OutOfMemoryError", out)
        whole, done = depth / planned.prefill_tps(depth), 0.0
        if request.cached:
            done = request.cached / planned.prefill_tps(request.cached)
        request.prefill_s = noise * (whole - done)
        time.sleep(request.prefill_s * self.scale)

    def _decode(self, request: Request, noise: float) -> Iterator[int]:
        kind, depth = answers.kind_of(request.text), len(request.prompt)
        garbage = "garbage" in self.faults
        drafts = self.planned.measured.drafts(kind, depth)
        due = time.monotonic()
        stall = int(self.faults.number("stall_midstream", 1)) if "stall_midstream" in self.faults else -1
        limit = request.asked if request.ignore_eos else min(request.asked, END_OF_TEXT)
        for token in answers.answer(request.text, garbage):
            if len(request.tokens) == stall and self.asked > 1:
                threading.Event().wait()
            if request.tokens:
                step_s = noise / self.planned.decode_tps(kind, depth, max(self.running, 1))
                request.decode_s += step_s
                request.verifications += 1 / drafts.gained
                due += step_s * self.scale
                if due - time.monotonic() > 0.001:
                    time.sleep(due - time.monotonic())
            request.tokens.append(token)
            if self.speculates:
                request.drafted = round(request.verifications) * self.planned.steps
                request.accepted = min(request.drafted, round(request.verifications * drafts.accepted))
            if len(request.tokens) == limit:
                request.finish = "length" if limit == request.asked else "stop"
            yield token
            if request.finish:
                return

    def meta(self, request: Request) -> dict[str, Any]:
        """`meta_info` as it stands; latencies and drafts only once the answer is finished."""
        begun = 1.7e9
        meta: dict[str, Any] = {
            "id": "f3ea0b0a", "prompt_tokens": len(request.prompt), "cached_tokens": request.cached,
            "completion_tokens": len(request.tokens), "weight_version": "default", "num_retractions": 0,
            "finish_reason": {"type": request.finish, "length": len(request.tokens)} if request.finish else None,
        }  # fmt: skip
        if self.settings.get("enable_metrics"):
            meta |= {"queue_time": 0.0, "forward_entry_time": begun, "prefill_finished_time": begun + request.prefill_s}
        if request.finish:
            meta["e2e_latency"] = request.prefill_s + request.decode_s
            if self.settings.get("enable_metrics"):
                meta["first_token_latency"] = request.prefill_s
            if self.speculates:
                meta["spec_verify_ct"] = round(request.verifications)
            if self.speculates and "older_build" not in self.faults:
                meta["spec_num_proposed_drafts"] = request.drafted
                meta["spec_num_correct_drafts"] = request.accepted
                meta["spec_accept_rate"] = request.accepted / max(1, request.drafted)
        return meta


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Service

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the log is the engine's."""

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def _answer(self, body: bytes | None) -> None:
        path = self.path.partition("?")[0]
        older = "older_build" in self.server.faults
        try:
            if path == "/health":
                self._send(b"", 200)
            elif path == "/flush_cache":
                done = self.server.flush()
                self._send(b"Cache flushed.\n" if done else b"Flush cache failed.\n", 200 if done else 400)
            elif path == ("/get_server_info" if older else "/server_info"):
                self._send_json(self._server_info())
            elif path == "/v1/models":
                entry = {"id": self.server.alias, "object": "model", "owned_by": "sglang"}
                self._send_json({"object": "list", "data": [{**entry, "max_model_len": self.server.planned.context}]})
            elif path == "/generate" and body is not None:
                self._generate(json.loads(body))
            elif path in ("/tokenize", "/detokenize") and body is not None and not older:
                self._send_json(_tokens(path, json.loads(body)))
            else:
                self._send_json({"detail": "Not Found"}, 404)
        except Refused as refused:
            self._send_json(_error(refused), refused.status)

    def _server_info(self) -> dict[str, Any]:
        server, planned = self.server, self.server.planned
        usage = {"weight": planned.weights_mib / 1024, "kvcache": planned.pool_mib / 1024,
                 "token_capacity": planned.pool, "graph": {"decode": planned.graphs_mib / 1024}}  # fmt: skip
        told = {**server.settings, "mem_fraction_static": planned.fraction, "chunked_prefill_size": planned.chunk}
        if not server.speculates:
            told["speculative_algorithm"] = None
        told["device"] = "cuda"
        state = {"effective_max_running_requests_per_dp": planned.requests, "memory_usage": usage}
        return {**told, "status": "ready", "max_total_num_tokens": planned.pool,
                "max_req_input_len": planned.usable - 6, "internal_states": [state],
                "version": sglang_server.VERSION}  # fmt: skip

    def _generate(self, body: dict[str, Any]) -> None:
        sampling = body.get("sampling_params") or {}
        prompt = vocabulary.encode(body["text"])
        request = Request(
            prompt, body["text"], int(sampling.get("max_new_tokens", 128)), bool(sampling.get("ignore_eos")),
            int(body.get("top_logprobs_num") or 0),
        )  # fmt: skip
        produced = self.server.run(request)
        if not body.get("stream"):
            chances = []
            for token in produced:
                if request.tops:
                    chances.append(self._tops(request, token))
            meta = self.server.meta(request)
            if request.tops:
                meta["output_top_logprobs"] = chances
            self._send_json(
                {"text": vocabulary.decode(request.tokens), "output_ids": request.tokens, "meta_info": meta}
            )
            return
        # An error of a stream comes inside a reply that began well.
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for _ in produced:
                text = vocabulary.decode(request.tokens)
                self._event({"text": text, "output_ids": request.tokens, "meta_info": self.server.meta(request)})
        except Refused as refused:
            self._event(_error(refused))
        self._chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _tops(self, request: Request, token: int) -> list[list[Any]]:
        table = self.server.planned.measured.rig.kv["noise"]
        kind = self.server.planned.measured.plan.type_k
        place = len(request.tokens) - 1
        found = answers.top_logprobs(
            request.text, place, token, request.tops, 2 * table.get(kind, 0.0), f"{kind}/{kind}"
        )
        return [[each["logprob"], each["id"], None] for each in found]

    def _event(self, body: dict[str, Any]) -> None:
        self._chunk(f"data: {json.dumps(body, ensure_ascii=False)}\n\n".encode())

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _send_json(self, body: Any, status: int = 200) -> None:
        self._send(json.dumps(body, ensure_ascii=False).encode(), status, "application/json")

    def _send(self, data: bytes, status: int, kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _error(refused: Refused) -> dict[str, Any]:
    return {"error": {"message": str(refused), "type": "invalid_request_error", "code": refused.status}}


def _tokens(path: str, body: dict[str, Any]) -> dict[str, Any]:
    if path == "/detokenize":
        return {"text": vocabulary.decode(body["tokens"])}
    text = body.get("prompt")
    if text is None:
        parts = [f"<|im_start|>{one['role']}\n{one['content']}<|im_end|>\n" for one in body["messages"]]
        text = "".join(parts) + "<|im_start|>assistant\n"
    tokens = vocabulary.encode(text)
    return {"tokens": tokens, "count": len(tokens)}


def _common(have: list[int], wanted: list[int]) -> int:
    """Length of the common beginning."""
    for place, (left, right) in enumerate(zip(have, wanted, strict=False)):
        if left != right:
            return place
    return min(len(have), len(wanted))
