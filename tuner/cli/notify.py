"""Tells a webhook what happens: start, a new best, trouble, the end. Plain POST, as ntfy, Slack and Discord take it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from tuner.cli.progress import Progress
from tuner.domain.errors import BadInput, TunerError
from tuner.domain.record import Stage, TrialRecord
from tuner.domain.verdict import Outcome, Verdict
from tuner.study.protocols import Observer

_TIMEOUT_S = 10.0
_BETTER = 1.05
"""A new best is told when it is so much better than the one that was told before: nobody wants fifty messages."""


@contextmanager
def notifying(progress: Progress, url: str | None, study: str) -> Iterator[Observer]:
    """The observer of a run: the progress alone, or with messages to `url` as well.

    Raises:
        BadInput: the URL cannot be one.
    """
    if url is not None and urlsplit(url).scheme not in ("http", "https"):
        raise BadInput("--notify needs a URL that begins with http:// or https://")
    with progress:
        if url is None:
            yield progress
            return
        told = Notifier(progress, url, study)
        told.send(f"{study}: the run begins")
        try:
            yield told
        except TunerError as error:
            told.send(f"{study}: stopped. {error.what}")
            raise
        except KeyboardInterrupt:
            told.send(f"{study}: stopped by hand")
            raise
        else:
            told.send(f"{study}: the run has ended. {told.summary()}")
        finally:
            told.wait()


class Notifier:
    """An `Observer` that passes everything on, and tells a webhook what matters."""

    def __init__(self, progress: Progress, url: str, study: str) -> None:
        self._progress = progress
        self._url = url
        self._study = study
        self._told_best: dict[str, float] = {}
        self._best: Mapping[str, float] = {}
        self._sending: list[threading.Thread] = []
        self._failed = False

    def send(self, text: str) -> None:
        """Sends it from a thread of its own: a slow receiver never holds up a trial."""
        thread = threading.Thread(target=self._post, args=(text,), daemon=True)
        self._sending = [one for one in self._sending if one.is_alive()] + [thread]
        thread.start()

    def wait(self) -> None:
        """Until everything is sent, or given up."""
        for thread in self._sending:
            thread.join(_TIMEOUT_S)

    def summary(self) -> str:
        """The best gain of each profile, not yet confirmed."""
        return ", ".join(f"{name} {gain:.2f}x" for name, gain in self._best.items() if gain > 1) or "nothing faster yet"

    def _post(self, text: str) -> None:
        import httpx

        try:
            httpx.post(self._url, **_body(self._url, text), timeout=_TIMEOUT_S).raise_for_status()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            # Once, and without the URL: it is a secret.
            if not self._failed:
                self._failed = True
                self._progress.note(f"a message could not be sent ({type(error).__name__}); the study goes on")

    def phase(self, name: str, detail: str = "") -> None:
        self._progress.phase(name, detail)

    def trial_started(self, stage: Stage, number: int, difference: str) -> None:
        self._progress.trial_started(stage, number, difference)

    def trial_step(self, step: str) -> None:
        self._progress.trial_step(step)

    def trial_finished(self, record: TrialRecord, verdict: Verdict) -> None:
        self._progress.trial_finished(record, verdict)
        if verdict.outcome is Outcome.HOST_CRASH:
            self.send(f"{self._study}: {verdict.reason}")

    def best(self, scores: Mapping[str, float]) -> None:
        self._progress.best(scores)
        self._best = scores
        better = {name: gain for name, gain in scores.items() if gain > _BETTER * self._told_best.get(name, 1.0)}
        if better:
            self._told_best.update(better)
            told = ", ".join(f"{name} {gain:.2f}x" for name, gain in better.items())
            self.send(f"{self._study}: new best (one launch, not confirmed): {told}")

    def time_left(self, seconds: float | None, launched: int, planned: int | None) -> None:
        self._progress.time_left(seconds, launched, planned)

    def note(self, message: str) -> None:
        self._progress.note(message)
        if message.startswith("paused: ") or "HOST_CRASH" in message:
            self.send(f"{self._study}: {message}")


def _body(url: str, text: str) -> dict[str, Any]:
    """What the receiver understands: Slack and Discord want JSON with a key of their own, others the text itself."""
    host = urlsplit(url).hostname or ""
    if host.endswith("slack.com"):
        return {"json": {"text": text}}
    if host.endswith(("discord.com", "discordapp.com")):
        return {"json": {"content": text}}
    return {"content": text.encode(), "headers": {"Content-Type": "text/plain; charset=utf-8"}}
