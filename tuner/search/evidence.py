"""What the told trials say, as tables: speeds of what ran well, room in memory, and what failed for other reasons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuner.domain.measurement import Measurement
from tuner.domain.profile import Profile
from tuner.domain.record import TrialRecord
from tuner.domain.verdict import Outcome
from tuner.domain.workload import Cell, Workload
from tuner.search.canonical import Canonical, CanonicalSpace

Array = NDArray[np.float64]

_FITS, _MISFITS = 0.02, -0.03
"""Room in memory, as a share of the device, that an observed end stands for when the projection says otherwise."""
_PLACED = 0.05
"""Room of what the engine placed by itself."""


@dataclass(frozen=True)
class Aim:
    """A score to raise: weights of the logarithms of prefill, decode and context, and what makes up the first two.

    `by_depth` and `by_cell` each sum to one; so do the three weights.
    """

    prefill: float
    decode: float
    context: float
    by_depth: dict[int, float]
    by_cell: dict[Cell, float]
    least_context: int = 0
    streams: int = 1

    @classmethod
    def of(cls, profile: Profile, workload: Workload) -> Aim:
        """The score that `Profile.log_score` computes, and the profile's needs."""
        shares = profile.depth_weights(workload.depths)
        total = profile.prefill + profile.decode + profile.context
        contents = sum(profile.contents.values())
        by_cell = {
            Cell(content=content, depth=depth, streams=profile.streams): share * weight / contents
            for depth, share in shares.items()
            for content, weight in profile.contents.items()
        }
        weights = (profile.prefill / total, profile.decode / total, profile.context / total)
        return cls(*weights, shares, by_cell, profile.least_context, profile.streams)

    @classmethod
    def even(cls, profiles: Sequence[Profile], workload: Workload) -> Aim:
        """The study's raw metrics, all cells alike, for whoever is served with the least."""
        depths, cells = workload.depths, workload.cells
        return cls(
            prefill=1 / 3,
            decode=1 / 3,
            context=1 / 3,
            by_depth=dict.fromkeys(depths, 1 / len(depths)),
            by_cell=dict.fromkeys(cells, 1 / len(cells)),
            least_context=min((profile.least_context for profile in profiles), default=0),
            streams=min((profile.streams for profile in profiles), default=1),
        )


