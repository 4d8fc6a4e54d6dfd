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
        "Each mark is a configuration as the search measured it, in one launch. Prefill and decode are geometric means over "
        "all depths and kinds of text, one stream or more as the profiles ask. On the front are those that no other one beats in "
        "prefill, decode and context at once: ",
        count(len(points)),
        ".",
    )
    blocks: list[Block] = [told, _picture(source, points)]
    blocks.append(Details(f"The front as a table ({len(points)})", [_table(source, points)]))
    return Section("front", "What can be had at once", blocks)


def _table(source: Source, points: Sequence[FrontPoint]) -> Table:
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

    def paint(sheet: Sheet) -> None:
        contexts = sorted({point.context_tokens for point in points})
        legend = [("circle", "s1", "on the front", False)]
        if others:
            legend.append(("circle", "s0", "beaten by another one", False))
        if source.baseline is not None:
            legend.append(("square", "text", "baseline", True))
        legend += [("circle", "s2", series.words, True) for series in source.series]
        sheet.legend(legend)
        if len(contexts) > 1:
            sheet.text(0, sheet.room(18) + 10, "numbers at the front: context in thousands of tokens", "muted", size=11)
        top = sheet.room(380 if not sheet.narrow else 340) + 22
        decode = [*(p.decode for p in others), *(p.decode_tps for p in points)]
        prefill = [*(p.prefill for p in others), *(p.prefill_tps for p in points)]
        y = spanning(decode, sheet.height - 40, top, log=max(decode) > 5 * min(decode))
        x = spanning(prefill, left_margin(y), sheet.width - 14, log=max(prefill) > 5 * min(prefill))
        frame(sheet, x, y, x_label="prefill, t/s (faster to the right)", y_label="decode, t/s (faster upwards)")
        for other in others:
            told = source.hover(other.record)
            sheet.mark("circle", x.at(other.prefill), y.at(other.decode), "s0", size=3.5, faint=True, hover=told)
        taken: list[tuple[float, float]] = []
        for point in points:
            at = x.at(point.prefill_tps), y.at(point.decode_tps)
            sheet.mark(
                "circle", *at, "s1", size=5, hover=source.hover(point.record), focus=True, words=title_of(point.record)
            )
        _mark_baseline(source, sheet, x.at, y.at, taken)
        _mark_recommended(source, sheet, x.at, y.at, taken)
        if len(contexts) > 1:
            for point in points:
                words = f"{point.context_tokens / 1024:.0f}k"
                spot = _free(x.at(point.prefill_tps), y.at(point.decode_tps), taken, text_width(words, 10))
                if spot is not None and spot[0] < sheet.width - 20:
                    sheet.text(*spot, words, "muted", size=10, halo=True)

    return Picture("front", "Prefill, decode and context of every configuration", says, paint)


def _mark_baseline(source: Source, sheet: Sheet, x: _At, y: _At, taken: list[tuple[float, float]]) -> None:
    point = _point(source, source.baseline) if source.baseline is not None else None
    if point is not None and source.baseline is not None:
        at = x(point.prefill), y(point.decode)
        sheet.mark(
            "square",
            *at,
            "text",
            size=7,
            hollow=True,
            hover=source.hover(source.baseline),
            focus=True,
            words="baseline",
        )
        taken.append(at)


def _mark_recommended(source: Source, sheet: Sheet, x: _At, y: _At, taken: list[tuple[float, float]]) -> None:
    for series in source.series:
        point = _point(source, series.recommendation.candidate)
        if point is None:
            continue
        at = x(point.prefill), y(point.decode)
        hover = source.hover(series.recommendation.candidate)
        sheet.mark("circle", *at, "s2", size=8.5, hollow=True, hover=hover, focus=True, words=series.words)
        sheet.text(at[0], at[1] + 4, series.letter, "s2", anchor="middle", size=11, bold=True)
        taken.append(at)


def _free(x: float, y: float, taken: list[tuple[float, float]], width: float) -> tuple[float, float] | None:
    """A place for a few letters beside a mark, where none stand yet; None where there is none."""
    for dx, dy in ((8, 4), (-8 - width, 4), (-width / 2, -10), (-width / 2, 17)):
        spot = (x + dx, y + dy)
        middle = (spot[0] + width / 2, spot[1] - 4)
        if all(abs(middle[0] - tx) > width / 2 + 12 or abs(middle[1] - ty) > 12 for tx, ty in taken):
            taken.append(middle)
            return spot
    return None


def _point(source: Source, record: TrialRecord) -> _Point | None:
    measurement, workload = record.measurement, source.frozen.workload
    if measurement is None or record.verdict is None or not record.verdict.feasible:
        return None
    results = [measurement.result(cell) for cell in workload.cells]
    prefill = geometric_mean([measurement.prefill_at(depth) for depth in workload.depths])
    decode = geometric_mean([result.decode_tps if result is not None else None for result in results])
    return None if prefill is None or decode is None else _Point(record, prefill, decode)
