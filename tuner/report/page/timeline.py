"""The trials over time, with their outcomes."""

from __future__ import annotations

import math
from collections import Counter

from tuner.domain.profile import Profile
from tuner.domain.record import Stage, TrialRecord
from tuner.report.page.axes import Scale, left_margin, spanning
from tuner.report.page.document import Choice, Picture, Section, paragraph
from tuner.report.page.figures import count, counted, number
from tuner.report.page.sheet import Sheet, text_width
from tuner.report.page.source import LAUNCHED_AGAIN, Source, outcome_of

_STRIP = 20


def timeline_section(source: Source) -> Section:
    """One picture a profile, since a trial is worth something else for each."""
    launches = _launches(source)
    seconds = sum(record.seconds or 0.0 for record in launches)
    told = paragraph(
        count(len(launches)),
        " trials in ",
        number(seconds / 3600, 1),
        "\N{NO-BREAK SPACE}h of measuring. Above: what ran, as a ratio to the first launch of the baseline, each from "
        "one launch. Below: what did not work. The step line is the best so far; what it shows of a winner is "
        "flattered by luck, which is why the confirm stage launches it again.",
    )
    pictures = [(profile.name, _picture(source, profile)) for profile in source.frozen.profiles]
    return Section("timeline", "Trials over time", [told, Choice(pictures)])


def _launches(source: Source) -> list[TrialRecord]:
    return sorted([*source.searched, *source.confirmed], key=lambda record: record.started_at)


def _picture(source: Source, profile: Profile) -> Picture:
    launches = _launches(source)
    clock = _Clock(launches)
    depths = source.frozen.workload.depths
    base = source.baseline.measurement if source.baseline is not None else None
    reference = profile.log_score(base, depths) if base is not None else None
    ran: list[tuple[TrialRecord, float]] = []
    failed: list[TrialRecord] = []
    for record in launches:
        score = None
        if record.verdict is not None and record.verdict.feasible and record.measurement is not None:
            score = profile.log_score(record.measurement, depths)
        if score is not None and reference is not None:
            ran.append((record, math.exp(score - reference)))
        elif record.verdict is None or not record.verdict.feasible:
            failed.append(record)
    partly = len(launches) - len(ran) - len(failed)
    best = max((ratio for record, ratio in ran if _is_search(record)), default=1.0)
    says = f"Best single launch of the search: {best:.2f}x the baseline; {counted(len(failed), 'trial')} did not work."
    if partly:
        says += f" {partly} were cut short, since they could win nothing any more, and have no place here."

    def paint(sheet: Sheet) -> None:
        _paint(sheet, source, clock, ran, failed)

    return Picture(
        f"timeline-{profile.name}", f"Trials over time, as the profile {profile.name} sees them", says, paint
    )


