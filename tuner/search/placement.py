"""Values that follow from the machine: context sizes, sets of devices, shares of a model per device."""

from __future__ import annotations

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


def device_choices(devices: Sequence[Device]) -> tuple[str, ...]:
    """All devices together, in the engine's order and reversed (the last one carries the output), and each alone."""
    names = [device.name for device in devices]
    together = [",".join(names), ",".join(reversed(names))] if len(names) > 1 else []
    return (*together, *names)


def split_choices(devices: Sequence[Device]) -> tuple[str, ...]:
    """Shares in percent around the ratio of free memory, tilted towards each device; the plain ratio comes first.

    Two devices get every five percent from 10 to 90; for more, each device in turn gets 10 and 20 points more or less.
    One device has nothing to share.
    """
    if len(devices) < 2:
        return ()
    memory = [device.free_mib or device.total_mib or 1 for device in devices]
    shares = [100 * part / sum(memory) for part in memory]
    if len(devices) == 2:
        first = min(90, max(10, 5 * round(shares[0] / 5)))
        others = [share for share in range(10, 95, 5) if share != first]
        return tuple(f"{share},{100 - share}" for share in [first, *others])
    splits = [shares]
    for index in range(len(devices)):
        for tilt in (10, -10, 20, -20):
            rest = 100 - shares[index]
            tilted = [share * (rest - tilt) / rest if rest else share for share in shares]
            tilted[index] = shares[index] + tilt
            if min(tilted) >= 2:
                splits.append(tilted)
    return tuple(dict.fromkeys(",".join(str(round(share)) for share in split) for split in splits))
