"""Cards of all vendors: the trouble of one is none for the others."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from plain_card import PlainCard

from tuner.gpus.card import CardsUnreadable
from tuner.gpus.find import find_cards


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts a function in the place of a vendor's."""

    def put(name: str, find: Callable[..., object]) -> None:
        module = ModuleType(f"tuner.gpus.{name}")
        module.find_cards = find  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)

    for name in ("nvidia", "amd", "intel"):
        put(name, lambda **_: [])
    return put


def test_cards_of_all_vendors_in_one_order(vendor: Callable[..., None], tmp_path: Path) -> None:
    cards = {name: PlainCard(name) for name in ("nvidia", "amd", "intel")}
    roots: list[Path] = []

    def found(name: str) -> Callable[..., object]:
        def find(sysfs_root: Path, notes: list[str] | None = None) -> list[PlainCard]:
            roots.append(sysfs_root)
            if notes is not None:
                notes.append(f"of {name}")
            return [cards[name]]

        return find

    vendor("nvidia", lambda: [cards["nvidia"]])
    vendor("amd", found("amd"))
    vendor("intel", found("intel"))
    told = find_cards(tmp_path)
    assert told.cards == tuple(cards.values())
    assert roots == [tmp_path, tmp_path]
    assert told.notes == ("of amd",), "what a vendor tells beside its cards"


@pytest.mark.parametrize("error", [KeyError("libamd_smi.so"), ImportError("no such module"), OSError("broken")])
def test_whatever_a_vendor_raises_is_a_note(vendor: Callable[..., None], error: Exception) -> None:
    card = PlainCard()

    def raises(**_: object) -> None:
        raise error

    vendor("amd", raises)
    vendor("nvidia", lambda: [card])
    told = find_cards()
    assert told.cards == (card,)
    (note,) = told.notes
    assert note.startswith("AMD")
    assert type(error).__name__ in note


def test_what_can_be_read_nevertheless_is_kept(vendor: Callable[..., None]) -> None:
    card = PlainCard()

    def raises() -> None:
        raise CardsUnreadable("NVIDIA: one card is lost", readable=[card])

    vendor("nvidia", raises)
    told = find_cards()
    assert (told.cards, told.notes) == ((card,), ("NVIDIA: one card is lost",))


def test_a_vendor_that_cannot_be_imported_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tuner.gpus.nvidia", None)
    assert any(note.startswith("NVIDIA") for note in find_cards(Path("nowhere")).notes)
