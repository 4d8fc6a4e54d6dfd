"""The fake server's log, on stderr and in `--log-file`: `M.SS.mmm.uuu L component function: text`."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

LEVELS = {"E": 1, "W": 2, "I": 3}
MORE = 4  # `-lv 4`: what release builds since the middle of 2025 print only when asked


class Journal:
    """Prints what the verbosity threshold lets through."""

    def __init__(self, verbosity: int = 3, file: str | None = None) -> None:
        self.verbosity = verbosity
        self._started = time.monotonic()
        self._lock = threading.Lock()
        self._file = Path(file) if file else None
        if self._file:
            self._file.write_text("")

    def say(self, source: str, text: str, letter: str = "I", at: int | None = None) -> None:
        """One line. `source` is `component function` or a function; `at` is its verbosity, if not the letter's."""
        if (LEVELS[letter] if at is None else at) > self.verbosity:
            return
        component, _, function = source.rpartition(" ")
        where = f"{component:<4}{function[:12]:>13}" if component else function
        micros = int((time.monotonic() - self._started) * 1e6)
        minutes, rest = divmod(micros, 60_000_000)
        seconds, rest = divmod(rest, 1_000_000)
        self.raw(f"{minutes}.{seconds:02}.{rest // 1000:03}.{rest % 1000:03} {letter} {where}: {text}\n")

    def more(self, source: str, text: str) -> None:
        """One line that only `-lv 4` shows."""
        self.say(source, text, at=MORE)

    def raw(self, text: str) -> None:
        """Text without a prefix, as GGML_ASSERT and the backends print it."""
        with self._lock:
            sys.stderr.write(text)
            sys.stderr.flush()
            if self._file:
                with self._file.open("a", encoding="utf-8") as file:
                    file.write(text)
