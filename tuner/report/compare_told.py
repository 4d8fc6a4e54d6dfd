"""A comparison for people: sections of rows, a terminal's text, Markdown to paste, CSV for a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tuner.domain.command import LaunchCommand
from tuner.report.compare import Arm, Comparison, ProfileComparison
from tuner.report.compare_protocol import differences, heading
from tuner.report.compare_rows import Figure, Row, rows
from tuner.report.gain import Gain

_NAMES = {
    "prefill": "prefill", "decode": "decode", "total": "total", "acceptance_rate": "accepted",
    "acceptance_length": "accepted length", "context": "context a slot", "proven_context": "context proven",
    "quality_nats": "answers off the own baseline's",
    "cards_peak": "cards' memory at its peak", "buffers": "engine's buffers", "host_peak": "host memory",
}  # fmt: skip
_NOTHING = "-"


@dataclass(frozen=True)
class Section:
    """Profiles for which every study recommends one and the same configuration, and its figures."""

    profiles: tuple[ProfileComparison, ...]
    arms: tuple[Arm, ...]
    rows: tuple[Row, ...]


def sections(comparison: Comparison) -> list[Section]:
    """The profiles, those with the same configurations together: their figures are the same."""
    groups: dict[tuple[tuple[str, str, int], ...], list[ProfileComparison]] = {}
    for compared in comparison.profiles:
        last = [(arm.name, arm.recommendation.trial) for arm in compared.arms]
        key = tuple((name, trial.stage.value, trial.number) for name, trial in last)
        groups.setdefault(key, []).append(compared)
    return [Section(tuple(group), group[0].arms, tuple(rows(group[0].arms))) for group in groups.values()]


def table_rows(section: Section, studies: Sequence[str]) -> list[tuple[str, ...]]:
    """The figures that matter to a section's profiles: label, unit, then one text a study; shared rows first."""
    profiles = [compared.profile for compared in section.profiles]
    wanted = [row for row in section.rows if row.matters_to(profiles)]
    ordered = sorted(wanted, key=lambda row: not row.is_shared)
    return [
        (label(row, ordered), row.unit, *(shown(row, row.figures.get(name)) for name in studies)) for row in ordered
    ]


def label(row: Row, beside: Sequence[Row]) -> str:
    """What a row holds; how it was measured only where another row holds the same measured otherwise."""
    told = _NAMES[row.metric]
    if row.content is not None:
        told += f" {row.content.value}"
    if row.streams > 1:
        told += f" x{row.streams}"
    if row.depth is not None:
        told += f" @{row.depth}"
    place = (row.metric, row.content, row.depth, row.streams)
    twins = [one for one in beside if (one.metric, one.content, one.depth, one.streams) == place]
    return f"{told} ({row.how.told()})" if len(twins) > 1 else told


def shown(row: Row, figure: Figure | None) -> str:
    """A figure in as many digits as its unit deserves."""
    if figure is None:
        return _NOTHING
    if row.metric == "quality_nats":
        return f"{figure.median:.3f}"
    digits = {"t/s": 0 if row.metric == "prefill" else 1, "tokens": 2 if row.metric == "acceptance_length" else 0}
    return f"{figure.median:.{digits.get(row.unit, 0)}f}"


def verdict(compared: ProfileComparison) -> str:
    """Which study serves a profile best, with the intervals."""
    if compared.best is None:
        return "nothing to compare"
    rivals = dict(sorted(compared.over.items(), key=lambda pair: pair[1].ratio))
    told = [over(gained, name) for name, gained in rivals.items()]
    if compared.level:
        apart = [over(compared.over[name], name) for name in rivals if name not in compared.level]
        inside = [over(compared.over[name], name) for name in compared.level[1:]]
        said = f"no measurable difference between {' and '.join(compared.level)}: {compared.best} {', '.join(inside)}"
        return f"{said}; {', '.join(apart)}" if apart else said
    if not told:
        return f"{compared.best} wins: it alone meets the needs"
    if compared.winner is None:
        return f"{compared.best} leads, not confirmed: {', '.join(told)}"
    return f"{compared.winner} wins: {', '.join(told)}"


def over(gained: Gain, rival: str) -> str:
    """`1.13x RIVAL (1.08 to 1.18)`."""
    if gained.low is None or gained.high is None:
        return f"{gained.ratio:.2f}x {rival}"
    digits = 3 if min(abs(gained.low - 1), abs(gained.high - 1)) < 0.01 else 2
    return f"{gained.ratio:.2f}x {rival} ({gained.low:.{digits}f} to {gained.high:.{digits}f})"


def notes(comparison: Comparison) -> list[str]:
    """What was left out, and what was not the same."""
    return [*(f"left out: {line}" for line in comparison.left_out), *differences(comparison)]


def command_lines(section: Section) -> Iterator[tuple[str, str]]:
    """Study -> the command whose figures stand in the section."""
    for arm in section.arms:
        command = arm.recommendation.trial.command
        caps = "".join(f"{cap} && " for cap in arm.recommendation.trial.cap_commands)
        yield arm.name, f"{caps}{command.posix_line()}" if isinstance(command, LaunchCommand) else "not recorded"


def markdown(comparison: Comparison) -> str:
    """The whole comparison as Markdown, one table a section."""
    names = [study.name for study in comparison.studies]
    lines = [f"- **{study.name}**: {heading(study)}" for study in comparison.studies]
    for section in sections(comparison):
        lines += ["", f"### {', '.join(compared.profile.name for compared in section.profiles)}", ""]
        lines += [f"- {compared.profile.name}: {verdict(compared)}" for compared in section.profiles]
        lines += ["", _line(["", "unit", *names]), _line(["---", "---", *(["---:"] * len(names))])]
        lines += [_line(row) for row in table_rows(section, names)]
        lines += ["", *(f"- {name}: `{command}`" for name, command in command_lines(section))]
    told = notes(comparison)
    return "\n".join([*lines, "", *(f"- {line}" for line in told)])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


_COLUMNS = (
    "profiles", "metric", "content", "depth", "streams", "tokens", "sampling", "unit", "study", "value", "low", "high",
    "launches",
)  # fmt: skip


def csv_text(comparison: Comparison) -> str:
    """One figure a line: `low` and `high` are the range of its launches, of a `gain over STUDY` its interval."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for section in sections(comparison):
        profiles = " ".join(compared.profile.name for compared in section.profiles)
        for row in section.rows:
            for name, figure in row.figures.items():
                where = (row.content.value if row.content else "", row.depth, row.streams)
                how = (row.how.tokens, row.how.sampling or "")
                values = (figure.median, figure.least, figure.most, figure.launches)
                writer.writerow((profiles, row.metric, *where, *how, row.unit, name, *values))
        for compared in section.profiles:
            launches = {arm.name: len(arm.launches) for arm in compared.arms}
            for name, gained in compared.over.items():
                ours = (compared.best, gained.ratio, gained.low, gained.high, launches[compared.best or ""])
                writer.writerow((compared.profile.name, f"gain over {name}", *([""] * 5), "x", *ours))
    return out.getvalue()