def _paint(
    sheet: Sheet, source: Source, clock: _Clock, ran: list[tuple[TrialRecord, float]], failed: list[TrialRecord]
) -> None:
    sheet.legend(
        [
            ("circle", "s1", "search", False),
            ("square", "text", "baseline, measured again", True),
            ("triangle", "s2", "confirm stage", False),
            ("line", "s1", "best so far", False),
            *([("cross", "bad", "did not work", False)] if failed else []),
        ]
    )
    outcomes = [outcome for outcome, _ in Counter(map(outcome_of, failed)).most_common()]
    top = sheet.room(300 if not sheet.narrow else 250) + 22
    bottom = sheet.height - 8
    sheet.room(_STRIP * len(outcomes) + 40)
    base = bottom + _STRIP * len(outcomes) + 2
    ratios = [ratio for _, ratio in ran] or [1.0]
    y = spanning([*ratios, 1.0], bottom, top, log=max(ratios) > 4 * min(ratios))

    def told(value: float) -> str:
        return f"{value:g}x"

    widest = 0.0 if sheet.narrow else 8 + max((text_width(outcome, 10) for outcome in outcomes), default=0.0)
    x = spanning(
        [0.0, clock.hours or 0.01], max(left_margin(y, told), widest), sheet.width - 10, zero=True, margin=0.02
    )
    for tick in y.ticks(5):
        sheet.line(x.start, y.at(tick), x.end, y.at(tick), "axis" if abs(tick - 1) < 1e-9 else "grid")
        sheet.text(x.start - 6, y.at(tick) + 4, told(tick), "muted", anchor="end", size=11)
    sheet.text(0, top - 10, "ratio to the baseline", "muted", size=11)
    minutes = clock.hours < 1.5
    for tick in _time_ticks(clock.hours, max(3, int((x.end - x.start) / 90))):
        sheet.line(x.at(tick), base, x.at(tick), base + 4, "axis")
        words = f"{60 * tick:.0f} min" if minutes else f"{tick:g} h"
        sheet.text(
            min(x.at(tick), x.end - text_width(words, 11) / 2 + 8), base + 16, words, "muted", anchor="middle", size=11
        )
    sheet.line(x.start, base, x.end, base, "axis")
    sheet.text(
        (x.start + x.end) / 2, base + 32, "time of measuring since the study began", "muted", anchor="middle", size=11
    )
    _best_line(sheet, x, y, clock, ran)
    for record, ratio in ran:
        at = x.at(clock.at(record)), y.at(ratio)
        hover = source.hover(record)
        if record.is_baseline:
            sheet.mark("square", *at, "text", size=4, hollow=True, hover=hover)
        elif record.stage in LAUNCHED_AGAIN or _is_search(record):
            sheet.mark(
                "circle", *at, "s1", size=3.5, faint=record.stage is not Stage.SEED and len(ran) > 40, hover=hover
            )
        else:
            sheet.mark("triangle", *at, "s2", size=4, hover=hover)
    for row, outcome in enumerate(outcomes):
        middle = bottom + _STRIP * row + _STRIP / 2 + 2
        sheet.line(x.start, middle, x.end, middle, "grid")
        if sheet.narrow:
            sheet.text(x.end, middle - 3, outcome, "muted", anchor="end", size=10, halo=True)
        else:
            sheet.text(x.start - 6, middle + 4, outcome, "muted", anchor="end", size=10)
        for record in failed:
            if outcome_of(record) == outcome:
                sheet.mark("cross", x.at(clock.at(record)), middle, "bad", size=3.2, hover=source.hover(record))


def _best_line(sheet: Sheet, x: Scale, y: Scale, clock: _Clock, ran: list[tuple[TrialRecord, float]]) -> None:
    points: list[tuple[float, float]] = []
    best = -math.inf
    searched = [(record, ratio) for record, ratio in ran if _is_search(record)]
    for record, ratio in searched:
        if ratio > best:
            points += [(x.at(clock.at(record)), y.at(best if points else ratio)), (x.at(clock.at(record)), y.at(ratio))]
            best = ratio
    if searched and points:
        points.append((x.at(clock.at(searched[-1][0])), y.at(best)))
        sheet.polyline(points, "s1", width=1.5)


class _Clock:
    """Hours since the study began, long pauses left out: a study that went on a week later is no week long."""

    _PAUSE_S = 1800.0

    def __init__(self, launches: list[TrialRecord]) -> None:
        self._at: dict[tuple[bool, int], float] = {}
        now, before = 0.0, None
        for record in launches:
            if before is not None:
                now += min(max(0.0, record.started_at - before), self._PAUSE_S)
            ends = record.finished_at or record.started_at
            self._at[_key(record)] = now / 3600
            now += max(0.0, ends - record.started_at)
            before = ends
        self.hours = now / 3600

    def at(self, record: TrialRecord) -> float:
        """When it began."""
        return self._at[_key(record)]


def _key(record: TrialRecord) -> tuple[bool, int]:
    return record.stage not in (Stage.BASELINE, Stage.SEED, Stage.SEARCH), record.number


def _is_search(record: TrialRecord) -> bool:
    return record.stage in (Stage.BASELINE, Stage.SEED, Stage.SEARCH)


def _time_ticks(hours: float, most: int) -> list[float]:
    steps = (1 / 60, 2 / 60, 5 / 60, 10 / 60, 0.25, 0.5, 1, 2, 4, 6, 12, 24, 48)
    step = next((one for one in steps if hours / one <= most), 96)
    return [step * place for place in range(int(hours / step) + 1)]
