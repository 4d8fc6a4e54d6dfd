"""What a graphics card says of itself. Unknown is None, never 0."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

POWER_CAP = "power cap"
CLOCKS_SET = "clocks set"
"""By a person or a program: application clocks, locked clocks, clocks kept equal among cards or for a display."""
CURRENT_LIMIT = "current limit"
"""The card's own limit at full load: as usual there as its power cap."""
SETTINGS = frozenset({POWER_CAP, CLOCKS_SET, CURRENT_LIMIT})
"""The reasons in `throttled_by` that belong to how a card is set. Every other one is heat or a fault."""


class GpuIdentity(BaseModel):
    """Which card it is."""

    model_config = ConfigDict(frozen=True)

    vendor: str
    """`NVIDIA`, `AMD` or `Intel`."""
    name: str
    pci_bus_id: str | None = None
    """Lower case, with a four-digit domain: `0000:03:00.0`."""
    uuid: str | None = None
    total_mib: float | None = None
    driver: str | None = None
    """The driver's version."""
    source: str
    """Where its readings come from: `NVML`, `amdsmi` or `sysfs`."""

    @property
    def key(self) -> str:
        """What tells this card from every other of the machine, also after a reboot."""
        return self.uuid or self.pci_bus_id or self.name


class GpuReading(BaseModel):
    """One look at a card."""

    model_config = ConfigDict(frozen=True)

    used_mib: float | None = None
    """Held by all programs together, without what the driver keeps for itself where that is told apart."""
    reserved_mib: float | None = None
    """Kept by the driver."""
    spill_mib: float | None = None
    """Host memory that the driver uses in place of the card's own (AMD: GTT)."""
    power_w: float | None = None
    energy_j: float | None = None
    """A counter that only grows."""
    temperature_c: float | None = None
    memory_temperature_c: float | None = None
    core_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    throttled_by: tuple[str, ...] | None = None
    """Why the clocks are held down, in words, idleness excepted; empty when they are not. None: not told.

    What somebody asked for has the words in `SETTINGS`.
    """
    pcie_rx_mib_s: float | None = None
    """From the host to the card."""
    pcie_tx_mib_s: float | None = None
    on_battery: bool | None = None


class PowerCap(BaseModel):
    """The power that a card may draw, and what its hardware allows to set. All in watts."""

    model_config = ConfigDict(frozen=True)

    cap_w: float
    min_w: float
    max_w: float
    default_w: float | None = None


class GpuProcess(BaseModel):
    """A program that holds memory on a card."""

    model_config = ConfigDict(frozen=True)

    pid: int
    used_mib: float | None = None
    name: str | None = None


class GpuUse(BaseModel):
    """What a card did while a workload ran."""

    model_config = ConfigDict(frozen=True)

    key: str
    """See `GpuIdentity.key`."""
    name: str
    device: str | None = None
    """What the engine calls it; None where that is not known for certain."""
    samples: int
    memory_idle_mib: float | None = None
    """Held before the engine was started."""
    memory_peak_mib: float | None = None
    spill_growth_mib: float | None = None
    """Host memory that came to stand in for the card's own, at its peak, beyond the idle reading."""
    power_mean_w: float | None = None
    power_peak_w: float | None = None
    energy_j: float | None = None
    """By the card's own counter where it has one, else mean power times time."""
    temperature_max_c: float | None = None
    core_clock_mean_mhz: float | None = None
    core_clock_min_mhz: float | None = None
    throttled_share: float | None = None
    """Share of the samples in which heat or the hardware held the clocks down; a power cap does not count."""
    throttled_by: tuple[str, ...] = ()
    """Every reason that was seen, a power cap included."""
    pcie_rx_peak_mib_s: float | None = None
    power_cap_w: float | None = None
    """In force before and after the workload; None where it is unknown or changed meanwhile."""
