"""Cuts a trial short once its shallow cells show that it cannot win anything any more.

Cells are measured cheap first, so what is left when a configuration proves slow are the deep ones, which cost most. The
bound is optimistic: what is not measured yet is taken to be as good as anything seen so far, and better than this
launch has shown itself by half.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from tuner.domain.frozen import FrozenStudy
from tuner.domain.measurement import ActualSettings, CellResult, Measurement
from tuner.domain.record import TrialRecord
from tuner.domain.workload import Cell
from tuner.report.drift import Drift
from tuner.report.selection import candidates
from tuner.study.judge import objectives

_BEST_SEEN = 1.1
_OWN_BEST = 1.5
_MARGIN = 1.2
"""A bound that lies only this far below the best is no proof: cells are noisy."""


class Hopeless:
    """Asked after every cell of one launch."""

    def __init__(
        self,
        frozen: FrozenStudy,
        reference: Measurement,
        records: Sequence[TrialRecord],
        actual: ActualSettings,
        drift: Drift | None = None,
    ) -> None:
        """`actual` is what the launch runs with, `records` the study's trials so far, as they compare."""
        self._drift = drift
        self._frozen = frozen
        self._reference = reference
        self._actual = actual
        measured = [
            record.measurement
            for record in records
            if record.verdict is not None and record.verdict.feasible and record.measurement is not None
        ]
        self._best_scores = {
            profile.name: ranked[0][0]
            for profile in frozen.profiles
            if (ranked := candidates(profile, frozen, records))
        }
        self._best_ratio = {
            cell: {metric: _best_ratio(metric, cell, measured, reference) for metric in _METRICS}
            for cell in frozen.workload.cells
        }
        front = [found for one in measured if (found := objectives(one, frozen.workload, None)) is not None]
        self._best_objectives = tuple(map(max, zip(*front, strict=True))) if front else None

    def __call__(self, cells: Sequence[CellResult]) -> str | None:
        """Why the rest need not be measured, or None."""
        if self._drift is not None:
            cells = self._drift.corrected_cells(cells, self._frozen.machine.host, time.time())
        missing = len(self._frozen.workload.cells) - len(cells)
        if not missing or self._best_objectives is None or len(self._best_scores) < len(self._frozen.profiles):
            return None
        bound = self._bound(cells)
        reached = objectives(bound, self._frozen.workload, None)
        if reached is None or any(
            ours * _MARGIN >= best for ours, best in zip(reached[:2], self._best_objectives[:2], strict=True)
        ):
            return None
        if reached[2] > self._best_objectives[2]:
            return None
        closest = -math.inf
        for profile in self._frozen.profiles:
            score = profile.log_score(bound, self._frozen.workload.depths)
            if score is None:
                return None
            closest = max(closest, score - self._best_scores[profile.name])
        if closest > -math.log(_MARGIN):
            return None
        return f"cut short after {len(cells)} cells: at best {math.exp(closest):.2f}x the best so far in any profile"

    def _bound(self, cells: Sequence[CellResult]) -> Measurement:
        """The measurement that this launch could come to at best."""
        own = {
            metric: max((ratio for r in cells if (ratio := _ratio(metric, r, self._reference))), default=None)
            for metric in _METRICS
        }
        measured = {result.cell: result for result in cells}
        results = []
        for known in self._reference.cells:
            speeds = {}
            for metric in _METRICS:
                before = getattr(known, metric)
                limits = [_BEST_SEEN * self._best_ratio.get(known.cell, {}).get(metric, 1.0)]
                if (shown := own[metric]) is not None:
                    limits.append(_OWN_BEST * shown)
                speeds[metric] = None if before is None else before * min(limits)
            results.append(measured.get(known.cell) or known.model_copy(update=speeds))
        return Measurement(cells=tuple(results), ready_s=0.0, actual=self._actual)


_METRICS = ("prefill_tps", "decode_tps")


def _ratio(metric: str, result: CellResult, reference: Measurement) -> float | None:
    known = reference.result(result.cell)
    ours, theirs = getattr(result, metric), getattr(known, metric) if known else None
    return ours / theirs if ours and theirs else None


def _best_ratio(metric: str, cell: Cell, measured: Sequence[Measurement], reference: Measurement) -> float:
    results = [result for one in measured if (result := one.result(cell)) is not None]
    return max((ratio for result in results if (ratio := _ratio(metric, result, reference))), default=1.0)


def never(_: Sequence[CellResult]) -> str | None:
    """For launches that are measured to their end in any case."""
    return None


HopelessCheck = Callable[[Sequence[CellResult]], str | None]
