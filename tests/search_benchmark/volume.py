"""The hypervolume of a set of points in prefill, decode and context, all three to be high."""

from __future__ import annotations

from collections.abc import Iterable

Point = tuple[float, float, float]


def hypervolume(points: Iterable[Point], corner: Point) -> float:
    """The volume between `corner` and everything that some point reaches in all three coordinates.

    Points that do not lie above the corner add nothing. Summed in slabs of the third coordinate, which is exact.
    """
    inside = sorted((p for p in points if all(a > c for a, c in zip(p, corner, strict=True))), key=lambda p: -p[2])
    levels = sorted({p[2] for p in inside}, reverse=True)
    total = 0.0
    for place, level in enumerate(levels):
        below = levels[place + 1] if place + 1 < len(levels) else corner[2]
        total += (level - below) * _area([p[:2] for p in inside if p[2] >= level], corner[:2])
    return total


def _area(points: list[tuple[float, ...]], corner: tuple[float, ...]) -> float:
    area, top = 0.0, corner[1]
    for x, y in sorted(points, reverse=True):
        if y > top:
            area += (x - corner[0]) * (y - top)
            top = y
    return area
