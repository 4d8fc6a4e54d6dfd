"""Decode against depth and kind of text, and how many drafted tokens held."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.domain.record import TrialRecord
from tuner.report.page.axes import left_margin, spanning
from tuner.report.page.document import Block, Details, Picture, Section, Table, Text, paragraph
from tuner.report.page.figures import Figures, number, speed_digits, with_unit
from tuner.report.page.sheet import Sheet, text_width
from tuner.report.page.source import Source
from tuner.report.requests_told import acceptance_by_content, content_name
from tuner.report.tables import decode_by_content

_PLOT = 170


@dataclass(frozen=True)
class _Shown:
    """One configuration in these pictures."""

    words: str
    ink: str
    mark: str
    trials: Sequence[TrialRecord]
    place: int | None
    """In the JSON form, where it is recommended there."""


def speeds_section(source: Source) -> Section:
    """Pictures of the recommended configurations beside the baseline, and the baseline's figures as a table."""
    shown = _shown(source)
    if not shown:
        return Section("depth", "Decode against depth and kind of text", [paragraph("Nothing was measured.")])
    blocks: list[Block] = [
        paragraph(
            "Medians of the launches, one token after the other in one answer; x2 and the like are that many answers "
            "at once, all together. Depth is what already stands in the context."
        ),
        _decode_picture(source, shown),
        Details("The figures as a table", [_decode_table(source, shown)]),
    ]
    return Section("depth", "Decode against depth and kind of text", blocks)


def acceptance_section(source: Source) -> Section:
    """How many drafted tokens were accepted, where anything was drafted."""
    title = "Drafted tokens that held"
    shown = [one for one in _shown(source) if acceptance_by_content(one.trials, source.frozen.workload)]
    if not shown:
        tried = sum(
            1
            for r in source.searched
            if r.measurement and any(c.acceptance_rate is not None for c in r.measurement.cells)
        )
        told = (
            f"Neither the baseline nor what is recommended drafts tokens. Of all trials {tried} did."
            if tried
            else "No configuration that was measured drafted tokens (speculative decoding), so nothing is told."
        )
        return Section("acceptance", title, [paragraph(told)])
    told = (
        "Rate: accepted of drafted tokens. Length: tokens gained in one verification, the one that comes in any case "
        "included. Code and tool calls are easier to guess than prose, so that the same draft can pay for one and "
        "cost for the other."
    )
    table = Details("The figures as a table", [_acceptance_table(source, shown)])
    return Section("acceptance", title, [paragraph(told), _acceptance_picture(source, shown), table])


def _shown(source: Source) -> list[_Shown]:
    found = []
    if source.baseline_launches:
        found.append(_Shown("baseline", "s0", "square", source.baseline_launches, source.baseline_place))
    for series in source.series:
        found.append(_Shown(series.words, series.ink, series.mark, series.recommendation.trials, series.place))
    if len(found) == 1:
        # Nothing beats the baseline: what came nearest is worth a look.
        candidates = {
            r.candidate.configuration.fingerprint: r for r in source.recommendations if not r.candidate.is_baseline
        }
        for place, recommendation in enumerate(list(candidates.values())[:2]):
            of = recommendation.candidate
            again = [
                r
                for r in source.confirm_launches
                if r.configuration == of.configuration and r.measurement and not r.is_baseline
            ]
            words = f"best candidate for {recommendation.profile.name}, not recommended"
            found.append(_Shown(words, f"s{place + 1}", ("circle", "triangle")[place], again or [of], None))
    return found


