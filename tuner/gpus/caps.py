"""Holds cards to power caps, and gives them back as they were: also after kill -9, by the next process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import Enum, StrEnum, auto
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import BaseModel, ConfigDict

from tuner.domain.errors import BadInput, NotPermitted, PowerCapRefused
from tuner.domain.record import Owner
from tuner.gpus.cap_file import CapFile, SavedCap, SavedCaps
from tuner.gpus.card import Card

_SAME_W = 1.0
"""Some cards round to whole watts."""


class CapState(StrEnum):
    """What became of a cap that was asked for."""

    HELD = "held"
    """It reads back as asked."""
    CLAMPED = "clamped"
    """Another value than asked came into force."""
    IGNORED = "ignored"
    """The card took it and kept its former cap."""
    REFUSED = "refused"
    NOT_PERMITTED = "not permitted"
    CHANGED = "changed"
    """It was in force, and is not any more."""
    NOT_TOLD = "not told"
    """The card does not say which cap it has."""
    MISSING = "missing"
    """The card is not there."""
    RESET = "reset"
    """The machine restarted, and with it all caps: what is in force now is not the tuner's doing."""


class CapOutcome(BaseModel):
    """What became of a cap, on one card."""

    model_config = ConfigDict(frozen=True)

    key: str
    """See `GpuIdentity.key`."""
    name: str
    state: CapState
    asked_w: float
    cap_w: float | None = None
    """What the card reads back."""
    detail: str | None = None
    """The driver's own words, or what hinders."""
    advice: str | None = None

    @property
    def in_force(self) -> bool:
        """Whether the card has the cap that was asked for."""
        return self.state is CapState.HELD

    @property
    def settled(self) -> bool:
        """Whether nothing is left to restore."""
        return self.state in (CapState.HELD, CapState.RESET)

    def __str__(self) -> str:
        now = f", it has {self.cap_w:g} W" if self.cap_w is not None and not self.in_force else ""
        why = f" ({self.detail})" if self.detail else ""
        return f"{self.name}: power cap of {self.asked_w:g} W {self.state}{now}{why}"


