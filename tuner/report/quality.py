"""What a configuration costs in quality, beside its speed."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from tuner.domain.measurement import Measurement
from tuner.domain.quality import PlaceCost, QualityCost, QualityResult
from tuner.domain.record import TrialRecord

NOISE_NATS = 0.02
"""What another batch size or another salt makes of the same configuration lies below it."""
_SHOWN_LOOPS = 0.3
"""Less differs from one salt to the next."""


def quality_lines(trials: Sequence[TrialRecord]) -> list[str]:
    """What the launches of one configuration lost against the baseline, a line for each place; empty if unchecked."""
    results = _results(trials)
    costs = [result.cost for result in results if result.cost is not None]
    if not costs:
        return [_own(results[-1])] if results and results[-1].answers else []
    depth = results[-1].depth
    lines = [f"alone: {told}"] if (told := _place_told([cost.alone for cost in costs])) else []
    deep = _place_told([cost.deep for cost in costs], [(cost.needles_found, cost.needles_hidden) for cost in costs])
    return [*lines, *([f"behind {depth} tokens: {deep}"] if deep and depth is not None else []), *_loops_told(costs)]


def quality_short(measurement: Measurement) -> str:
    """The cost in a few words for a trial's line; empty where it is no more than noise, or not known."""
    cost = measurement.quality.cost if measurement.quality is not None else None
    worst = max((place.kl for place in (cost.alone, cost.deep) if place.kl is not None), default=0.0) if cost else 0.0
    return f", answers {worst:.2f} nats off" if worst >= NOISE_NATS else ""


def quality_json(trials: Sequence[TrialRecord]) -> dict[str, Any] | None:
    """The medians over the launches, as README.md documents them; None where nothing was held against the baseline."""
    results = [result for result in _results(trials) if result.cost is not None]
    costs = [result.cost for result in results if result.cost is not None]
    if not costs:
        return None
    needles = _worst((cost.needles_found, cost.needles_hidden) for cost in costs) or (0, 0)
    return {
        "depth_tokens": results[-1].depth,
        "alone": _place_json([cost.alone for cost in costs]),
        "deep": _place_json([cost.deep for cost in costs]),
        "needles_found": needles[0],
        "needles_hidden": needles[1],
        "loop_share_added": _median(cost.loop_share_added for cost in costs),
    }


def _results(trials: Sequence[TrialRecord]) -> list[QualityResult]:
    return [t.measurement.quality for t in trials if t.measurement is not None and t.measurement.quality is not None]


def _own(result: QualityResult) -> str:
    """What the baseline itself answered, where it was not relaunched."""
    told = [f"the baseline answers {result.known_right} of {result.known_asked} known questions"]
    if result.needles_hidden:
        told.append(f"finds {result.needles_found} of {result.needles_hidden} hidden facts")
    return ", ".join(told)


def _place_told(places: Sequence[PlaceCost], needles: Sequence[tuple[int, int]] = ()) -> str:
    told = []
    kl = _median(place.kl for place in places)
    if kl is not None:
        told.append(f"{kl:.3f} nats from the baseline" + (" (no more than noise)" if kl < NOISE_NATS else ""))
    worst = _worst((place.known_right, place.known_asked) for place in places)
    if worst is not None:
        told.append(f"{worst[0]} of {worst[1]} known answers")
    found = _worst(needles)
    if found is not None:
        told.append(f"{found[0]} of {found[1]} hidden facts found")
    return ", ".join(told)


def _worst(counts: Iterable[tuple[int, int]]) -> tuple[int, int] | None:
    """(right, asked) of the launch that got the smallest share right; None where nothing was asked."""
    asked = [pair for pair in counts if pair[1] > 0]
    return min(asked, key=lambda pair: pair[0] / pair[1], default=None)


def _loops_told(costs: Sequence[QualityCost]) -> list[str]:
    added = _median(cost.loop_share_added for cost in costs)
    return [f"{added:.0%} more of its text repeats itself"] if added is not None and added >= _SHOWN_LOOPS else []


def _place_json(places: Sequence[PlaceCost]) -> dict[str, Any]:
    worst = _worst((place.known_right, place.known_asked) for place in places)
    return {
        "kl_nats": _median(place.kl for place in places),
        "known_right": worst[0] if worst else 0,
        "known_asked": worst[1] if worst else 0,
    }


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
