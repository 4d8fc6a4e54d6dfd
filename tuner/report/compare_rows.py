"""The rows of a comparison: every figure that studies measured, those that were measured alike in one row."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tuner.domain.measurement import CellResult, Measurement
from tuner.domain.profile import Profile
from tuner.domain.workload import Content
from tuner.report.compare import Arm
from tuner.report.compare_alike import How, how_decoded, how_prefilled
from tuner.report.key_figures import worst_nats


@dataclass(frozen=True)
class Figure:
    """A metric of one configuration: the median of its launches and their range."""

    median: float
    least: float
    most: float
    launches: int


@dataclass(frozen=True)
class Row:
    """One metric, measured alike by every study that has a figure in it."""

    metric: str
    """`prefill`, `decode`, `total`, `acceptance_rate`, `acceptance_length`, `context`, `proven_context`,
    `quality_nats`, `cards_peak`, `buffers`, `host_peak`."""
    unit: str
    content: Content | None
    """None where the figure belongs to no kind of text: the cold prompts of prefill are mixed."""
    depth: int | None
    streams: int
    how: How
    figures: dict[str, Figure]
    """Study -> its figure."""

    @property
    def is_shared(self) -> bool:
        """Whether there is anything to compare in it."""
        return len(self.figures) > 1

    def matters_to(self, profiles: Sequence[Profile]) -> bool:
        """Whether one of the profiles weighs it, or it belongs to every configuration."""
        return self.content is None or any(
            self.content in profile.contents and self.streams == profile.streams for profile in profiles
        )


_OfACell = tuple[str, str, Callable[[CellResult], float | None]]

_OF_A_CELL: tuple[_OfACell, ...] = (
    ("acceptance_rate", "%", lambda result: _percent(result.acceptance_rate)),
    ("acceptance_length", "tokens", lambda result: result.acceptance_length),
)
_OF_A_LAUNCH: tuple[tuple[str, str, Callable[[Measurement], float | None]], ...] = (
    ("context", "tokens", lambda measurement: measurement.actual.context_per_slot),
    ("proven_context", "tokens", lambda measurement: measurement.proven_context),
    ("quality_nats", "nats", worst_nats),
    ("cards_peak", "MiB", lambda measurement: _cards_peak_mib(measurement)),
    ("buffers", "MiB", lambda measurement: sum(measurement.actual.buffers_mib.values()) or None),
    ("host_peak", "MiB", lambda measurement: measurement.host_rss_peak_mib),
)


def rows(arms: Sequence[Arm]) -> list[Row]:
    """Every figure of the arms' configurations: prefill, decode, totals of several streams, acceptance, memory."""
    found: dict[tuple[object, ...], Row] = {}
    for arm in arms:
        for row, figure in _figures(arm):
            key = (row.metric, row.content, row.depth, row.streams, row.how)
            found.setdefault(key, row).figures[arm.name] = figure
    return sorted(found.values(), key=_order)


_METRICS = ("prefill", "decode", "total", *(each[0] for each in (*_OF_A_CELL, *_OF_A_LAUNCH)))


def _order(row: Row) -> tuple[int, int, int, int]:
    content = list(Content).index(row.content) if row.content is not None else 0
    return _METRICS.index(row.metric), row.streams, content, row.depth or 0


def _figures(arm: Arm) -> Iterator[tuple[Row, Figure]]:
    """Each figure of an arm with the row it belongs to, still empty."""
    frozen = arm.study.frozen
    measured = [trial.measurement for trial in arm.launches if trial.measurement is not None]
    for depth in frozen.workload.depths:
        figure = _figure([one.prefill_at(depth) for one in measured])
        if figure is not None:
            yield Row("prefill", "t/s", None, depth, 1, how_prefilled(frozen), {}), figure
    for cell in frozen.workload.cells:
        how = how_decoded(frozen, cell.content)
        results = [result for one in measured if (result := one.result(cell)) is not None]
        speed: _OfACell = ("decode" if cell.streams == 1 else "total", "t/s", lambda result: result.decode_tps)
        for metric, unit, read in (speed, *_OF_A_CELL):
            figure = _figure([read(result) for result in results])
            if figure is not None:
                yield Row(metric, unit, cell.content, cell.depth, cell.streams, how, {}), figure
    for metric, unit, of in _OF_A_LAUNCH:
        figure = _figure([of(one) for one in measured])
        if figure is not None:
            yield Row(metric, unit, None, None, 1, How(), {}), figure


def _figure(values: Sequence[float | None]) -> Figure | None:
    known = [float(value) for value in values if value is not None]
    return Figure(statistics.median(known), min(known), max(known), len(known)) if known else None


def _percent(rate: float | None) -> float | None:
    return None if rate is None else 100 * rate


def _cards_peak_mib(measurement: Measurement) -> float | None:
    """Of all cards that the engine used, together; None where one of them could not be read."""
    used = [use.memory_peak_mib for use in measurement.gpus if use.device is not None]
    return sum(peak for peak in used if peak is not None) if used and None not in used else None
