"""How often a cell is measured within one launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tuner.domain.spread import relative_half_width
from tuner.domain.workload import Cell

_JUDGED = 3
"""Of fewer repeats nobody can say how far they spread."""


@dataclass(frozen=True)
class Precision:
    """Repeats of a cell: at least `least`, then on until they agree or there are `most`."""

    least: int = 1
    most: int = 1
    half_width: float = 0.02
    """Share of the median's interval, half of it, below which a cell is precise enough."""
    contender_tps: Mapping[Cell, float] | None = None
    """Decode speed from which on a cell is worth more than `least`; a cell that is not named is not. None: all are."""

    def wants_more(self, cell: Cell, measured: int, speeds: Sequence[float]) -> bool:
        """Whether to measure `cell` again after `measured` requests with these decode speeds in tokens a second."""
        if measured < self.least:
            return True
        if measured >= self.most or not speeds:
            return False
        if self.contender_tps is not None and median(speeds) < self.contender_tps.get(cell, float("inf")):
            return False
        half_width = relative_half_width(speeds)
        return len(speeds) < _JUDGED or half_width is None or half_width > self.half_width
