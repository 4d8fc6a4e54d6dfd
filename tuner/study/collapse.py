"""Silent collapse: an engine that answers as asked, but many times slower than it could, and says nothing.

Memory that spilled to the host, attention that fell back to the CPU: no error, no red health check. Everything is held
against the baseline on the same machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from tuner.domain.measurement import CellResult, Measurement

_CLIFF = 4.0
"""A cell that is so many times slower than its neighbours, each held against the baseline's, has fallen off a cliff."""
_SLOW = 5.0
_SWAP_MIB = 256.0
SPILL_MIB = 256.0
"""Host memory that may come to stand for a card's own without meaning anything: buffers for transfers lie there."""
_TRAFFIC_MIB_S = 2000.0
_TRAFFIC_TIMES = 4.0
_SLOWER = 1.5

_Metric = Callable[[CellResult], float | None]
_METRICS: dict[str, _Metric] = {"prefill": lambda r: r.prefill_tps, "decode": lambda r: r.decode_tps}


def collapse_signs(measurement: Measurement, reference: Measurement | None, layers: int | None) -> list[str]:
    """What shows that a launch collapsed, in words; empty when nothing does.

    `reference` is the baseline's measurement, `layers` the number of the model's layers.
    """
    if reference is None:
        return []
    signs = [sign for name, metric in _METRICS.items() if (sign := _cliff(name, metric, measurement, reference))]
    signs += [sign for sign in (_splits(measurement, reference, layers), _swapped(measurement, reference)) if sign]
    return signs + _spilled(measurement, reference)


def slow_everywhere(measurement: Measurement, reference: Measurement | None) -> list[str]:
    """What is many times slower than in the baseline in every cell: no cliff, but worth an explanation."""
    if reference is None:
        return []
    told = []
    for name, metric in _METRICS.items():
        ratios = [ratio for _, ratio in _ratios(metric, measurement.cells, reference)]
        if ratios and max(ratios) < 1 / _SLOW:
            told.append(
                f"{name} is {1 / median(ratios):.0f} times slower than in the baseline in every cell: "
                "part of the work has probably moved to the CPU"
            )
    return told


def _cliff(name: str, metric: _Metric, measurement: Measurement, reference: Measurement) -> str | None:
    ratios = _ratios(metric, measurement.cells, reference)
    if len(ratios) < 2:
        return None
    worst, ratio = min(ratios, key=lambda pair: pair[1])
    others = median(other for cell, other in ratios if cell is not worst)
    if ratio * _CLIFF > others:
        return None
    return (
        f"{name} in {worst.cell.name} is {others / ratio:.0f} times slower than in the other cells, held against the "
        "baseline: memory that spilled to the host, or a fallback of the engine"
    )


def _ratios(metric: _Metric, cells: Sequence[CellResult], reference: Measurement) -> list[tuple[CellResult, float]]:
    found = []
    for result in cells:
        known = reference.result(result.cell)
        ours, theirs = metric(result), metric(known) if known else None
        if ours and theirs:
            found.append((result, ours / theirs))
    return found


def _splits(measurement: Measurement, reference: Measurement, layers: int | None) -> str | None:
    """A graph that is cut in many more pieces on the same placement: operations move between devices in every layer."""
    ours, theirs = measurement.actual, reference.actual
    if ours.graph_splits is None or theirs.graph_splits is None or layers is None:
        return None
    same_placement = (
        ours.offloaded_layers == theirs.offloaded_layers and ours.buffers_mib.keys() == theirs.buffers_mib.keys()
    )
    if not same_placement or ours.graph_splits < theirs.graph_splits + layers / 2:
        return None
    return (
        f"the engine cuts its graph into {ours.graph_splits} pieces, {theirs.graph_splits} in the baseline: "
        "an operation of every layer, most likely attention, runs on the CPU"
    )


def _spilled(measurement: Measurement, reference: Measurement) -> list[str]:
    """Cards whose driver moved memory to the host, or that read from it all the time where nobody tells of memory."""
    before = {use.key: use for use in reference.gpus}
    decode = [ratio for _, ratio in _ratios(_METRICS["decode"], measurement.cells, reference)]
    signs = []
    for use in measurement.gpus:
        known = before.get(use.key)
        usual_mib = (known.spill_growth_mib or 0.0) if known else 0.0
        usual_traffic = (known.pcie_rx_peak_mib_s or 0.0) if known else 0.0
        grown, traffic = use.spill_growth_mib, use.pcie_rx_peak_mib_s
        name = use.device or use.name
        if grown is not None and grown - usual_mib > SPILL_MIB:
            signs.append(f"{name} ran short: its driver put {grown:.0f} MiB into host memory")
        elif (
            traffic is not None
            and traffic > max(_TRAFFIC_MIB_S, _TRAFFIC_TIMES * usual_traffic)
            and decode
            and median(decode) < 1 / _SLOWER
        ):
            signs.append(
                f"{name} read up to {traffic:.0f} MiB/s over PCIe and decoded more slowly than the baseline: "
                "part of the model or its cache most likely lies in host memory"
            )
    return signs


def _swapped(measurement: Measurement, reference: Measurement) -> str | None:
    grown = measurement.swap_growth_mib or 0.0
    if grown - (reference.swap_growth_mib or 0.0) < _SWAP_MIB:
        return None
    return f"{grown:.0f} MiB of host memory were swapped out while it ran"
