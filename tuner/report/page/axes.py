"""Scales with round ticks, and the frame of a plot."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tuner.report.page.sheet import Sheet, text_width

_LOG_STEPS = ((1, 1.5, 2, 3, 4, 5, 6, 8), (1, 2, 3, 5, 8), (1, 2, 5), (1, 3), (1,))


@dataclass(frozen=True)
class Scale:
    """Values to pixels, linear or logarithmic."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """The pixel of a value, held inside the frame."""
        low, high, here = (math.log(v) if self.log else v for v in (self.low, self.high, max(value, self.low)))
        share = (here - low) / (high - low) if high > low else 0.5
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def ticks(self, most: int) -> list[float]:
        """Round values inside the scale, not more than about `most`."""
        if self.log and self.high / self.low > 4:
            decades = range(-4, 9)
            found: list[float] = []
            for steps in _LOG_STEPS:
                found = [m * 10.0**e for e in decades for m in steps if self.low <= m * 10.0**e <= self.high]
                if len(found) <= most:
                    break
            return found
        step = _round_step((self.high - self.low) / max(1, most))
        first = math.ceil(self.low / step - 1e-9)
        return [n * step for n in range(first, math.floor(self.high / step + 1e-9) + 1)]


def spanning(
    values: Sequence[float], start: float, end: float, *, log: bool = False, zero: bool = False, margin: float = 0.06
) -> Scale:
    """A scale with all values inside and some room around them."""
    low, high = min(values), max(values)
    if zero:
        return Scale(0.0, (high or 1.0) * (1 + margin), start, end)
    if log:
        room = max(math.log(high / low) * margin, 0.02)
        return Scale(low * math.exp(-room), high * math.exp(room), start, end, log=True)
    room = (high - low) * margin or abs(high) * margin or 1.0
    return Scale(low - room if low < 0 or low > room else max(0.0, low - room), high + room, start, end)


def frame(sheet: Sheet, x: Scale, y: Scale, *, x_label: str, y_label: str) -> None:
    """Grid, ticks and labels. Room for them must be left: 34 pixels below, some above for the y axis' label."""
    for tick in y.ticks(5):
        at = y.at(tick)
        sheet.line(x.start, at, x.end, at, "grid")
        sheet.text(x.start - 6, at + 4, f"{tick:g}", "muted", anchor="end", size=11)
    for tick in x.ticks(max(3, int((x.end - x.start) / 90))):
        at = x.at(tick)
        sheet.line(at, y.start, at, y.start + 4, "axis")
        if at + text_width(f"{tick:g}", 11) / 2 <= sheet.width:
            sheet.text(at, y.start + 16, f"{tick:g}", "muted", anchor="middle", size=11)
    sheet.line(x.start, y.start, x.end, y.start, "axis")
    sheet.text((x.start + x.end) / 2, y.start + 32, x_label, "muted", anchor="middle", size=11)
    sheet.text(0, y.end - 8, y_label, "muted", size=11)


def left_margin(y: Scale, told: Callable[[float], str] = lambda v: f"{v:g}", ticks: int = 5) -> float:
    """The pixels that the y axis' ticks need."""
    return 10 + max((text_width(told(tick), 11) for tick in y.ticks(ticks)), default=20)


def _round_step(rough: float) -> float:
    if rough <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= rough - 1e-12)
