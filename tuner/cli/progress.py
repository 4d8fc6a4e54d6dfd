"""Showing a run: a live line on a terminal, one line an event in a log file. Everything also goes into `run.log`."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from tuner.domain.record import Stage, TrialRecord
from tuner.domain.verdict import Outcome, Verdict
from tuner.report.tables import trial_line


class Progress:
    """An `Observer` for a person. A context manager: it holds the live line and the log file."""

    def __init__(self, log_path: Path, *, to_stderr: bool = False) -> None:
        """`to_stderr` leaves standard output to what a script reads."""
        self._console = Console(highlight=False, stderr=to_stderr)
        self._log_path = log_path
        self._log: IO[str] | None = None
        self._live: Live | None = None
        self._phase = ""
        self._step = ""
        self._difference = ""
        self._launched = 0
        self._planned: int | None = None
        self._deadline: float | None = None
        self._best: Mapping[str, float] = {}

    def __enter__(self) -> Progress:
        self._log = self._log_path.open("a", encoding="utf-8")
        if self._console.is_terminal:
            self._live = Live(console=self._console, get_renderable=self._status, refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
        if self._log is not None:
            self._log.close()

    def phase(self, name: str, detail: str = "") -> None:
        """A part of the run begins."""
        self._phase = name
        self._say(f"== {name}" + (f": {detail}" if detail else ""), style="bold")

    def trial_started(self, stage: Stage, number: int, difference: str) -> None:
        """A launch begins."""
        self._step = "starting"
        self._difference = f"{stage.value} {number}: {difference}"
        self._launched += 1

    def trial_step(self, step: str) -> None:
        """What the running trial is doing."""
        self._step = step

    def trial_finished(self, record: TrialRecord, verdict: Verdict) -> None:
        """A launch is over: one line."""
        place = f" of {self._planned}" if self._planned else ""
        style = "" if verdict.outcome is Outcome.OK else "yellow"
        self._say(f"[{self._phase} {self._launched}{place}] {self._difference}  ->  {trial_line(record)}", style=style)
        self._step = ""

    def best(self, scores: Mapping[str, float]) -> None:
        """Best gain of each profile so far: a line when one has become better."""
        better = {name: gain for name, gain in scores.items() if gain > self._best.get(name, 1.0) + 0.005}
        if better:
            told = ", ".join(f"{name} {gain:.2f}x" for name, gain in better.items())
            self._say(f"   best so far (one launch, not confirmed): {told}", style="green")
        self._best = scores

    def time_left(self, seconds: float | None, launched: int, planned: int | None) -> None:
        """How far the phase is."""
        self._launched = launched
        self._planned = planned
        self._deadline = None if seconds is None else time.monotonic() + seconds

    def note(self, message: str) -> None:
        """Something the user should know."""
        self._say(message, style="cyan")

    def _say(self, line: str, style: str = "") -> None:
        stamp = time.strftime("%H:%M:%S")
        if self._log is not None:
            self._log.write(f"{time.strftime('%Y-%m-%d')} {stamp} {line}\n")
            self._log.flush()
        if self._console.is_terminal:
            self._console.print(Text(f"{stamp} {line}", style=style))
        else:
            # Rich would wrap at 80 columns: a log file wants whole lines, at once.
            out = sys.stderr if self._console.stderr else sys.stdout
            out.write(f"{stamp} {line}\n")
            out.flush()

    def _status(self) -> Text:
        parts = [f"{self._phase} {self._launched}" + (f"/{self._planned}" if self._planned else "")]
        if self._deadline is not None:
            parts.append(f"{_minutes(self._deadline - time.monotonic())} left")
        best = max(self._best.items(), key=lambda pair: pair[1], default=None)
        if best is not None and best[1] > 1:
            parts.append(f"best {best[0]} {best[1]:.2f}x")
        parts += [part for part in (self._difference, self._step) if part]
        return Text(" | ".join(parts), style="bold blue", overflow="ellipsis", no_wrap=True)


def _minutes(seconds: float) -> str:
    minutes = max(0, round(seconds / 60))
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{minutes} min"
