"""What the spread within a launch means for a person: noisy cells and outlying requests."""

from __future__ import annotations

from tuner.domain.measurement import CellResult, Measurement
from tuner.domain.spread import relative_half_width

_NOISY = 0.05


def spread_lines(measurement: Measurement) -> list[str]:
    """One line for each cell that is noisy or has outliers, in words; empty when all is steady."""
    return [line for result in measurement.cells for line in _of_cell(result)]


def _of_cell(result: CellResult) -> list[str]:
    samples = result.decode_tps_samples
    half_width = relative_half_width(samples)
    told = []
    if result.outliers:
        far = ", ".join(f"{value:.1f}" for value in result.outliers)
        told.append(f"{result.cell.name}: {far} t/s lies far from the other {len(samples) - len(result.outliers)}")
    elif half_width is not None and half_width > _NOISY:
        told.append(
            f"{result.cell.name} is noisy: decode {min(samples):.1f} to {max(samples):.1f} t/s in {len(samples)}"
        )
    return told
