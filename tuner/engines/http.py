"""Speaking to an engine over HTTP: what every adapter does alike, whatever its routes and events look like."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from tuner.domain.measurement import RequestFailure, RequestTiming
from tuner.engines.silence import SilenceWatch

KEPT_TEXT = 2000
"""Characters of an answer that are kept: for a person to look at, and to see whether it goes round in circles."""
_CONNECT_S = 10.0

Refused = Callable[[int, bytes], RequestFailure]
"""HTTP status and body of a refusal -> why, in the engine's own words."""


def connection(base_url: str) -> httpx.Client:
    """A client for one server."""
    # No proxy from the environment: the server under test is on this machine. No connection is kept: a server closes
    # idle ones after seconds, and a request on one that it is just closing would look like a crash.
    limits = httpx.Limits(max_keepalive_connections=0)
    return httpx.Client(base_url=base_url, timeout=_CONNECT_S, trust_env=False, limits=limits)


def get_json(http: httpx.Client, path: str) -> Any:
    """The JSON at `path`; None where the server has no such page."""
    try:
        reply = http.get(path)
        return reply.json() if reply.status_code == 200 else None
    except (httpx.HTTPError, ValueError):
        return None


@dataclass
class AnswerStream(ABC):
    """What has arrived of one streamed answer, on the clock of `time.perf_counter`."""

    started: float
    first: float | None = None
    """When the first token arrived."""
    last: float | None = None
    gaps: list[float] = field(default_factory=list)
    """Seconds between one token's arrival and the next's."""

    @abstractmethod
    def take(self, event: dict[str, Any]) -> None:
        """One event, at the moment it arrived."""

    @abstractmethod
    def arrived(self) -> int:
        """Tokens so far."""

    @abstractmethod
    def cut(self) -> None:
        """No more is read, on purpose: what has arrived counts."""

    @abstractmethod
    def timing(self) -> RequestTiming | RequestFailure:
        """The figures of an answer that came to its end, or was cut off on purpose."""

    def decoding_s(self) -> float:
        """Seconds from the first token to the last."""
        return 0.0 if self.first is None or self.last is None else self.last - self.first

    def silence(self, first_token_s: float, stall_s: float) -> RequestFailure:
        """What to say of a stream on which nothing arrives any more."""
        if self.first is None:
            return RequestFailure(kind="no_first_token", detail=f"no token within {first_token_s:.0f} s")
        return RequestFailure(kind="stalled", detail=f"silent for {stall_s:.0f} s after {self.arrived()} tokens")


def streamed(
    http: httpx.Client,
    path: str,
    body: Mapping[str, Any],
    stream: AnswerStream,
    refused: Refused,
    *,
    first_token_s: float,
    stall_s: float,
    limit_s: float,
) -> RequestTiming | RequestFailure:
    """Posts a request and reads its events until it ends, is silent for too long, or has decoded for `limit_s`."""
    watch: SilenceWatch | None = None
    timeout = httpx.Timeout(_CONNECT_S, read=first_token_s)
    try:
        with http.stream("POST", path, json=body, timeout=timeout) as reply:
            if reply.status_code != 200:
                return refused(reply.status_code, reply.read())
            watch = SilenceWatch(reply, since=stream.started, first_token_s=first_token_s, stall_s=stall_s)
            with watch:
                for event in _events(reply.iter_lines()):
                    if "error" in event:
                        return refused(reply.status_code, json.dumps(event).encode())
                    stream.take(event)
                    watch.heard()
                    if stream.decoding_s() > limit_s:
                        stream.cut()
                        break
            # Where the end of the connection is the end of the answer, a watch that shut it raises nothing.
            return stream.silence(first_token_s, stall_s) if watch.expired else stream.timing()
    except (httpx.HTTPError, ValueError) as error:
        if isinstance(error, httpx.ReadTimeout) or (watch is not None and watch.expired):
            return stream.silence(first_token_s, stall_s)
        # A server that dies can leave half an event behind, which is no JSON.
        return _lost("the stream broke off within an event" if isinstance(error, ValueError) else error)


def answered(
    http: httpx.Client, path: str, body: Mapping[str, Any], refused: Refused, *, text_key: str, limit_s: float
) -> tuple[dict[str, Any], float] | RequestFailure:
    """Posts a request that is answered in one piece: the JSON, which has a `text_key`, and its milliseconds."""
    started = time.perf_counter()
    try:
        reply = http.post(path, json=body, timeout=httpx.Timeout(_CONNECT_S, read=limit_s))
        if reply.status_code != 200:
            return refused(reply.status_code, reply.content)
        told: dict[str, Any] = reply.json()
    except httpx.ReadTimeout:
        return RequestFailure(kind="no_first_token", detail=f"no answer within {limit_s:.0f} s")
    except (httpx.HTTPError, ValueError) as error:
        return _lost(error)
    if text_key not in told:
        return refused(reply.status_code, reply.content)
    return told, 1000 * (time.perf_counter() - started)


def _lost(why: str | Exception) -> RequestFailure:
    return RequestFailure(kind="connection_lost", detail=str(why) or type(why).__name__)


def _events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """The JSON objects of a server-sent event stream; llama-server has a field of its own for errors."""
    for line in lines:
        if line.startswith(("data: {", "error: {")):
            yield json.loads(line.split(": ", 1)[1])
