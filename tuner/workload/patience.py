"""How long a server may take, cell by cell, before it counts as stalled or as hopeless.

Without evidence the limits are generous: a large model on a slow machine is no fault. Once the baseline was measured
they follow what it took, so that a launch that hangs at depth costs minutes and not hours.
"""

from __future__ import annotations

from dataclasses import dataclass

from tuner.domain.measurement import Measurement
from tuner.domain.workload import Cell

_LEAST_PREFILL_TPS = 10
"""A server that is slower than this is taken for stalled, as long as nothing better is known."""
_SILENCE_S = 60.0
"""What even the shortest prompt may take: the first request of a launch can compile kernels."""
_STALL_S = 30.0
"""From one token to the next."""
_TIMES_SLOWER = 10.0
"""What takes so many times longer than in the baseline cannot win anything any more."""


@dataclass(frozen=True)
class Patience:
    """The deadlines of one launch."""

    reference: Measurement | None = None
    """The baseline's, once it was measured."""

    @property
    def stall_s(self) -> float:
        """Seconds from one token to the next."""
        return _STALL_S

    def first_token_s(self, depth: int) -> float:
        """Seconds from sending a prompt of `depth` tokens to its first token."""
        generous = _SILENCE_S + depth / _LEAST_PREFILL_TPS
        seen_ms = self.reference.ttft_at(depth) if self.reference else None
        if seen_ms is None:
            return generous
        return max(_SILENCE_S, _TIMES_SLOWER * seen_ms / 1000)

    def cell_s(self, cell: Cell) -> float | None:
        """Seconds after which a cell's request is not repeated any more; None where nothing is known of it."""
        seen = self.reference.result(cell) if self.reference else None
        if seen is None or seen.seconds is None:
            return None
        return max(_SILENCE_S, _TIMES_SLOWER * seen.seconds)
