"""Values that follow from the machine: context sizes, sets of devices, shares of a model per device."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tuner.domain.facts import Device

CONTEXT_STEP = 256
"""Some engines pad a context to a multiple of 256; others do not mind."""


def context_ladder(least: int, trained: int) -> tuple[int, ...]:
    """Context sizes worth trying, ascending: from what is needed to what the model was trained on.

    Steps of a half and of three quarters: between them nothing changes that anybody would notice.
    """
    sizes = {trained}
    size = trained
    while size > least:
        sizes |= {size, size * 3 // 4}
        size //= 2
    wanted = {size for size in sizes if size >= least} | {min(least, trained)}
    rounded = {-(-size // CONTEXT_STEP) * CONTEXT_STEP for size in wanted}
    return tuple(sorted({min(size, trained) for size in rounded}))


def cards(devices: Sequence[Device]) -> list[list[Device]]:
    """The devices by piece of hardware: a card that two backends see (CUDA0 and Vulkan0) is one card.

    Two devices are the same card when they carry the same name in different backends, the nth of each with the nth.
    """
    found: dict[tuple[str, int], list[Device]] = {}
    for device in devices:
        # RADV and others add the chip's name in parentheses.
        name = re.sub(r"\(.*?\)", "", device.description).strip().lower() or device.name
        backend = _backend(device)
        earlier = [each for each in devices[: devices.index(device)] if _backend(each) == backend]
        nth = sum(re.sub(r"\(.*?\)", "", each.description).strip().lower() == name for each in earlier)
        found.setdefault((name, nth), []).append(device)
    return list(found.values())


def device_choices(devices: Sequence[Device]) -> tuple[str, ...]:
    """All cards together, in the engine's order and reversed (the last one carries the output), and each device alone.

    Where several backends see the same card, all together comes once for each backend: unlike cards of two vendors
    are often fastest with each under its own, and never with one card used twice.
    """
    ways = together(devices)
    both = [order for way in ways for order in (way, ",".join(reversed(way.split(","))))]
    return tuple(dict.fromkeys([*both, *(device.name for device in devices)]))


def together(devices: Sequence[Device]) -> tuple[str, ...]:
    """All cards in the engine's order, once for each backend that sees any of them twice; nothing for a single card."""
    hardware = cards(devices)
    if len(hardware) < 2:
        return ()
    ways = [
        ",".join(next((d.name for d in card if _backend(d) == backend), card[0].name) for card in hardware)
        for backend in dict.fromkeys(_backend(device) for device in devices)
    ]
    return tuple(dict.fromkeys(ways))


def _backend(device: Device) -> str:
    """The part of a device's name before its number: CUDA, Vulkan, ROCm."""
    return device.name.rstrip("0123456789")


def split_choices(devices: Sequence[Device]) -> tuple[str, ...]:
    """Shares in percent around the ratio of free memory, tilted towards each card; the plain ratio comes first.

    Two devices get every five percent from 10 to 90; for more, each device in turn gets 10 and 20 points more or less.
    One card has nothing to share.
    """
    hardware = [card[0] for card in cards(devices)]
    if len(hardware) < 2:
        return ()
    memory = [device.free_mib or device.total_mib or 1 for device in hardware]
    shares = [100 * part / sum(memory) for part in memory]
    if len(hardware) == 2:
        first = min(90, max(10, 5 * round(shares[0] / 5)))
        others = [share for share in range(10, 95, 5) if share != first]
        return tuple(f"{share},{100 - share}" for share in [first, *others])
    splits = [shares]
    for index in range(len(hardware)):
        for tilt in (10, -10, 20, -20):
            rest = 100 - shares[index]
            tilted = [share * (rest - tilt) / rest if rest else share for share in shares]
            tilted[index] = shares[index] + tilt
            if min(tilted) >= 2:
                splits.append(tilted)
    return tuple(dict.fromkeys(",".join(str(round(share)) for share in split) for split in splits))
