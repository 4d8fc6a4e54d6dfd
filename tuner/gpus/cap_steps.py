"""Which power caps are worth trying on a card."""

from __future__ import annotations

import math

from tuner.domain.gpu import PowerCap

_MOST_STEPS = 8
_ROUND_W = (1, 2, 5, 10, 20, 25, 50, 100, 200, 500)


def cap_steps(cap: PowerCap) -> tuple[float, ...]:
    """Caps in watts from the lowest that the hardware takes to the highest, evenly spaced at round figures.

    The default is among them as it is told, and so is the cap in force where there is no default; a round figure that
    lies close to an end or to the default is left out. Seldom more than ten.
    """
    lowest, highest = float(math.ceil(cap.min_w)), float(math.floor(cap.max_w))
    usual = cap.cap_w if cap.default_w is None else cap.default_w
    if lowest >= highest:
        return (usual,)
    step = next((watts for watts in _ROUND_W if (highest - lowest) / watts <= _MOST_STEPS), _ROUND_W[-1])
    kept = {lowest, highest}
    # The default may be an end that is no whole number of watts.
    kept = {end for end in kept if not 0 < abs(end - usual) < 1} | {usual}
    grid = range(step * math.ceil(lowest / step), int(highest) + 1, step)
    kept |= {float(watts) for watts in grid if all(abs(watts - one) >= step / 2 for one in kept)}
    return tuple(sorted(kept))
