"""Watches how much host memory an engine holds, from a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

import psutil

from tuner.domain.memory import MemoryPeak

_PERIOD_S = 1.0
"""A look takes a millisecond or two: the engine under test must not feel it."""


class MemoryWatch:
    """Keeps the highest reading. The deepest prompt holds most, and no reading afterwards shows it any more."""

    def __init__(self, resident_mib: Callable[[], float | None]) -> None:
        self._resident_mib = resident_mib
        self._rss_mib: float | None = None
        self._swap_before = _swapped_mib()
        self._swap_mib: float | None = None
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        """Begins to look."""
        self._thread.start()

    def stop(self) -> None:
        """Ends it; what was seen stays."""
        self._over.set()

    def peak(self) -> MemoryPeak:
        """The highest readings, one taken now included."""
        self._look()
        grown = None
        if self._swap_mib is not None and self._swap_before is not None:
            grown = max(0.0, self._swap_mib - self._swap_before)
        return MemoryPeak(rss_mib=self._rss_mib, swap_growth_mib=grown)

    def _watch(self) -> None:
        while not self._over.wait(_PERIOD_S):
            self._look()

    def _look(self) -> None:
        rss, swap = self._resident_mib(), _swapped_mib()
        with self._lock:
            if rss is not None:
                self._rss_mib = max(self._rss_mib or 0.0, rss)
            if swap is not None:
                self._swap_mib = max(self._swap_mib or 0.0, swap)


def _swapped_mib() -> float | None:
    with suppress(psutil.Error, OSError, RuntimeError):
        return float(psutil.swap_memory().used) / 2**20
    return None