class PowerCaps:
    """The caps of some cards, as a context manager that restores them at its end.

    Before the first change the caps of all cards are on disk. Where an earlier process has left such a file, what it
    says are the former caps, not what the cards read now: settle it with `restore_caps` at the start of the program.

    Args:
        cards: those that may be held to a cap.
        path: of the file. One for the whole machine, on a disk that outlives a restart: with one a study, a study
            would take for its cards' own what another had lowered before it was killed.
        owner: this process.
    """

    def __init__(self, cards: Sequence[Card], path: Path, owner: Owner) -> None:
        self._cards = cards
        self._file = CapFile(path)
        self._owner = owner
        self._in_force: dict[str, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.restore()

    def hold(self, card: Card, watts: float) -> CapOutcome:
        """Sets a cap and reads it back. What a card does not take is told, and what it had stays restorable.

        Raises:
            NotPermitted: the former caps cannot be written down, so that nothing was changed.
            BadInput: the file with them is damaged or of another machine, likewise.
        """
        key = card.identity.key
        if Counter(one.identity.key for one in self._cards)[key] != 1:
            detail = "the card cannot be told from another of its kind, so its cap could not be restored for certain"
            return CapOutcome(key=key, name=card.identity.name, state=CapState.REFUSED, asked_w=watts, detail=detail)
        if card.power_cap() is None:
            detail = "it has none that can be set"
            return CapOutcome(key=key, name=card.identity.name, state=CapState.NOT_TOLD, asked_w=watts, detail=detail)
        self._save()
        outcome = _set(card, watts)
        if outcome.cap_w is not None:
            self._in_force[key] = outcome.cap_w
        return outcome

    def changed(self) -> list[CapOutcome]:
        """The cards whose cap is not any more what was read back after setting it; to be asked after each trial."""
        told: list[CapOutcome] = []
        for key, expected_w in self._in_force.items():
            card = next(card for card in self._cards if card.identity.key == key)
            outcome = _compared(card, expected_w, CapState.CHANGED)
            if not outcome.in_force:
                told.append(outcome)
        return told

    def restore(self) -> list[CapOutcome]:
        """Gives back every card as it was found; see `restore_caps`."""
        self._in_force.clear()
        return restore_caps(self._file.path, self._cards, self._owner)

    def _save(self) -> None:
        """Writes down the present caps of all cards that are not in the file yet."""
        saved = self._file.read()
        origin = _origin(saved, self._owner)
        if origin is _Origin.OTHER_MACHINE and saved is not None:
            raise BadInput(
                f"The file with the cards' former power caps is of another machine, {saved.owner.host}",
                where=str(self._file.path),
                advice="keep it on a local disk; if it is this machine under another name, delete the file",
            )
        caps = dict(saved.caps) if saved and origin is _Origin.THIS_BOOT else {}
        for card in self._cards:
            cap = card.power_cap()
            if cap is not None and card.identity.key not in caps:
                command = card.cap_command(cap.cap_w)
                caps[card.identity.key] = SavedCap(name=card.identity.name, cap_w=cap.cap_w, command=command)
        now = SavedCaps(owner=self._owner, caps=caps)
        if now != saved:
            self._file.write(now)


def restore_caps(path: Path, cards: Sequence[Card], owner: Owner) -> list[CapOutcome]:
    """Sets every cap that the file holds, reads it back, and removes the file once all are as they were.

    What cannot be restored now, because a card is missing or the right to is, stays in the file. After a restart of
    the machine the caps are lost anyway: the file is removed and nothing is set, for what a card has now was set
    since by somebody else. Make sure that the file's owner (`CapFile.read`) does not live any more.

    Args:
        path: of the file; nothing happens if it is not there.
        cards: all that can be found now.
        owner: this process.

    Returns:
        One outcome a saved card; `settled` says which are done.

    Raises:
        BadInput: the file is damaged.
        NotPermitted: it cannot be read or written.
    """
    file = CapFile(path)
    saved = file.read()
    if saved is None:
        return []
    origin = _origin(saved, owner)
    outcomes: list[CapOutcome] = []
    left: dict[str, SavedCap] = {}
    for key, cap in saved.caps.items():
        outcome = _restored(key, cap, [card for card in cards if card.identity.key == key], origin)
        outcomes.append(outcome)
        if not outcome.settled:
            left[key] = cap
    if left:
        file.write(saved.model_copy(update={"caps": left}))
    else:
        file.remove()
    return outcomes


class _Origin(Enum):
    """Where a file of saved caps comes from, seen from here."""

    THIS_BOOT = auto()
    BEFORE_RESTART = auto()
    OTHER_MACHINE = auto()


def _origin(saved: SavedCaps | None, owner: Owner) -> _Origin:
    """A boot id is of one machine alone, whatever its name: containers have names of their own."""
    if saved is None or saved.owner.boot_id == owner.boot_id:
        return _Origin.THIS_BOOT
    return _Origin.BEFORE_RESTART if saved.owner.host == owner.host else _Origin.OTHER_MACHINE


def _restored(key: str, saved: SavedCap, found: Sequence[Card], origin: _Origin) -> CapOutcome:
    if origin is _Origin.OTHER_MACHINE:
        detail = "it was changed on another machine"
        return CapOutcome(key=key, name=saved.name, state=CapState.MISSING, asked_w=saved.cap_w, detail=detail)
    if origin is _Origin.BEFORE_RESTART:
        cap = found[0].power_cap() if found else None
        cap_w = cap.cap_w if cap else None
        state = CapState.HELD if cap_w is not None and abs(cap_w - saved.cap_w) <= _SAME_W else CapState.RESET
        return CapOutcome(key=key, name=saved.name, state=state, asked_w=saved.cap_w, cap_w=cap_w)
    by_hand = f"sudo {saved.command}"
    if not found:
        return CapOutcome(key=key, name=saved.name, state=CapState.MISSING, asked_w=saved.cap_w, advice=by_hand)
    present = _compared(found[0], saved.cap_w, CapState.CHANGED)
    # Not set where it is the same: that would need a right for nothing.
    outcome = present if present.in_force else _set(found[0], saved.cap_w)
    return outcome if outcome.settled else outcome.model_copy(update={"advice": outcome.advice or by_hand})


def _set(card: Card, watts: float) -> CapOutcome:
    before = card.power_cap()
    try:
        card.set_power_cap(watts)
    except NotPermitted as error:
        told = {"state": CapState.NOT_PERMITTED, "detail": error.what, "advice": error.advice}
        return _compared(card, watts, CapState.NOT_PERMITTED).model_copy(update=told)
    except PowerCapRefused as error:
        told = {"state": CapState.REFUSED, "detail": error.what, "advice": error.advice}
        return _compared(card, watts, CapState.REFUSED).model_copy(update=told)
    after = _compared(card, watts, CapState.CLAMPED)
    if after.state is CapState.CLAMPED and before is not None and after.cap_w == before.cap_w:
        return after.model_copy(update={"state": CapState.IGNORED})
    return after


def _compared(card: Card, watts: float, otherwise: CapState) -> CapOutcome:
    """HELD if the card reads back `watts`, NOT_TOLD if it reads back nothing, else `otherwise`."""
    cap = card.power_cap()
    state = otherwise
    if cap is None:
        state = CapState.NOT_TOLD
    elif abs(cap.cap_w - watts) <= _SAME_W:
        state = CapState.HELD
    return CapOutcome(
        key=card.identity.key,
        name=card.identity.name,
        state=state,
        asked_w=watts,
        cap_w=cap.cap_w if cap else None,
    )
