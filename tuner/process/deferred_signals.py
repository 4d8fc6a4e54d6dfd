"""Holds back Ctrl-C while an engine is being started or stopped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


@contextmanager
def deferred_signals() -> Iterator[Sequence[int]]:
    """Notes the signals that ask the tuner to stop, and acts on the first of them when the block is left.

    Yields the signals that have arrived so far; the block looks at it to hurry. On leaving, the former handlers are
    back and the first one that arrived is raised again: by default that is a KeyboardInterrupt, also when the block
    ends with an error. Without this an exception could come between any two steps, after the engine's start and
    before its pid is noted for instance.

    Signals without a Python handler keep their effect. Only the main thread gets signals, so that in other threads
    nothing has to be held back.
    """
    arrived: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield arrived
        return
    known = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    handlers = {number: handler for number in known if callable(handler := signal.getsignal(number))}
    try:
        for number in handlers:
            signal.signal(number, lambda number, _frame: arrived.append(number))
        yield arrived
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if arrived:
            signal.raise_signal(arrived[0])
