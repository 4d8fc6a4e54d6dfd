"""Memory: what the engine's own dry run projected, and what was then held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tuner.domain.measurement import Measurement
from tuner.domain.record import TrialRecord
from tuner.domain.verdict import Outcome
from tuner.report.page.axes import frame, left_margin, spanning
from tuner.report.page.document import Block, Picture, Section, Table, Text, paragraph
from tuner.report.page.figures import Figures, count, counted, joined, number, with_unit
from tuner.report.page.sheet import Sheet
from tuner.report.page.source import Source

_MOST_DEVICES = 4


@dataclass(frozen=True)
class _Launch:
    record: TrialRecord
    projected: float
    held: float | None
    speculates: bool


def memory_section(source: Source) -> Section:
    """A plot a device where anything was projected; what is held by the recommended configurations in any case."""
    devices = _devices(source)
    blocks: list[Block] = []
    for device in devices[:_MOST_DEVICES]:
        launches = _launches(source, device)
        blocks += [_told(device, launches), _picture(source, device, launches)]
    if len(devices) > _MOST_DEVICES:
        blocks.append(paragraph(f"Not shown: {', '.join(devices[_MOST_DEVICES:])}."))
    if not devices:
        blocks.append(
            paragraph(
                "No memory was projected in this study: the engine makes a dry run only where the placement is not "
                "left to it and there is a device to place on. What was held:"
            )
        )
    blocks.append(_held_table(source))
    return Section("memory", "Memory, projected and measured", blocks)


def _devices(source: Source) -> list[str]:
    found = {device for r in source.searched if r.projection is not None for device in r.projection.needed_mib}
    return sorted(found)


def _launches(source: Source, device: str) -> list[_Launch]:
    return [
        _Launch(record, needed, held_mib(device, record.measurement), record.projection.speculates)
        for record in source.searched
        if record.projection is not None and (needed := record.projection.needed_mib.get(device)) is not None
    ]


def held_mib(device: str, measurement: Measurement | None) -> float | None:
    """What a launch held on a device at its peak: as the driver saw it where it did, else the engine's own buffers."""
    if measurement is None:
        return None
    for use in measurement.gpus:
        if use.device == device and use.memory_peak_mib is not None and use.memory_idle_mib is not None:
            return use.memory_peak_mib - use.memory_idle_mib
    return measurement.actual.buffers_mib.get(device)


def _told(device: str, launches: Sequence[_Launch]) -> Block:
    errors = [one.held - one.projected for one in launches if one.held is not None]
    saved = sum(1 for one in launches if _outcome(one) is Outcome.WILL_NOT_FIT)
    burst = sum(1 for one in launches if _outcome(one) is Outcome.OUT_OF_MEMORY)
    told: list[Text] = [(f"{device}: projected before ", counted(len(launches), "trial"))]
    if len(errors) == 1:
        told.append(("; held beside that: ", *with_unit(number(errors[0], sign=True), "MiB")))
    elif errors:
        middle = with_unit(number(median(errors), sign=True), "MiB")
        ends: Text = (number(min(errors), sign=True), " to ", *with_unit(number(max(errors), sign=True), "MiB"))
        told.append(("; held beside that: ", *middle, " in the median (", *ends, ")"))
    else:
        told.append(("; none of them was measured",))
    told.append((". Not launched for it: ", count(saved), "; launched, and out of memory: ", count(burst), "."))
    return paragraph(*joined(told, ""))


