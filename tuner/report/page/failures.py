"""What did not work, and why: outcomes grouped by their reasons."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from tuner.domain.record import TrialRecord
from tuner.domain.verdict import Outcome
from tuner.report.page.document import Block, Code, Section, Table, Text, paragraph
from tuner.report.page.figures import count, counted
from tuner.report.page.source import Source, label_of, outcome_of, title_of

_EXAMPLES = 4
_LEAST_GROUP = 3
_TELLING = 0.5
"""By so much more often a value must stand among those that failed than among those that ran."""
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")


def failures_section(source: Source) -> Section:
    """A row for each outcome and reason; what was launched again is counted too."""
    launches = [*source.searched, *source.confirmed]
    failed = [r for r in launches if r.verdict is not None and not r.verdict.feasible]
    open_ones = sum(1 for r in launches if r.verdict is None)
    ran = [r for r in launches if r.verdict is not None and r.verdict.feasible]
    worked: Text = (count(len(ran)), " worked as asked") if failed or open_ones else ("all worked as asked",)
    rest = f"; {open_ones} not finished." if open_ones else "."
    blocks: list[Block] = [paragraph(f"Of {counted(len(launches), 'trial')} ", *worked, rest)]
    if failed:
        blocks.append(_table(source, failed, ran))
    return Section("failures", "What did not work, and why", blocks)


def _table(source: Source, failed: Sequence[TrialRecord], ran: Sequence[TrialRecord]) -> Table:
    groups: dict[tuple[str, str], list[TrialRecord]] = {}
    for record in failed:
        groups.setdefault((outcome_of(record), _kind_of_reason(record)), []).append(record)
    rows: list[list[Text]] = []
    for (outcome, _), group in sorted(groups.items(), key=lambda item: -len(item[1])):
        named = ", ".join(title_of(record) for record in group[:_EXAMPLES])
        more = f" and {len(group) - _EXAMPLES} more" if len(group) > _EXAMPLES else ""
        rows.append(
            [(Code(outcome),), (count(len(group)),), (_reason(group),), _common(source, group, ran), (named + more,)]
        )
    return Table(["outcome", "trials", "reason", "in common", "which"], rows, frozenset({1}))


def _kind_of_reason(record: TrialRecord) -> str:
    """The reason without its figures: two that differ in these alone are one kind."""
    assert record.verdict is not None
    return _NUMBER.sub("#", record.verdict.reason)


def _reason(group: Sequence[TrialRecord]) -> str:
    reasons = Counter(record.verdict.reason for record in group if record.verdict is not None)
    reason = reasons.most_common(1)[0][0]
    repair = next((e.repair for r in group if r.verdict and (e := r.verdict.explanation) and e.repair), None)
    missed = _missed(group[0])
    advice = f" What helps: {repair}" if repair else ""
    return (reason if len(reasons) == 1 else f"such as: {reason}") + missed + advice


def _missed(record: TrialRecord) -> str:
    """Of one that ran: which need it did not meet."""
    verdict = record.verdict
    if verdict is None or verdict.outcome is not Outcome.OK:
        return ""
    names = [name for name, value in verdict.constraints.items() if value > 0]
    return f"; missed: {', '.join(names)}" if names else ""


def _common(source: Source, group: Sequence[TrialRecord], ran: Sequence[TrialRecord]) -> Text:
    """The value that tells those that failed from those that ran, if one does."""
    if len(group) < _LEAST_GROUP or not ran:
        return ("",)
    here = Counter(pair for record in group for pair in record.configuration.values.items())
    there = Counter(pair for record in ran for pair in record.configuration.values.items())
    best, seen = max(here.items(), key=lambda item: item[1] / len(group) - there[item[0]] / len(ran), default=(None, 0))
    if best is None or seen / len(group) - there[best] / len(ran) < _TELLING:
        return ("",)
    return (
        Code(f"{label_of(source.frozen, best[0])} {best[1]}"),
        " in ",
        count(seen),
        " of ",
        count(len(group)),
        "; of those that ran in ",
        count(there[best]),
        " of ",
        count(len(ran)),
    )
