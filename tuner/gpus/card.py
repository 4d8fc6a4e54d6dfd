"""What every vendor's file gives: a card that can be read, and perhaps be held to a power cap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tuner.domain.gpu import GpuIdentity, GpuProcess, GpuReading, PowerCap


class Card(Protocol):
    """One graphics card. What it cannot tell is None; a card that was lost meanwhile answers with nothing but None."""

    identity: GpuIdentity

    def read(self) -> GpuReading:
        """One look, in a few milliseconds. Must not raise. May be called from another thread, one at a time."""

    def power_cap(self) -> PowerCap | None:
        """The cap in force and its limits; None where the card has none that could be set. Must not raise."""

    def set_power_cap(self, watts: float) -> None:
        """Asks for a cap. The caller reads it back: cards clamp and ignore silently.

        Raises:
            NotPermitted: no right to; `advice` is the one command that would give it.
            PowerCapRefused: the hardware or driver refuses the value; says in which words.
        """

    def cap_command(self, watts: float) -> str:
        """The shell command with which a person sets the cap, vendor's own tool first; without `sudo`."""

    def processes(self) -> list[GpuProcess]:
        """The programs that hold memory on it, as far as the driver tells. Must not raise."""


class CardsUnreadable(Exception):
    """A vendor's library is there and does not work, or not for every card. The message says why, and what helps.

    Attributes:
        readable: the cards that can be read nevertheless.
    """

    def __init__(self, what: str, *, readable: Sequence[Card] = ()) -> None:
        super().__init__(what)
        self.readable = tuple(readable)
