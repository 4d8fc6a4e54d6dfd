"""The gain of each profile with its interval, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.report.page.axes import Scale, spanning
from tuner.report.page.document import Picture
from tuner.report.page.sheet import Sheet, shortened, text_width
from tuner.report.page.source import Source

_ROW = 42
_NARROW_ROW = 56


@dataclass(frozen=True)
class Interval:
    """One line of a picture of ratios to the baseline."""

    name: str
    ratio: float
    low: float | None
    high: float | None
    ink: str = "s1"
    mark: str = "circle"

    @property
    def differs(self) -> bool:
        """Whether 1 lies outside of the interval."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high

    @property
    def told(self) -> str:
        """The ratio as a change, with its ends."""
        if self.low is None or self.high is None:
            return f"{self.ratio - 1:+.1%}, not repeated"
        if not self.differs:
            return f"no measurable difference ({self.low - 1:+.1%} to {self.high - 1:+.1%})"
        return f"{self.ratio - 1:+.1%} ({self.low - 1:+.1%} to {self.high - 1:+.1%})"


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
            sheet.text(0, sheet.room(24) + 16, "No configuration beside the baseline was measured to its end.", "muted")

    return Picture("gains", "Gain of each profile's best candidate over the baseline", says, paint)


def paint_intervals(sheet: Sheet, rows: Sequence[Interval], label: str) -> None:
    """A line with its interval for each row; what cannot be told from 1 is drawn hollow. Beyond the frame: arrows."""
    left = 8.0 if sheet.narrow else min(sheet.width * 0.42, 16 + max(7.2 * len(row.name) for row in rows))
    right = sheet.width - 12.0
    # An interval that nothing was learned from must not squeeze all others.
    known = sorted(end for row in rows for end in (row.low, row.high, row.ratio) if end is not None)
    ratios = [row.ratio for row in rows]
    reach = max(0.05, 1.6 * max(abs(ratio - 1) for ratio in ratios))
    low, high = max(known[0], min(1 - reach, min(ratios) - 0.02)), min(known[-1], max(1 + reach, max(ratios) + 0.02))
    x = spanning([100 * (end - 1) for end in (low, high, 1.0)], left, right)
    height = _NARROW_ROW if sheet.narrow else _ROW
    top = sheet.room(height * len(rows) + 40) + 6
    bottom = top + height * len(rows)
    for tick in x.ticks(4 if sheet.narrow else 8):
        at = x.at(tick)
        sheet.line(at, top, at, bottom, "grid")
        sheet.text(at, bottom + 14, f"{tick:+g} %" if abs(tick) > 1e-9 else "0", "muted", anchor="middle", size=11)
    sheet.line(x.at(0), top, x.at(0), bottom, "axis", width=1.5)
    sheet.text((left + right) / 2, bottom + 30, label, "muted", anchor="middle", size=11)
    for place, row in enumerate(rows):
        begins = top + height * place
        if sheet.narrow:
            sheet.text(0, begins + 14, shortened(row.name, sheet.width), halo=True)
            sheet.text(0, begins + 29, row.told, "muted", size=11, halo=True)
            _interval(sheet, x, row, begins + 42)
        else:
            middle = begins + 25
            sheet.text(left - 14, middle + 4, shortened(row.name, left - 14), anchor="end")
            _interval(sheet, x, row, middle)
            half = text_width(row.told, 11) / 2
            at = min(max(x.at(100 * (row.ratio - 1)), left + half), right - half)
            sheet.text(at, middle - 10, row.told, "muted", anchor="middle", size=11, halo=True)


def _interval(sheet: Sheet, x: Scale, row: Interval, y: float) -> None:
    if row.low is not None and row.high is not None:
        start, end = x.at(100 * (row.low - 1)), x.at(100 * (row.high - 1))
        sheet.line(start, y, end, y, row.ink, width=2.5)
        for edge, beyond, way in ((start, 100 * (row.low - 1) < x.low, -1), (end, 100 * (row.high - 1) > x.high, 1)):
            if beyond:
                sheet.polyline([(edge - 5 * way, y - 4), (edge, y), (edge - 5 * way, y + 4)], row.ink)
    at = x.at(100 * (row.ratio - 1))
    sheet.mark(row.mark, at, y, row.ink, size=5, hollow=not row.differs, words=f"{row.name}: {row.told}")
