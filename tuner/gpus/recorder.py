"""Watches the cards while a workload runs.

Every look at a card is a line of a CSV file, so that a kill loses none that was taken. Its columns:

    unix_s      when, in seconds since the epoch
    card        `GpuIdentity.key`
    ...         every field of `GpuReading` under its own name, which ends in its unit. Empty: not told.
                `throttled_by` has its reasons joined by `+`, and `none` where nothing holds the clocks down
"""

from __future__ import annotations

import csv
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from tuner.domain.gpu import GpuReading, GpuUse, PowerCap
from tuner.gpus.card import Card
from tuner.gpus.tally import Tally

_LARGEST_DUTY = 0.25
"""Share of the time that may go into reading one card: a slow driver is asked less often."""
_PATIENCE_S = 3.0
"""How long the end of a trial waits for a driver that does not answer."""


class GpuRecorder:
    """Reads each card several times a second, as a context manager.

    A card that fails or hangs never disturbs the trial. Each has a thread of its own, so that a driver that hangs in
    one (which has fallen off the bus) stops no other.

    Args:
        cards: what to watch; may be empty.
        csv_path: gets a line a look; appended to if it is there.
        idle: what the cards read before the engine was started, in the same order.
        interval_s: between two looks at a card.
    """

    def __init__(
        self,
        cards: Sequence[Card],
        csv_path: Path,
        idle: Sequence[GpuReading] | None = None,
        *,
        interval_s: float = 0.2,
    ) -> None:
        idle = idle or [GpuReading()] * len(cards)
        self._file = _SampleFile(csv_path)
        self._watches = [
            _Watch(card, Tally(card.identity, before), self._file, interval_s)
            for card, before in zip(cards, idle, strict=True)
        ]

    def __enter__(self) -> Self:
        if self._watches:
            self._file.open()
        for watch in self._watches:
            watch.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            for watch in self._watches:
                watch.ends.set()
            deadline = time.monotonic() + _PATIENCE_S
            for watch in self._watches:
                watch.thread.join(max(0.0, deadline - time.monotonic()))
        finally:
            self._file.close()

    def uses(self) -> tuple[GpuUse, ...]:
        """What each card did so far, in the order of the cards. May be asked at any time."""
        return tuple(watch.use() for watch in self._watches)

    def memory_peaks_mib(self) -> tuple[float | None, ...]:
        """The most memory in use that was seen so far on each card; cheap enough to ask after every request."""
        return tuple(watch.tally.memory_peak_mib for watch in self._watches)

    @property
    def read_s(self) -> float:
        """Seconds that were spent in reading, over all cards; a driver's own waiting included."""
        return sum(watch.read_s for watch in self._watches)

    @property
    def cpu_s(self) -> float:
        """Seconds of processor time that the watching took, over all cards."""
        return sum(watch.cpu_s for watch in self._watches)

    @property
    def notes(self) -> tuple[str, ...]:
        """What went wrong with the watching itself, for a person."""
        told = [watch.trouble for watch in self._watches if watch.trouble]
        told += [
            f"{watch.card.identity.name}: its driver does not answer any more"
            for watch in self._watches
            if watch.hangs()
        ]
        return (*told, *([self._file.trouble] if self._file.trouble else []))


class _Watch:
    """The watching of one card."""

    def __init__(self, card: Card, tally: Tally, file: _SampleFile, interval_s: float) -> None:
        self.card = card
        self.tally = tally
        self.ends = threading.Event()
        # A thread that hangs in a driver must not keep the tuner from ending.
        self.thread = threading.Thread(target=self._run, name=f"watch {card.identity.name}", daemon=True)
        self.read_s = 0.0
        self.cpu_s = 0.0
        self.trouble: str | None = None
        self._file = file
        self._interval_s = interval_s
        self._caps: list[PowerCap | None] = []

    def use(self) -> GpuUse:
        """So far; the power cap is known only once the card was asked at both ends."""
        caps = self._caps
        same = len(caps) == 2 and caps[0] is not None and caps[1] is not None and caps[0].cap_w == caps[1].cap_w
        cap_w = caps[0].cap_w if same and caps[0] else None
        return self.tally.use(power_cap_w=cap_w, complete=not self.hangs() and self.trouble is None)

    def hangs(self) -> bool:
        """Whether it should have ended and has not."""
        return self.ends.is_set() and self.thread.is_alive()

    def _run(self) -> None:
        try:
            self._caps.append(self.card.power_cap())
            while True:
                last = self.ends.is_set()
                took_s = self._look()
                if last:
                    break
                self.ends.wait(max(self._interval_s - took_s, took_s * (1 / _LARGEST_DUTY - 1)))
            self._caps.append(self.card.power_cap())
        except Exception as error:  # A card must not raise; should it do so, the trial is worth more.
            self.trouble = f"{self.card.identity.name}: not watched to the end ({type(error).__name__}: {error})"

    def _look(self) -> float:
        began = time.monotonic()
        reading = self.card.read()
        ended = time.monotonic()
        self.tally.add(ended, reading)
        self._file.write(self.card.identity.key, reading)
        self.read_s += ended - began
        self.cpu_s = time.thread_time()
        return ended - began


class _SampleFile:
    """The CSV file. A full disk costs the samples, not the trial."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._file: IO[str] | None = None
        self.trouble: str | None = None

    def open(self) -> None:
        try:
            self._file = self._path.open("a", encoding="utf-8", newline="")
            if self._file.tell() == 0:
                csv.writer(self._file).writerow(["unix_s", "card", *GpuReading.model_fields])
                self._file.flush()
        except OSError as error:
            self._fails(error)

    def write(self, key: str, reading: GpuReading) -> None:
        values = [_cell(getattr(reading, name)) for name in GpuReading.model_fields]
        with self._lock:
            if self._file is None:
                return
            try:
                csv.writer(self._file).writerow([f"{time.time():.3f}", key, *values])
                self._file.flush()
            except OSError as error:
                self._fails(error)

    def close(self) -> None:
        with self._lock:
            file, self._file = self._file, None
            try:
                if file is not None:
                    file.close()
            except OSError as error:
                self._fails(error)

    def _fails(self, error: OSError) -> None:
        self.trouble = f"samples of the cards are not written any more: {error}"
        self._file = None


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return "+".join(value) or "none"
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:.3f}".rstrip("0").rstrip(".")
