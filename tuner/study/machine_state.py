"""The state the machine is in: what would falsify a measurement is told, waited for, or ends the run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from tuner.domain.errors import MachineBusy
from tuner.domain.facts import Device
from tuner.domain.gpu import SETTINGS, GpuReading, GpuUse
from tuner.domain.measurement import Measurement
from tuner.study.kit import Kit
from tuner.study.protocols import Cards

_DRAIN_S = 30.0
"""Drivers give back the memory of a large model within some ten seconds."""
_PAUSE_S = 3600.0
"""How long the study pauses for memory that does not come back, before it ends with a message."""
_CREEP_MIB = 512.0
_OTHERS_MIB = 300.0
_COOLING_S = 120.0
_COOLING_STEP_S = 2.0
_COOL_C = 10.0
"""So many degrees above its idle temperature a card counts as cooled."""
_THROTTLED_SHARE = 0.2


def wait_for_memory(kit: Kit, idle: Sequence[GpuReading]) -> None:
    """Returns when the cards hold no more than before the launch; pauses the study as long as they do.

    Raises:
        MachineBusy: they still do after the pause. Everything measured is kept.
    """
    left = kit.cards.not_drained(idle, _DRAIN_S)
    if not left:
        return
    kit.observer.note(f"paused: memory of the last launch has not come back: {'; '.join(left)}")
    left = kit.cards.not_drained(idle, _PAUSE_S)
    if left:
        raise MachineBusy(
            f"Memory of the last launch does not come back: {'; '.join(left)}",
            advice="end what holds it, or restart the machine; then `tuner run` continues the study",
        )
    kit.observer.note("the memory has come back; the study goes on")


def crept(uses: Sequence[GpuUse], reference: Measurement | None) -> list[str]:
    """The cards that held more before this launch than before the baseline's, in words."""
    before = {use.key: use.memory_idle_mib for use in reference.gpus} if reference is not None else {}
    told = []
    for use in uses:
        then = before.get(use.key)
        if then is not None and use.memory_idle_mib is not None and use.memory_idle_mib - then > _CREEP_MIB:
            grown = use.memory_idle_mib - then
            told.append(f"{use.name} held {grown:.0f} MiB more before this launch than before the baseline's")
    return told


def warnings(cards: Cards, devices: Sequence[Device], env: Mapping[str, str]) -> list[str]:
    """What in the machine's present state would falsify measurements, with advice; one sentence each.

    `devices` are those of the engine under the variables `env`.
    """
    told = list(cards.notes)
    if cards.identities and devices:
        told += cards.joined(devices, {}, env).troubles()
    readings = cards.idle()
    for card, reading, holders in zip(cards.identities, readings, cards.holders(), strict=True):
        if reading.used_mib is not None and reading.used_mib > _OTHERS_MIB:
            by = f" ({', '.join(holders)})" if holders else ""
            told.append(
                f"{card.name}: other programs hold {reading.used_mib:.0f} MiB{by}; "
                "end them, or what fits tonight may not fit tomorrow"
            )
        hot = [reason for reason in reading.throttled_by or () if reason not in SETTINGS]
        if hot:
            told.append(f"{card.name} is held down already ({', '.join(hot)}): look at its cooling")
    if any(reading.on_battery for reading in readings):
        told.append("the machine runs on battery: plug it in, or the figures are those of a machine that saves power")
    return told


def throttled(uses: Sequence[GpuUse]) -> list[str]:
    """The cards that heat or the hardware held down for much of a workload, in words."""
    return [
        f"{use.name} was held down for {use.throttled_share:.0%} of the time "
        f"({', '.join(reason for reason in use.throttled_by if reason not in SETTINGS)})"
        for use in uses
        if use.throttled_share is not None and use.throttled_share > _THROTTLED_SHARE
    ]


def is_steady(reference: Measurement | None) -> bool:
    """Whether the baseline was throttled too: then this is how the machine always runs, and no accident."""
    return reference is not None and bool(throttled(reference.gpus))


def cool_down(kit: Kit, idle: Sequence[GpuReading]) -> None:
    """Waits until the cards are nearly as cool as before the launch, two minutes at most."""
    deadline = time.monotonic() + _COOLING_S
    while time.monotonic() < deadline:
        now = kit.cards.idle()
        warm = [
            True
            for before, reading in zip(idle, now, strict=True)
            if before.temperature_c is not None
            and reading.temperature_c is not None
            and reading.temperature_c > before.temperature_c + _COOL_C
        ]
        if not warm:
            return
        time.sleep(_COOLING_STEP_S)
