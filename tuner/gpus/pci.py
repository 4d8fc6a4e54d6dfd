"""PCI bus ids: what tells twins apart, and what engines and drivers write in different ways."""

from __future__ import annotations

import re

_BUS_ID = re.compile(
    r"(?<![0-9a-f])(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])(?![0-9a-f])", re.IGNORECASE
)


def normal_bus_id(text: str) -> str | None:
    """The bus id in `text` as `0000:03:00.0`; None if there is none.

    NVML writes eight digits of domain and capitals, lspci leaves the domain out, llama.cpp puts brackets around it.
    """
    found = _BUS_ID.search(text)
    if found is None:
        return None
    domain, bus, device, function = found.groups()
    return f"{int(domain or '0', 16):04x}:{bus.lower()}:{device.lower()}.{function}"


def bus_order(bus_id: str) -> tuple[int, ...]:
    """A key that sorts normal bus ids as the PCI bus does."""
    return tuple(int(part, 16) for part in re.split(r"[:.]", bus_id))
