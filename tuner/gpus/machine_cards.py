"""The cards of this machine, as a study uses them: read before, during and after a launch, and held to power caps."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from tuner.domain.facts import Device
from tuner.domain.gpu import GpuIdentity, GpuReading, PowerCap
from tuner.domain.record import Owner
from tuner.gpus.boot_unit import boot_unit
from tuner.gpus.cap_file import CapFile
from tuner.gpus.cap_steps import cap_steps
from tuner.gpus.caps import CapOutcome, PowerCaps, restore_caps
from tuner.gpus.card import Card
from tuner.gpus.find import find_cards
from tuner.gpus.idle import idle_readings, wait_until_drained
from tuner.gpus.join import Joining, join_devices
from tuner.gpus.recorder import GpuRecorder

SYSFS_VARIABLE = "TUNER_SYSFS"
"""A hook for tests: where the kernel's files are instead of /sys."""
STATE_VARIABLE = "TUNER_STATE"
"""Where what belongs to the machine and to no study is kept, instead of the user's own folder of states."""


class MachineCards:
    """All cards that can be read; there may be none, and then nothing here costs anything."""

    def __init__(self, owner: Owner) -> None:
        """`owner` is this process: what it changes is written down under its name."""
        self._owner = owner

    @cached_property
    def _found(self) -> tuple[tuple[Card, ...], tuple[str, ...]]:
        found = find_cards(Path(os.environ.get(SYSFS_VARIABLE) or "/sys"))
        return found.cards, found.notes

    @property
    def _cards(self) -> tuple[Card, ...]:
        return self._found[0]

    @property
    def notes(self) -> tuple[str, ...]:
        """What hinders reading a card, for a person."""
        return self._found[1]

    @cached_property
    def _caps(self) -> PowerCaps:
        return PowerCaps(self._cards, cap_file(), self._owner)

    @property
    def identities(self) -> tuple[GpuIdentity, ...]:
        """Which cards there are."""
        return tuple(card.identity for card in self._cards)

    def device_order(self) -> dict[str, str]:
        """Variables that make an engine count several NVIDIA cards as their driver and its tools do."""
        several = sum(card.vendor == "NVIDIA" for card in self.identities) > 1
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if several else {}

    def joined(self, devices: Sequence[Device], bus_ids: Mapping[str, str], env: Mapping[str, str]) -> Joining:
        """Which of the engine's devices is which card; see `tuner.gpus.join`."""
        return join_devices(devices, self.identities, bus_ids=bus_ids, environment=env)

    def idle(self) -> tuple[GpuReading, ...]:
        """One look at every card, in the order of `identities`."""
        return idle_readings(self._cards)

    def holders(self) -> list[list[str]]:
        """For each card the programs that hold memory on it, in words."""
        return [
            [
                f"{process.name or 'process'} {process.pid}"
                + (f" ({process.used_mib:.0f} MiB)" if process.used_mib else "")
                for process in card.processes()
            ]
            for card in self._cards
        ]

    def record(self, csv_path: Path, idle: Sequence[GpuReading]) -> GpuRecorder:
        """Samples all cards while its context is open."""
        return GpuRecorder(self._cards, csv_path, idle)

    def not_drained(self, idle: Sequence[GpuReading], deadline_s: float) -> list[str]:
        """Waits until every card holds no more than before; what still does at the deadline, in words."""
        return [str(left) for left in wait_until_drained(self._cards, idle, deadline_s=deadline_s)]

    def power_caps(self) -> list[PowerCap | None]:
        """The cap of every card and its limits, in the order of `identities`."""
        return [card.power_cap() for card in self._cards]

    def steps(self, cap: PowerCap) -> tuple[float, ...]:
        """The caps worth trying, in watts."""
        return cap_steps(cap)

    def hold(self, key: str, watts: float) -> CapOutcome:
        """Holds a card to a cap until `restore`; what it had is on disk before."""
        return self._caps.hold(self._card(key), watts)

    def changed_caps(self) -> list[str]:
        """The caps that are no longer what was set, in words."""
        return [str(outcome) for outcome in self._caps.changed()]

    def restore(self) -> list[CapOutcome]:
        """Gives every card its former cap back, also after an earlier process that was killed."""
        path = cap_file()
        if not path.is_file():
            return []
        return restore_caps(path, self._cards, self._owner)

    def cap_command(self, key: str, watts: float) -> str:
        """What sets the cap by hand."""
        return self._card(key).cap_command(watts)

    def boot_unit(self, commands: Sequence[str]) -> str:
        """A systemd unit that sets caps again after a restart."""
        return boot_unit(commands)

    def _card(self, key: str) -> Card:
        return next(card for card in self._cards if card.identity.key == key)


def cap_file() -> Path:
    """Where the former caps are kept while some are changed: one place for the whole machine and user."""
    if folder := os.environ.get(STATE_VARIABLE):
        return Path(folder) / "power-caps.json"
    states = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(states) / "llm-engine-tuner" / "power-caps.json"


def cap_owner() -> Owner | None:
    """The process that has changed caps and not restored them yet. Raises BadInput for a damaged file."""
    saved = CapFile(cap_file()).read()
    return None if saved is None else saved.owner
