"""What each flag was worth on this machine."""

from __future__ import annotations

import math
from collections import Counter

from tuner.domain.configuration import Value
from tuner.report.page.document import Block, Code, Details, Number, Picture, Section, Table, Text, paragraph
from tuner.report.page.figures import Figures, count
from tuner.report.page.gains import Interval, paint_intervals, ratio_told
from tuner.report.page.sheet import Sheet
from tuner.report.page.source import Source, label_of
from tuner.report.page.steps import Effect, Step, steps

_SHOWN = 12
_OF_ONE_FLAG = 2
_TOLD = 60
"""Rows of the table: what is left out moved next to nothing."""


def worth_section(source: Source) -> Section:
    """First what the confirm stage says of the winners' own flags, then what the search happens to show."""
    blocks = _winners(source)
    found = steps(source)
    if found:
        blocks.append(
            paragraph(
                "Seen in the study: configurations that differ in one flag and in nothing else. The search did not "
                "look for such pairs, and most were launched once. An interval stands where launches were repeated, "
                "so that the noise between two launches is known; all of them hold together in 95 of 100 studies, for ",
                count(len(found)),
                " changes. What a flag needs to exist (a draft's length) changes with it.",
            )
        )
        blocks.append(_picture(source, found))
        blocks.append(Details(f"All changes of one flag ({len(found)})", [_table(source, found[:_TOLD])]))
    elif not blocks:
        blocks.append(
            paragraph(
                "No two configurations of this study differ in one flag alone, and the confirm stage did not take the "
                "winners apart: what a single flag was worth is not known."
            )
        )
    return Section("worth", "What each flag was worth here", blocks)


def _winners(source: Source) -> list[Block]:
    """The flags of the winners, each put back to the baseline's value in launches of its own."""
    rows: list[list[Text]] = []
    intervals: list[Interval] = []
    for place, profile in enumerate(source.best["profiles"]):
        for at, worth in enumerate(profile.get("worths", ())):
            figures = Figures(source.best, "").at("profiles", place, "worths", at)
            name = label_of(source.frozen, worth["parameter"])
            rows.append([(profile["name"],), (Code(name),), _winner_told(figures), _kept(worth)])
            if worth["ratio"] is not None:
                low, high = worth["interval"] or (None, None)
                intervals.append(Interval(profile["name"], worth["ratio"], low, high, name))
    if not rows:
        return []
    told = paragraph(
        "From the confirm stage: the winner of each profile beside itself with one of its flags as in the baseline, "
        "launched in turn."
    )
    table = Table(["profile", "flag", "the winner's gain through it", ""], rows)
    blocks: list[Block] = [told]
    if intervals:
        says = "Speed of the winner with each of its flags over itself without it."

        def paint(sheet: Sheet) -> None:
            paint_intervals(sheet, intervals, "speed with the flag against without")

        blocks.append(
            Picture("worth-confirmed", "What the winners' flags are worth, by the confirm stage", says, paint)
        )
    return [*blocks, table]


def _winner_told(figures: Figures) -> Text:
    needed = figures.at("needed").told
    if needed is not None:
        return (f"needed: {needed}",)
    ratio = figures.number("ratio", digits=3)
    low, high = figures.number("interval", 0, digits=3), figures.number("interval", 1, digits=3)
    if ratio is None:
        return ("not measured",)
    if low is None or high is None:
        return (ratio, "x, launched once")
    if low.value <= 1 <= high.value:
        return ("no measurable difference (", low, " to ", high, ")")
    return (ratio, "x (", low, " to ", high, ")")


def _kept(worth: dict[str, object]) -> Text:
    return ("left out of the command",) if worth.get("dropped") else ("kept",)


def _table(source: Source, found: list[Step]) -> Table:
    rows: list[list[Text]] = [
        [
            (Code(_change(source, step)),),
            _effect_told(step.decode),
            _effect_told(step.prefill),
            (count(step.pairs), " in the confirm stage" if _confirmed(step) else " in the search"),
        ]
        for step in found
    ]
    return Table(["change", "decode", "prefill", "pairs seen"], rows)


def _effect_told(effect: Effect | None) -> Text:
    if effect is None:
        return ("not measured",)
    if effect.low is None or effect.high is None:
        return (*_ratio(effect.ratio), ", noise not known")
    ends: Text = ("(", *_ratio(effect.low), " to ", *_ratio(effect.high), ")")
    return (*_ratio(effect.ratio), " ", *ends) if effect.is_measurable else ("no measurable difference ", *ends)


def _ratio(value: float) -> Text:
    told = ratio_told(value, 3)
    return (Number(value, told[:-1]), "x") if told[0].isdigit() else (told,)


def _picture(source: Source, found: list[Step]) -> Picture:
    shown = _most_telling(source, found)
    rows = [
        Interval(_change(source, step), effect.ratio, effect.low, effect.high, metric, ink, mark)
        for step in shown
        for metric, effect, ink, mark in (
            ("decode", step.decode, "s1", "circle"),
            ("prefill", step.prefill, "s2", "square"),
        )
        if effect is not None
    ]
    sure = [f"{row.name} ({row.of} {ratio_told(row.ratio)})" for row in rows if row.differs]
    says = f"Measurable: {'; '.join(sure[:3])}." if sure else "No change of a single flag is measurable by itself."
    if len(sure) > 3:
        says = says[:-1] + f", and {len(sure) - 3} more."

    def paint(sheet: Sheet) -> None:
        sheet.legend(
            [
                ("circle", "s1", "decode", False),
                ("square", "s2", "prefill", False),
                ("circle", "s0", "hollow: not to be told from no change", True),
            ]
        )
        paint_intervals(sheet, rows, "change of speed, everything else alike")

    return Picture("worth", f"The {len(shown)} most telling changes of one flag", says, paint)


def _most_telling(source: Source, found: list[Step]) -> list[Step]:
    """What is measurable first, changes of the baseline's own value before others, then by size; few of each flag."""
    base = source.baseline.configuration.values if source.baseline is not None else {}

    def rank(step: Step) -> tuple[bool, bool, bool, float]:
        sure = any(effect is not None and effect.is_measurable for effect in (step.prefill, step.decode))
        return (not sure, step.before != base.get(step.name), not _confirmed(step), -step.size)

    taken: Counter[str] = Counter()
    shown = []
    for step in sorted(found, key=rank):
        taken[step.name] += 1
        if taken[step.name] <= _OF_ONE_FLAG:
            shown.append(step)
    return shown[:_SHOWN]


def _confirmed(step: Step) -> bool:
    return any(effect is not None and effect.confirmed for effect in (step.decode, step.prefill))


def _change(source: Source, step: Step) -> str:
    return f"{label_of(source.frozen, step.name)} {_shown(step.before)} → {_shown(step.now)}"


def _shown(value: Value | None) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) and not math.isinf(value) else str(value)
