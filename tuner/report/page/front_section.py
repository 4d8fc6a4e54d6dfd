"""What can be had of prefill, decode and context at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tuner.domain.record import TrialRecord
from tuner.domain.spread import geometric_mean
from tuner.report.front import FrontPoint, front
from tuner.report.page.axes import frame, left_margin, spanning
from tuner.report.page.document import Block, Details, Picture, Section, Table, Text, paragraph
from tuner.report.page.figures import count, number, speed_digits, with_unit
from tuner.report.page.sheet import Sheet, text_width
from tuner.report.page.source import Source, title_of

_At = Callable[[float], float]
_NEAR = 0.6
"""What is slower than this share of the slowest that matters is left out of the picture."""
_WIDE = 3.0
"""Speeds further apart than this are drawn on a logarithmic scale."""


@dataclass(frozen=True)
class _Point:
    record: TrialRecord
    prefill: float
    decode: float


def front_section(source: Source) -> Section:
    """Picture, and the front as a table."""
    points = front(source.frozen, source.searched, source.confirmed)
    if not points:
        nothing = paragraph("No configuration was measured in all cells, so there is nothing to compare.")
        return Section("front", "What can be had at once", [nothing])
    told = paragraph(
        "Each mark is a configuration as the search measured it, in one launch. Prefill and decode are geometric "
        "means over all depths and kinds of text, one stream or more as the profiles ask. On the front are those that "
        "no other one beats in prefill, decode and context at once: ",
        count(len(points)),
        ".",
    )
    blocks: list[Block] = [told, _picture(source, points)]
    blocks.append(Details(f"The front as a table ({len(points)})", [_table(points)]))
    return Section("front", "What can be had at once", blocks)


def _table(points: Sequence[FrontPoint]) -> Table:
    rows: list[list[Text]] = [
        [
            (title_of(point.record),),
            with_unit(number(point.prefill_tps, speed_digits(point.prefill_tps)), "t/s"),
            with_unit(number(point.decode_tps, speed_digits(point.decode_tps)), "t/s"),
            with_unit(count(point.context_tokens), "tokens"),
        ]
        for point in points
    ]
    return Table(["", "prefill", "decode", "context of a slot"], rows, frozenset({1, 2, 3}))


def _picture(source: Source, points: Sequence[FrontPoint]) -> Picture:
    on_front = {point.record.number for point in points}
    others = [p for record in source.searched if record.number not in on_front and (p := _point(source, record))]
    best_decode, best_prefill = points[0], max(points, key=lambda point: point.prefill_tps)
    says = (
        f"Fastest decode: {title_of(best_decode.record)} with {best_decode.decode_tps:.1f} t/s; fastest prefill: "
        f"{title_of(best_prefill.record)} with {best_prefill.prefill_tps:.0f} t/s."
    )

    drawing = _Drawing(source, points, others)
    if drawing.outside:
        says += f" Not shown: {drawing.outside} much slower ones."
    return Picture("front", "Prefill, decode and context of every configuration", says, drawing.paint)


class _Drawing:
    """The picture, near the front and the baseline: what is far slower would squeeze all that matters."""

    def __init__(self, source: Source, points: Sequence[FrontPoint], others: Sequence[_Point]) -> None:
        self.source, self.points = source, points
        base = _point(source, source.baseline) if source.baseline is not None else None
        self.base = base
        shown = [(p.prefill_tps, p.decode_tps) for p in points] + ([(base.prefill, base.decode)] if base else [])
        least = [_NEAR * min(speeds) for speeds in zip(*shown, strict=True)]
        self.others = [p for p in others if p.prefill >= least[0] and p.decode >= least[1]]
        self.outside = len(others) - len(self.others)
        self.contexts = {point.context_tokens for point in points}
        self.taken: list[tuple[float, float]] = []

    def paint(self, sheet: Sheet) -> None:
        """On a sheet of any width."""
        self._legend(sheet)
        top = sheet.room(380 if not sheet.narrow else 340) + 22
        decode = [*(p.decode for p in self.others), *(p.decode_tps for p in self.points)]
        prefill = [*(p.prefill for p in self.others), *(p.prefill_tps for p in self.points)]
        if self.base is not None:
            decode.append(self.base.decode)
            prefill.append(self.base.prefill)
        y = spanning(decode, sheet.height - 40, top, log=max(decode) > _WIDE * min(decode))
        x = spanning(prefill, left_margin(y), sheet.width - 24, log=max(prefill) > _WIDE * min(prefill))
        frame(sheet, x, y, x_label="prefill, t/s (faster to the right)", y_label="decode, t/s (faster upwards)")
        for other in self.others:
            told = self.source.hover(other.record)
            sheet.mark("circle", x.at(other.prefill), y.at(other.decode), "s0", size=3.5, faint=True, hover=told)
        self.taken = [(x.at(point.prefill_tps), y.at(point.decode_tps)) for point in self.points]
        for point, at in zip(self.points, list(self.taken), strict=True):
            words = title_of(point.record)
            sheet.mark("circle", *at, "s1", size=5, hover=self.source.hover(point.record), focus=True, words=words)
        self._baseline(sheet, x.at, y.at)
        self._recommended(sheet, x.at, y.at)
        for point in self.points if len(self.contexts) > 1 else ():
            size = f"{point.context_tokens / 1024:.0f}k"
            at = x.at(point.prefill_tps), y.at(point.decode_tps)
            spot = self._free(sheet, at, text_width(size, 10))
            if spot is not None:
                sheet.text(*spot, size, "muted", size=10, halo=True)

    def _legend(self, sheet: Sheet) -> None:
        legend = [("circle", "s1", "on the front", False)]
        if self.others:
            legend.append(("circle", "s0", "beaten by another one", False))
        if self.base is not None:
            legend.append(("square", "text", "baseline", True))
        legend += [("circle", "s2", series.words, True) for series in self.source.series]
        sheet.legend(legend)
        if len(self.contexts) > 1:
            sheet.text(0, sheet.room(18) + 10, "numbers: context in thousands of tokens", "muted", size=11)

    def _baseline(self, sheet: Sheet, x: _At, y: _At) -> None:
        if self.base is not None:
            at = x(self.base.prefill), y(self.base.decode)
            hover = self.source.hover(self.base.record)
            sheet.mark("square", *at, "text", size=7, hollow=True, hover=hover, focus=True, words="baseline")
            self.taken.append(at)

    def _recommended(self, sheet: Sheet, x: _At, y: _At) -> None:
        for series in self.source.series:
            point = _point(self.source, series.recommendation.candidate)
            if point is None:
                continue
            at, hover = (x(point.prefill), y(point.decode)), self.source.hover(point.record)
            sheet.mark("circle", *at, "s2", size=7, hollow=True, hover=hover, focus=True, words=series.words)
            spot = self._free(sheet, at, text_width(series.letter, 13), away=11)
            if spot is not None:
                sheet.text(*spot, series.letter, "s2", size=13, bold=True, halo=True)

    def _free(self, sheet: Sheet, at: tuple[float, float], width: float, away: float = 8) -> tuple[float, float] | None:
        """A place for a few letters beside a mark, where nothing stands yet; None where there is none."""
        x, y = at
        for dx, dy in ((away, 4), (-away - width, 4), (-width / 2, -away - 2), (-width / 2, away + 9)):
            middle = x + dx + width / 2, y + dy - 4
            inside = x + dx > 0 and x + dx + width < sheet.width
            if inside and all(abs(middle[0] - tx) > width / 2 + 7 or abs(middle[1] - ty) > 10 for tx, ty in self.taken):
                self.taken.append(middle)
                return x + dx, y + dy
        return None


def _point(source: Source, record: TrialRecord) -> _Point | None:
    measurement, workload = record.measurement, source.frozen.workload
    if measurement is None or record.verdict is None or not record.verdict.feasible:
        return None
    results = [measurement.result(cell) for cell in workload.cells]
    prefill = geometric_mean([measurement.prefill_at(depth) for depth in workload.depths])
    decode = geometric_mean([result.decode_tps if result is not None else None for result in results])
    return None if prefill is None or decode is None else _Point(record, prefill, decode)
