"""What graphics cards are and did, for a terminal."""

from __future__ import annotations

from tuner.domain.gpu import GpuIdentity, GpuReading, GpuUse, PowerCap
from tuner.domain.measurement import Measurement


def card_lines(measurement: Measurement) -> list[str]:
    """What each card that worked held, drew and reached, one line a card."""
    tokens = sum(result.generated_tokens or 0 for result in measurement.cells)
    return [line for use in measurement.gpus if (line := _card_line(use, tokens))]


def _card_line(use: GpuUse, tokens: int) -> str:
    told = []
    if use.memory_peak_mib is not None:
        told.append(f"{use.memory_peak_mib:.0f} MiB at its peak")
    if use.spill_growth_mib:
        told.append(f"{use.spill_growth_mib:.0f} MiB in host memory")
    if use.power_mean_w is not None and use.power_peak_w is not None:
        told.append(f"{use.power_mean_w:.0f} W (up to {use.power_peak_w:.0f})")
    if use.energy_j is not None and tokens:
        told.append(f"{use.energy_j / tokens:.2f} J a generated token, prefill included")
    if use.temperature_max_c is not None:
        told.append(f"{use.temperature_max_c:.0f} °C")
    if use.throttled_share:
        told.append(f"held down {use.throttled_share:.0%} of the time")
    name = f"{use.device}, {use.name}" if use.device else use.name
    return f"{name}: {', '.join(told)}" if told else ""


def card_cells(card: GpuIdentity, reading: GpuReading, cap: PowerCap | None) -> tuple[str, ...]:
    """A card as one row: name, bus, memory, power, cap with its limits, temperature, source."""
    limits = "not told" if cap is None else f"{cap.cap_w:.0f} W ({cap.min_w:.0f} to {cap.max_w:.0f})"
    return (
        f"{card.name}" + (f", driver {card.driver}" if card.driver else ""),
        card.pci_bus_id or "not told",
        f"{_told(reading.used_mib)} of {_told(card.total_mib)} MiB",
        f"{_told(reading.power_w)} W",
        limits,
        f"{_told(reading.temperature_c)} °C",
        card.source,
    )


def _told(value: float | None) -> str:
    return "?" if value is None else f"{value:.0f}"
