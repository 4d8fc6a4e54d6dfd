"""The order in which CUDA counts the cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tuner.domain.gpu import GpuIdentity
from tuner.gpus.pci import bus_order


def cuda_cards(cards: Sequence[GpuIdentity], environment: Mapping[str, str]) -> list[int] | None:
    """The places in `cards` of what CUDA calls 0, 1 ... under these variables; None where that is not certain.

    By CUDA's programming guide (environment variables): the order is that of the PCI bus only with
    `CUDA_DEVICE_ORDER=PCI_BUS_ID`; `CUDA_VISIBLE_DEVICES` picks and reorders by number, or by the beginning of an UUID,
    and ends at the first entry that is none.
    """
    nvidia = [index for index, card in enumerate(cards) if card.vendor == "NVIDIA"]
    in_order: list[int] | None = None
    if environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" and all(cards[index].pci_bus_id for index in nvidia):
        in_order = sorted(nvidia, key=lambda index: bus_order(cards[index].pci_bus_id or ""))
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return in_order
    chosen: list[int] = []
    for entry in (part.strip() for part in visible.split(",")):
        if entry.startswith("GPU-"):
            meant = [index for index in nvidia if (cards[index].uuid or "").startswith(entry)]
            if len(meant) != 1:
                return None
            chosen += meant
        elif entry.isdigit() and in_order is not None:
            if int(entry) >= len(in_order):
                return chosen
            chosen.append(in_order[int(entry)])
        else:
            return chosen if in_order is not None else None
    return chosen