class Evidence:
    """The told trials of a study."""

    def __init__(self, space: CanonicalSpace, workload: Workload, records: Sequence[TrialRecord]) -> None:
        self._space = space
        self._context_at = _place(space, "context")
        self._streams_at = _place(space, "streams")
        self.known = {space.of(record.configuration) for record in records if _says_something(record)}
        """What must not be proposed: measured, failed, refused, or running."""
        told = [record for record in records if record.verdict is not None]
        self.launched = [
            r for r in told if r.verdict is not None and r.verdict.outcome.was_loaded and _says_something(r)
        ]
        self.measured = [r for r in self.launched if _is_measured(r)]
        self.projected = [r for r in told if r.projection is not None or (_is_measured(r) and not r.is_baseline)]
        self.configurations = [self._as_it_ran(record) for record in self.measured]
        """What was measured, with the context that the engine really gave."""
        actual = [measurement.actual for measurement in self._measurements()]
        given = [found.context_per_slot for found in actual if found.context_per_slot]
        self._usual_context = float(np.median(given)) if given else 1.0
        self._usual_streams = max((found.slots or 1 for found in actual), default=1)
        self._ratios: dict[int, float] = {}
        self.depths = list(workload.depths)
        self.cells = list(workload.cells)
        self.prefill = _filled([[_log(r.prefill_at(d)) for d in self.depths] for r in self._measurements()])
        """Natural logarithms, one row a measured trial, one column a depth; a gap is filled from its row and column."""
        self.decode = _filled([[_log(_speed(r, c)) for c in self.cells] for r in self._measurements()])

    def context(self, canonical: Canonical) -> float:
        """The tokens of context that a slot of this configuration gets."""
        asked = _number(canonical, self._context_at)
        return self._usual_context if asked is None else asked * self._context_ratio(self.streams(canonical))

    def streams(self, canonical: Canonical) -> int:
        """The slots of this configuration, as far as it says."""
        asked = _number(canonical, self._streams_at)
        return self._usual_streams if asked is None else int(asked)

    def meets(self, canonical: Canonical, aim: Aim) -> bool:
        """Whether a configuration has the context and the slots that an aim needs."""
        return self.context(canonical) >= aim.least_context and self.streams(canonical) >= aim.streams

    def outputs(self, aim: Aim) -> tuple[Array, Array]:
        """The aim's prefill and decode of every measured trial, in natural logarithms; nan where one is missing."""
        depths = np.array([aim.by_depth.get(depth, 0.0) for depth in self.depths])
        cells = np.array([aim.by_cell.get(cell, 0.0) for cell in self.cells])
        return self.prefill @ depths, self.decode @ cells

    def room(self) -> tuple[list[Canonical], Array]:
        """Configurations, and the share of the fullest device that stays free, corrected by what happened."""
        room = []
        for record in self.projected:
            outcome = _outcome(record)
            projection = record.projection
            share = _PLACED
            if projection is not None:
                shares = [
                    1 - needed / projection.free_mib[device]
                    for device, needed in projection.needed_mib.items()
                    if projection.free_mib.get(device)
                ]
                share = min(shares, default=_PLACED)
            if outcome in (Outcome.OUT_OF_MEMORY, Outcome.WILL_NOT_FIT):
                share = min(share, _MISFITS)
            elif outcome is Outcome.OK:
                share = max(share, _FITS)
            room.append(max(share, -1.0))
        return [self._space.of(record.configuration) for record in self.projected], np.array(room)

    def failures(self) -> tuple[list[Canonical], Array]:
        """Everything that was launched, with 1 for what did not come to its end and 0 for what did."""
        ends = [float(_outcome(record) is not Outcome.OK) for record in self.launched]
        return [self._space.of(record.configuration) for record in self.launched], np.array(ends)

    def costs(self) -> tuple[list[Canonical], Array]:
        """What ran to its end without being cut short, and the logarithms of the seconds that it took."""
        took = [
            (canonical, math.log(record.seconds))
            for canonical, record in zip(self.configurations, self.measured, strict=True)
            if record.seconds and record.measurement is not None and not record.measurement.cut_short
        ]
        return [canonical for canonical, _ in took], np.array([seconds for _, seconds in took])

    def _measurements(self) -> list[Measurement]:
        return [record.measurement for record in self.measured if record.measurement is not None]

    def _context_ratio(self, streams: int) -> float:
        """Context of a slot over what was asked, by number of slots: one where it was never seen."""
        if streams not in self._ratios:
            self._ratios[streams] = self._seen_ratio(streams)
        return self._ratios[streams]

    def _seen_ratio(self, streams: int) -> float:
        ratios = [
            record.measurement.actual.context_per_slot / float(asked)
            for record in self.measured
            if record.measurement is not None and record.measurement.actual.context_per_slot
            if not record.is_baseline and record.measurement.actual.slots == streams
            if (asked := self._asked_context(record))
        ]
        return float(np.median(ratios)) if ratios else 1.0

    def _asked_context(self, record: TrialRecord) -> float | None:
        return _number(self._space.of(record.configuration), self._context_at)

    def _as_it_ran(self, record: TrialRecord) -> Canonical:
        """The configuration with the context that was really there: the baseline leaves it to the engine."""
        canonical = self._space.of(record.configuration)
        actual = record.measurement.actual.context_per_slot if record.measurement else None
        if self._context_at is None or not record.is_baseline or not actual:
            return canonical
        return (*canonical[: self._context_at], actual, *canonical[self._context_at + 1 :])


def _place(space: CanonicalSpace, role: str) -> int | None:
    parameter = space.space.with_role(role)
    return None if parameter is None else space.names.index(parameter.name)


def _number(canonical: Canonical, place: int | None) -> float | None:
    """The number that a configuration asks for at a place; None where it leaves that to the engine, in a word of the
    space such as `unset`, or has no such place."""
    value = None if place is None else canonical[place]
    return float(value) if isinstance(value, int | float) else None


def _says_something(record: TrialRecord) -> bool:
    return record.verdict is None or record.verdict.outcome is not Outcome.INTERRUPTED


def _is_measured(record: TrialRecord) -> bool:
    return _outcome(record) is Outcome.OK and record.measurement is not None


def _outcome(record: TrialRecord) -> Outcome | None:
    return None if record.verdict is None else record.verdict.outcome


def _log(speed: float | None) -> float:
    return math.log(speed) if speed is not None and speed > 0 else math.nan


def _speed(measurement: Measurement, cell: Cell) -> float | None:
    result = measurement.result(cell)
    return None if result is None else result.decode_tps


def _filled(rows: list[list[float]]) -> Array:
    """A table whose gaps are what row and column let expect; a row or column without any value stays empty (nan)."""
    table = np.array(rows, dtype=float)
    if table.size == 0 or not np.isnan(table).any():
        return table
    seen = ~np.isnan(table)
    columns = np.array([table[seen[:, j], j].mean() if seen[:, j].any() else math.nan for j in range(table.shape[1])])
    for i in range(len(table)):
        if seen[i].any():
            offset = float((table[i] - columns)[seen[i]].mean())
            table[i] = np.where(seen[i], table[i], columns + offset)
    return table
