"""Ends a stream on which nothing arrives any more.

httpx has one read timeout for a whole request. A first token may take minutes, the next one must not.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

import httpx

_LOOK_S = 0.5


class SilenceWatch:
    """Watches one streamed reply, from a thread of its own; shuts its connection when it is silent for too long."""

    def __init__(self, reply: httpx.Response, *, since: float, first_token_s: float, stall_s: float) -> None:
        """`since` is when the request was sent, on the clock of `time.perf_counter`."""
        self.expired = False
        """Whether the connection was shut: what the reader then sees looks like a server that hung up."""
        self._socket: socket.socket | None = reply.extensions["network_stream"].get_extra_info("socket")
        self._deadline = since + first_token_s
        self._stall_s = stall_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def heard(self) -> None:
        """Something has arrived: a token, or a part of one."""
        self._deadline = time.perf_counter() + self._stall_s

    def _watch(self) -> None:
        while not self._over.wait(min(_LOOK_S, max(0.0, self._deadline - time.perf_counter()))):
            if time.perf_counter() >= self._deadline:
                self.expired = True
                if self._socket is not None:
                    with suppress(OSError):
                        self._socket.shutdown(socket.SHUT_RDWR)
                return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