def _picture(source: Source, device: str, launches: Sequence[_Launch]) -> Picture:
    measured = [one for one in launches if one.held is not None]
    refused = [one for one in launches if _outcome(one) in (Outcome.WILL_NOT_FIT, Outcome.OUT_OF_MEMORY)]
    free = [r.projection.free_mib[device] for r in source.searched if r.projection and device in r.projection.free_mib]
    limit = median(free) if free else None
    says = f"Measured beside a projection: {len(measured)}; not launched or out of memory: {len(refused)}."

    def paint(sheet: Sheet) -> None:
        legend = []
        if any(not one.speculates for one in measured):
            legend.append(("circle", "s1", "measured", False))
        if any(one.speculates for one in measured):
            legend.append(("triangle", "s4", "measured, with a draft, which is not projected", False))
        if any(_outcome(one) is Outcome.OUT_OF_MEMORY for one in refused):
            legend.append(("cross", "bad", "ran out of memory", False))
        if any(_outcome(one) is Outcome.WILL_NOT_FIT for one in refused):
            legend.append(("diamond", "s0", "not launched", True))
        legend.append(("line", "axis", "as projected", False))
        if limit is not None:
            legend.append(("line", "s2", "free memory", False))
        sheet.legend(legend)
        top = sheet.room(300) + 22
        bottom = sheet.height - 56
        lowest = min(one.projected for one in launches)
        ends = [
            *(one.projected / 1024 for one in launches),
            *(one.held / 1024 for one in measured if one.held is not None),
        ]
        if limit is not None:
            # What is far beyond is refused in any case: it may stand at the edge.
            ends = [min(end, 1.5 * max(limit, lowest) / 1024) for end in [*ends, limit / 1024]]
        y = spanning(ends, bottom, top)
        x = spanning(ends, left_margin(y), sheet.width - 12)
        frame(sheet, x, y, x_label="projected, GiB", y_label="held at the peak, GiB")
        sheet.line(x.at(x.low), y.at(x.low), x.at(x.high), y.at(x.high), "axis", dash="4 3")
        if limit is not None and x.low <= limit / 1024 <= x.high:
            sheet.line(x.at(limit / 1024), y.start, x.at(limit / 1024), y.end, "s2", dash="2 3", width=1.5)
            sheet.line(x.start, y.at(limit / 1024), x.end, y.at(limit / 1024), "s2", dash="2 3", width=1.5)
        for one in launches:
            at, hover = x.at(one.projected / 1024), source.hover(one.record)
            if one.held is not None:
                kind, ink = ("triangle", "s4") if one.speculates else ("circle", "s1")
                sheet.mark(kind, at, y.at(one.held / 1024), ink, size=4, hover=hover, faint=len(measured) > 40)
            elif _outcome(one) is Outcome.OUT_OF_MEMORY:
                sheet.mark("cross", at, y.start - 6, "bad", size=4, hover=hover)
            elif _outcome(one) is Outcome.WILL_NOT_FIT:
                sheet.mark("diamond", at, y.start - 6, "s0", size=4, hollow=True, hover=hover)

    return Picture(f"memory-{device}", f"{device}: memory as projected and as held", says, paint)


def _outcome(launch: _Launch) -> Outcome | None:
    return launch.record.verdict.outcome if launch.record.verdict is not None else None


def _held_table(source: Source) -> Table:
    """What is recommended, each configuration once."""
    rows: list[list[Text]] = []
    alike: dict[str, list[int]] = {}
    for place, recommendation in enumerate(source.recommendations):
        key = "baseline" if recommendation.is_baseline else recommendation.trial.configuration.fingerprint
        alike.setdefault(key, []).append(place)
    for places in alike.values():
        metrics = Figures(source.best, "").at("profiles", places[0], "metrics")
        name = ", ".join(source.best["profiles"][place]["name"] for place in places)
        held: list[tuple[str, Text]] = [
            (f"{device}, the engine's buffers", metrics.memory("buffers_mib", device))
            for device in metrics.at("buffers_mib").told
        ]
        for at, use in enumerate(metrics.at("gpus").told):
            if use["memory_peak_mib"] is not None:
                card = f"{use['device'] or ''} {use['name']}, at its peak".strip()
                held.append((card, metrics.memory("gpus", at, "memory_peak_mib")))
        if metrics.at("host_rss_peak_mib").told is not None:
            held.append(("host, the engine's processes", metrics.memory("host_rss_peak_mib")))
        rows += [[(name if row == 0 else "",), (where,), told] for row, (where, told) in enumerate(held)]
    return Table(["run for", "where", "held"], rows, frozenset({2}))
