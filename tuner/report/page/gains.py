"""Ratios with their intervals as a picture; first of all the gain of each profile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from tuner.report.page.axes import Scale
from tuner.report.page.document import Picture
from tuner.report.page.sheet import Sheet, shortened, text_width
from tuner.report.page.source import Source

_ROW = 24
_NARROW_ROW = 34
_BEYOND = 1000.0
"""A ratio further from 1 than this is not worth its digits: the interval says that nothing is known."""


@dataclass(frozen=True)
class Interval:
    """One line of a picture of ratios. Lines of one name that follow each other share it."""

    name: str
    ratio: float
    low: float | None
    high: float | None
    of: str = ""
    """What it is the ratio of, where a name has several lines."""
    ink: str = "s1"
    mark: str = "circle"

    @property
    def differs(self) -> bool:
        """Whether 1 lies outside of the interval."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high

    @property
    def told(self) -> str:
        """In words: the ratio with its ends, or that nothing can be told."""
        of = f"{self.of} " if self.of else ""
        if self.low is None or self.high is None:
            return f"{of}{ratio_told(self.ratio)}, not repeated"
        digits = 3 if min(abs(self.low - 1), abs(self.high - 1)) < 0.01 else 2
        ends = f"({ratio_told(self.low, digits)} to {ratio_told(self.high, digits)})"
        return f"{of}{ratio_told(self.ratio)} {ends}" if self.differs else f"{of}no measurable difference {ends}"


def ratio_told(ratio: float, digits: int = 2) -> str:
    """`1.42x`."""
    if ratio > _BEYOND:
        return f"over {_BEYOND:.0f}x"
    return f"under {1 / _BEYOND:g}x" if ratio < 1 / _BEYOND else f"{ratio:.{digits}f}x"


def gains_picture(source: Source) -> Picture:
    """Every profile's best candidate against the baseline."""
    rows = [
        Interval(r.profile.name, r.gain.ratio, r.gain.low, r.gain.high)
        for r in source.recommendations
        if not r.candidate.is_baseline
    ]
    measurable = [row.name for row in rows if row.differs and row.ratio > 1]
    says = (
        f"Measurably faster than the baseline: {', '.join(measurable)}."
        if measurable
        else "For no profile was anything found that is measurably faster than the baseline."
    )

    def paint(sheet: Sheet) -> None:
        if rows:
            paint_intervals(sheet, rows, "speed of the best candidate against the baseline")
        else:
            sheet.text(0, sheet.room(24) + 16, "Nothing beside the baseline was measured to its end.", "muted")

    return Picture("gains", "Gain of each profile's best candidate over the baseline", says, paint)


def paint_intervals(sheet: Sheet, rows: Sequence[Interval], label: str) -> None:
    """A line with its interval for each row, on a logarithmic scale; what cannot be told from 1 is drawn hollow.

    An interval that goes on beyond the frame ends in an arrow.
    """
    left, right = 6.0, sheet.width - 8.0
    if not sheet.narrow:
        left = min(0.32 * sheet.width, 16 + max(text_width(row.name) for row in rows))
        right = sheet.width - 16 - max(text_width(row.told, 11) for row in rows)
    x = _scale(rows, left, right)
    groups = [(name, list(lines)) for name, lines in groupby(rows, key=lambda row: row.name)]
    heights = [(20 if sheet.narrow else 6) + len(g) * (_NARROW_ROW if sheet.narrow else _ROW) for _, g in groups]
    top = sheet.room(sum(heights) + 40) + 4
    bottom = top + sum(heights)
    for tick in _ticks(x, 4 if sheet.narrow else 6):
        sheet.line(x.at(tick), top, x.at(tick), bottom, "grid")
        sheet.text(x.at(tick), bottom + 14, f"{tick:.3g}x", "muted", anchor="middle", size=11)
    sheet.line(x.at(1), top, x.at(1), bottom, "axis", width=1.5)
    centre = min((left + right) / 2, sheet.width - text_width(label, 11) / 2)
    sheet.text(centre, bottom + 30, label, "muted", anchor="middle", size=11)
    begins = top
    for (name, lines), height in zip(groups, heights, strict=True):
        if sheet.narrow:
            sheet.text(0, begins + 15, shortened(name, sheet.width), halo=True)
        else:
            sheet.text(left - 12, begins + height / 2 + 4, shortened(name, left - 12), anchor="end")
        for place, row in enumerate(lines):
            if sheet.narrow:
                y = begins + 20 + _NARROW_ROW * place + 22
                sheet.text(0, y - 10, shortened(row.told, sheet.width, 11), "muted", size=11, halo=True)
            else:
                y = begins + 3 + _ROW * (place + 0.5)
                sheet.text(right + 12, y + 4, row.told, "muted" if not row.differs else "text", size=11)
            _interval(sheet, x, row, y)
        begins += height
        if not sheet.narrow:
            sheet.line(0, begins, sheet.width, begins, "grid")


def _scale(rows: Sequence[Interval], left: float, right: float) -> Scale:
    """Around all ratios; an interval from which nothing was learned must not squeeze the others."""
    away = [abs(math.log(row.ratio)) for row in rows]
    reach = 1.6 * max(*away, math.log(1.05))
    ends = [end for row in rows for end in (row.low, row.high) if end is not None and end > 0]
    logs = [0.0, *(math.log(row.ratio) for row in rows), *(max(-reach, min(reach, math.log(end))) for end in ends)]
    room = 0.06 * (max(logs) - min(logs)) + 0.005
    return Scale(math.exp(min(logs) - room), math.exp(max(logs) + room), left, right, log=True)


def _ticks(x: Scale, most: int) -> list[float]:
    if x.high / x.low < 6:
        return Scale(x.low, x.high, x.start, x.end).ticks(most)
    return x.ticks(most)


def _interval(sheet: Sheet, x: Scale, row: Interval, y: float) -> None:
    if row.low is not None and row.high is not None:
        start, end = x.at(row.low), x.at(row.high)
        sheet.line(start, y, end, y, row.ink, width=2.5)
        for edge, beyond, way in ((start, row.low < x.low, -1), (end, row.high > x.high, 1)):
            if beyond:
                sheet.polyline([(edge - 5 * way, y - 4), (edge, y), (edge - 5 * way, y + 4)], row.ink)
    sheet.mark(row.mark, x.at(row.ratio), y, row.ink, size=5, hollow=not row.differs, words=f"{row.name}: {row.told}")
