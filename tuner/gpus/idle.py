"""What the cards hold when no engine runs, and waiting until they hold no more than that again."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from tuner.domain.gpu import GpuProcess, GpuReading
from tuner.gpus.card import Card

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 0.5


class NotDrained(BaseModel):
    """A card that still holds more than before the engine was started."""

    model_config = ConfigDict(frozen=True)

    card: int
    """Its place in the cards that were given."""
    name: str
    over_mib: float
    """What it holds beyond its idle reading."""
    holders: tuple[GpuProcess, ...]
    """The programs that hold memory on it now, the largest first, as far as the driver tells; a desktop is among
    them, and was before."""

    def __str__(self) -> str:
        told = ", ".join(
            f"{holder.name or 'process'} {holder.pid}" + (f" ({holder.used_mib:.0f} MiB)" if holder.used_mib else "")
            for holder in self.holders
        )
        return f"{self.name} holds {self.over_mib:.0f} MiB more than before; memory is held by: {told or 'not told'}"


def idle_readings(cards: Sequence[Card]) -> tuple[GpuReading, ...]:
    """One look at each card. Take it anew before each launch: drivers have been seen to keep more with every start."""
    return tuple(card.read() for card in cards)


def wait_until_drained(
    cards: Sequence[Card],
    idle: Sequence[GpuReading],
    *,
    tolerance_mib: float = 256.0,
    deadline_s: float = 30.0,
) -> list[NotDrained]:
    """Waits after an engine's end until each card holds no more than before: that can take more than ten seconds.

    Args:
        cards: those of the engine.
        idle: what they read before its start, in the same order.
        tolerance_mib: how much more than that is no matter; a desktop moves by some tens.
        deadline_s: how long to wait at most.

    Returns:
        The cards that did not come back in time. One whose memory is not told, now or then, is not waited for.
    """
    ends = time.monotonic() + deadline_s
    pause_s = _FIRST_PAUSE_S
    waiting = list(enumerate(cards))
    while True:
        over = [(place, card, _over_mib(card.read(), idle[place])) for place, card in waiting]
        waiting = [(place, card) for place, card, over_mib in over if over_mib > tolerance_mib]
        left_s = ends - time.monotonic()
        if not waiting or left_s <= 0:
            break
        time.sleep(min(pause_s, left_s))
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    return [
        NotDrained(card=place, name=card.identity.name, over_mib=over_mib, holders=_holders(card))
        for place, card, over_mib in over
        if over_mib > tolerance_mib
    ]


def _over_mib(now: GpuReading, idle: GpuReading) -> float:
    if now.used_mib is None or idle.used_mib is None:
        return 0.0
    return now.used_mib - idle.used_mib


def _holders(card: Card) -> tuple[GpuProcess, ...]:
    return tuple(sorted(card.processes(), key=lambda process: process.used_mib or 0.0, reverse=True))