def _decode_picture(source: Source, shown: Sequence[_Shown]) -> Picture:
    tables = [decode_by_content(one.trials, source.frozen.workload) for one in shown]
    contents = list(dict.fromkeys(content for table in tables for content in table))

    def paint(sheet: Sheet) -> None:
        sheet.legend([(one.mark, one.ink, one.words, False) for one in shown])
        columns = 1 if len(contents) == 1 else 2 if sheet.narrow else min(3, len(contents))
        wide = (sheet.width - 18 * (columns - 1)) / columns
        for first in range(0, len(contents), columns):
            top = sheet.room(_PLOT + 66)
            for column, content in enumerate(contents[first : first + columns]):
                lines = [(one, table.get(content, {})) for one, table in zip(shown, tables, strict=True)]
                _small_plot(sheet, column * (wide + 18), top, wide, content, lines)

    return Picture("decode", "Decode speed by kind of text and depth", _decode_says(shown, tables), paint)


def _small_plot(
    sheet: Sheet, left: float, top: float, wide: float, title: str, lines: Sequence[tuple[_Shown, Mapping[int, float]]]
) -> None:
    depths = sorted({depth for _, at in lines for depth in at})
    speeds = [speed for _, at in lines for speed in at.values()]
    y = spanning(speeds, top + 26 + _PLOT, top + 30, zero=True)
    begin, end = left + left_margin(y, ticks=4), left + wide - 6
    sheet.text(left, top + 14, f"{title}, t/s", bold=True)
    for tick in y.ticks(4):
        sheet.line(begin, y.at(tick), end, y.at(tick), "grid")
        sheet.text(begin - 6, y.at(tick) + 4, f"{tick:g}", "muted", anchor="end", size=11)
    sheet.line(begin, y.start, end, y.start, "axis")
    spots = _spots(depths, begin + 14, end - 14)
    last = -math.inf
    for depth in depths:
        words = _depth_told(depth)
        if spots[depth] - text_width(words, 11) / 2 > last:
            sheet.text(spots[depth], y.start + 15, words, "muted", anchor="middle", size=11)
            last = spots[depth] + text_width(words, 11) / 2 + 4
    for one, at in lines:
        points = [(spots[depth], y.at(speed)) for depth, speed in sorted(at.items())]
        if len(points) > 1:
            sheet.polyline(points, one.ink, dash="5 3" if one.words == "baseline" else "")
        for (x, height), (depth, speed) in zip(points, sorted(at.items()), strict=True):
            sheet.mark(one.mark, x, height, one.ink, size=4.5, words=f"{one.words}: {speed:.1f} t/s at {depth} tokens")
    sheet.text((begin + end) / 2, y.start + 30, "depth, tokens", "muted", anchor="middle", size=11)


def _spots(depths: Sequence[int], begin: float, end: float) -> dict[int, float]:
    if len(depths) == 1:
        return {depths[0]: (begin + end) / 2}
    logs = [math.log(max(1, depth)) for depth in depths]
    reach = (logs[-1] - logs[0]) or 1.0
    return {depth: begin + (log - logs[0]) / reach * (end - begin) for depth, log in zip(depths, logs, strict=True)}


def _depth_told(depth: int) -> str:
    return f"{depth // 1024}k" if depth >= 1024 and depth % 1024 == 0 else str(depth)


def _decode_says(shown: Sequence[_Shown], tables: Sequence[Mapping[str, Mapping[int, float]]]) -> str:
    if len(shown) < 2:
        return "Decode speed of the baseline by kind of text and depth."
    ratios = [
        (table[content][depth] / speed, content, depth)
        for table in tables[1:]
        for content, at in tables[0].items()
        for depth, speed in at.items()
        if depth in table.get(content, {})
    ]
    if not ratios:
        return "Decode speed by kind of text and depth."
    (most, best, at_best), (least, worst, at_worst) = max(ratios), min(ratios)
    return f"Against the baseline: from {least:.2f}x ({worst} at {at_worst}) to {most:.2f}x ({best} at {at_best})."


def _decode_table(source: Source, shown: Sequence[_Shown]) -> Table:
    rows: list[list[Text]] = []
    for cell in source.frozen.workload.cells:
        content, depth = content_name(cell), cell.depth
        rows.append([(f"{content} at {depth}",), *(_decode(source, one, content, depth) for one in shown)])
    return Table(["", *(one.words for one in shown)], rows, frozenset(range(1, len(shown) + 1)))


