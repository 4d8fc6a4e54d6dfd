"""All cards of the machine, over all vendors."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.gpus.card import Card, CardsUnreadable

_SYSFS = Path("/sys")


@dataclass(frozen=True)
class FoundCards:
    """The cards that can be read, and what went wrong with others."""

    cards: tuple[Card, ...]
    notes: tuple[str, ...]
    """For a person: a vendor's library that is there and does not work, and what helps."""


def find_cards(sysfs_root: Path = _SYSFS) -> FoundCards:
    """Looks for cards of every vendor. Never raises: the trouble of one vendor is a note, and none for the others.

    A vendor is a module of this package with a function `find_cards`. It is imported here and not before, and imports
    its vendor's library only when that is there: on a machine without a card this costs nothing worth telling.
    """
    cards: list[Card] = []
    notes: list[str] = []
    vendors: dict[str, Callable[[], list[Card]]] = {
        "NVIDIA": lambda: _module("nvidia").find_cards(),
        "AMD": lambda: _module("amd").find_cards(sysfs_root=sysfs_root, notes=notes),
        "Intel": lambda: _module("intel").find_cards(sysfs_root=sysfs_root),
    }
    for vendor, find in vendors.items():
        try:
            cards += find()
        except CardsUnreadable as trouble:
            cards += trouble.readable
            notes.append(str(trouble))
        except Exception as error:
            notes.append(f"{vendor}: its cards cannot be looked for ({type(error).__name__}: {error})")
    return FoundCards(tuple(cards), tuple(notes))


def _module(name: str) -> Any:
    return importlib.import_module(f"tuner.gpus.{name}")
