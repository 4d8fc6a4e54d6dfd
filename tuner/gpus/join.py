"""Which of the engine's devices is which card. Twins are never guessed at."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from tuner.domain.facts import Device
from tuner.domain.gpu import GpuIdentity
from tuner.gpus.cuda_order import cuda_cards
from tuner.gpus.names import names_agree, names_differ, vendor_of
from tuner.gpus.pci import normal_bus_id

_SAME_MEMORY = 0.05
_SAME_MEMORY_MIB = 400.0
"""Engines leave out what the driver keeps for itself: 2 % of a 24 GB card, nearly 5 % of one with 4 GB."""


class JoinedBy(StrEnum):
    """How it is known that a device is a card, the surest first."""

    BUS_ID = "PCI bus id"
    NAME_AND_MEMORY = "name and memory"
    NAME = "name alone"
    """Where one of the two does not tell its memory."""
    VENDOR_AND_MEMORY = "vendor and memory"
    """Where one of the two does not tell its model."""
    CUDA_ORDER = "CUDA's order"


class DeviceJoin(BaseModel):
    """One device of the engine and its card."""

    model_config = ConfigDict(frozen=True)

    device: str
    """Its name, as the engine lists it."""
    card: int
    """Its place in the cards that were given."""
    how: JoinedBy


class Unjoined(BaseModel):
    """A device of the engine of which it is not known which card it is."""

    model_config = ConfigDict(frozen=True)

    device: str
    why: str
    advice: str | None = None


class Joining(BaseModel):
    """What became of all devices, in the engine's order."""

    model_config = ConfigDict(frozen=True)

    joined: tuple[DeviceJoin, ...]
    unjoined: tuple[Unjoined, ...]

    def card_of(self, device: str) -> int | None:
        """The place of a device's card in the cards that were given; None if that is not known."""
        return next((join.card for join in self.joined if join.device == device), None)

    def told(self, cards: Sequence[GpuIdentity]) -> list[str]:
        """Which device is which card, and how that is known, in words."""
        return [
            f"{join.device} is the card at {cards[join.card].pci_bus_id or cards[join.card].name}, by {join.how}"
            for join in self.joined
        ]

    def troubles(self) -> list[str]:
        """The devices of which it is not known which card they are, with what helps."""
        return [
            f"{one.device}: which card it is cannot be told, since {one.why}; its memory and power are not read"
            + (f"; {one.advice}" if one.advice else "")
            for one in self.unjoined
        ]


def join_devices(
    devices: Sequence[Device],
    cards: Sequence[GpuIdentity],
    *,
    bus_ids: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Joining:
    """Finds the card of each device.

    Each way is tried on what the surer ones have left, and counts only where it leads to one card for one device.
    A build with two back ends lists a card twice (`CUDA0`, `Vulkan0`): each back end is joined on its own.

    Args:
        devices: as the engine lists them.
        cards: in any order.
        bus_ids: device name to PCI bus id, in any spelling, where the engine tells it.
        environment: of the engine. With `CUDA_DEVICE_ORDER=PCI_BUS_ID` CUDA counts as NVML does, so that twins can
            be told apart; its own default is the fastest first.
    """
    by_backend: dict[str, list[Device]] = defaultdict(list)
    for device in devices:
        by_backend[_backend(device)].append(device)
    found: dict[str, DeviceJoin] = {}
    for backend, members in by_backend.items():
        if backend != "RPC":  # The cards of other machines.
            _join_backend(backend, members, cards, bus_ids or {}, environment or {}, found)
    unjoined = [_unjoined(device, by_backend, cards) for device in devices if device.name not in found]
    return Joining(
        joined=tuple(found[device.name] for device in devices if device.name in found), unjoined=tuple(unjoined)
    )


def _join_backend(
    backend: str,
    members: Sequence[Device],
    cards: Sequence[GpuIdentity],
    bus_ids: Mapping[str, str],
    environment: Mapping[str, str],
    found: dict[str, DeviceJoin],
) -> None:
    def same_bus_id(device: Device, card: int) -> bool:
        told = normal_bus_id(bus_ids.get(device.name, ""))
        return told is not None and told == cards[card].pci_bus_id

    ordered = cuda_cards(cards, environment) if backend == "CUDA" else None
    if ordered is not None and len(ordered) != len(members):
        ordered = None  # CUDA leaves out a card that NVML knows, so that the places are not the same.

    def same_name(device: Device, card: int) -> bool:
        return _may_be(device, cards[card]) and names_agree(device.description, cards[card].name)

    def memory_known(device: Device, card: int) -> bool:
        return device.total_mib is not None and cards[card].total_mib is not None

    def same_place(device: Device, card: int) -> bool:
        return ordered is not None and ordered[members.index(device)] == card and _may_be(device, cards[card])

    ways: dict[JoinedBy, Callable[[Device, int], bool]] = {
        JoinedBy.BUS_ID: same_bus_id,
        JoinedBy.NAME_AND_MEMORY: lambda device, card: same_name(device, card) and memory_known(device, card),
        JoinedBy.NAME: same_name,
        JoinedBy.VENDOR_AND_MEMORY: lambda device, card: (
            _may_be(device, cards[card]) and vendor_of(device.description) is not None and memory_known(device, card)
        ),
        JoinedBy.CUDA_ORDER: same_place,
    }
    for how, fits in ways.items():
        # A device whose bus id is told is that card or none that is known here.
        open_devices = [
            device
            for device in members
            if device.name not in found and (how is JoinedBy.BUS_ID or device.name not in bus_ids)
        ]
        taken = {found[device.name].card for device in members if device.name in found}
        free = [card for card in range(len(cards)) if card not in taken]
        pairs = [(device, card) for device in open_devices for card in free if fits(device, card)]
        for device, card in pairs:
            rivals = [pair for pair in pairs if pair[0] == device or pair[1] == card]
            if len(rivals) == 1:
                found[device.name] = DeviceJoin(device=device.name, card=card, how=how)


def _backend(device: Device) -> str:
    """`CUDA` of `CUDA0`, `RPC` of `RPC0[10.0.0.2:50052]`."""
    found = re.match(r"[A-Za-z]+", device.name)
    return found.group() if found else device.name


def _may_be(device: Device, card: GpuIdentity) -> bool:
    """Whether nothing that is known of vendor, model and memory speaks against it."""
    if vendor_of(device.description) not in (card.vendor, None) or names_differ(device.description, card.name):
        return False
    if device.total_mib is None or card.total_mib is None:
        return True
    return abs(device.total_mib - card.total_mib) <= max(_SAME_MEMORY * card.total_mib, _SAME_MEMORY_MIB)


def _unjoined(device: Device, by_backend: Mapping[str, Sequence[Device]], cards: Sequence[GpuIdentity]) -> Unjoined:
    backend = _backend(device)
    if backend == "RPC":
        return Unjoined(device=device.name, why="it is a card of another machine")
    alike = [card for card in cards if _may_be(device, card)]
    if not alike:
        return Unjoined(device=device.name, why="no card that can be read has its name and memory")
    twins = [other.name for other in by_backend[backend] if other.name != device.name and _may_be(other, alike[0])]
    why = f"{len(alike)} card{'s' * (len(alike) > 1)} could be it" + (f", or {', '.join(twins)}" if twins else "")
    advice = None
    if backend == "CUDA":
        advice = "set CUDA_DEVICE_ORDER=PCI_BUS_ID for the engine, in your own command too: then the order tells"
    return Unjoined(device=device.name, why=why, advice=advice)