def _decode(source: Source, one: _Shown, content: str, depth: int) -> Text:
    if one.place is not None:
        figures = Figures(source.best, "").at("profiles", one.place, "metrics", "decode_tps", content)
        return figures.speed(str(depth)) if figures.at(str(depth)).told is not None else ("-",)
    speed = decode_by_content(one.trials, source.frozen.workload).get(content, {}).get(depth)
    return ("-",) if speed is None else with_unit(number(speed, speed_digits(speed)), "t/s")


def _acceptance_picture(source: Source, shown: Sequence[_Shown]) -> Picture:
    tables = [acceptance_by_content(one.trials, source.frozen.workload) for one in shown]
    contents = list(dict.fromkeys(content for table in tables for content in table))
    rates = {c: [f["rate"] or 0.0 for t in tables for f in t.get(c, {}).values()] for c in contents}
    easiest, hardest = (pick(contents, key=lambda c: sum(rates[c]) / len(rates[c])) for pick in (max, min))
    says = f"Most held in {easiest}, fewest in {hardest}."

    def paint(sheet: Sheet) -> None:
        sheet.legend([(one.mark, one.ink, one.words, False) for one in shown])
        left = 16 + max(text_width(content) for content in contents)
        x = spanning([0.0, 100.0], left, sheet.width - 22, zero=True, margin=0.0)
        row = 22
        top = sheet.room(row * len(contents) + 42) + 4
        bottom = top + row * len(contents)
        y = spanning([0.0, 1.0], bottom, top)
        for tick in x.ticks(5):
            sheet.line(x.at(tick), top, x.at(tick), bottom, "grid")
            sheet.text(x.at(tick), bottom + 15, f"{tick:g} %", "muted", anchor="middle", size=11)
        sheet.line(x.start, y.start, x.end, y.start, "axis")
        sheet.text((x.start + x.end) / 2, bottom + 31, "accepted of drafted tokens", "muted", anchor="middle", size=11)
        for place, content in enumerate(contents):
            middle = top + row * place + row / 2
            sheet.text(left - 8, middle + 4, content, anchor="end")
            sheet.line(x.start, middle, x.end, middle, "grid")
            for one, table in zip(shown, tables, strict=True):
                for depth, figures in table.get(content, {}).items():
                    rate, length = 100 * (figures["rate"] or 0.0), figures["length"]
                    words = f"{one.words}, {content} at {depth}: {rate:.0f} % of drafts"
                    words += f", {length:.2f} tokens a verification" if length is not None else ""
                    sheet.mark(one.mark, x.at(rate), middle, one.ink, size=5, words=words)

    return Picture("acceptance", "Share of drafted tokens that were accepted; one mark a depth", says, paint)


def _acceptance_table(source: Source, shown: Sequence[_Shown]) -> Table:
    tables = [acceptance_by_content(one.trials, source.frozen.workload) for one in shown]
    places = list(dict.fromkeys((c, depth) for table in tables for c, at in table.items() for depth in at))
    rows: list[list[Text]] = []
    for content, depth in places:
        told = [
            _accepted(source, one, content, depth) if depth in table.get(content, {}) else ("-",)
            for one, table in zip(shown, tables, strict=True)
        ]
        rows.append([(f"{content} at {depth}",), *told])
    return Table(["", *(one.words for one in shown)], rows, frozenset(range(1, len(shown) + 1)))


def _accepted(source: Source, one: _Shown, content: str, depth: int) -> Text:
    if one.place is not None:
        at = Figures(source.best, "").at("profiles", one.place, "metrics", "acceptance", content, str(depth))
        rate, length = at.number("rate", scale=100), at.number("length", digits=2)
    else:
        told = acceptance_by_content(one.trials, source.frozen.workload)[content][depth]
        rate = None if told["rate"] is None else number(told["rate"], scale=100)
        length = None if told["length"] is None else number(told["length"], 2)
    return (*with_unit(rate, "%"), ", ", *with_unit(length, "tokens"))
