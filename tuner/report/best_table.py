"""All profiles in one table that is read in ten seconds, and below it each command once."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.domain.frozen import FrozenStudy
from tuner.report.key_figures import KeyFigures
from tuner.report.recommendation import Recommendation
from tuner.report.tables import difference_lines

_TITLES = ("profile", "gain over yours", "prefill t/s", "decode t/s", "context", "quality", "memory")
_WHY_YOURS = "; keep yours: there is no measurable difference for the better between the best one found and yours"


def best_lines(frozen: FrozenStudy, found: Sequence[Recommendation]) -> list[str]:
    """The table, the commands with what they change, and what to know beside them."""
    rows = [_TITLES, *(_row(frozen, one) for one in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_TITLES))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    if any(one.gain.low is not None for one in found):
        lines.append("gains with 95 % intervals" + _WHY_YOURS * any(one.is_baseline for one in found))
    for line, profiles in _by_command(found).items():
        first = profiles[0]
        whose = ", yours" if first.is_baseline else ""
        lines += ["", f"{', '.join(one.profile.name for one in profiles)}{whose}:", f"  {line}"]
        lines += [
            f"  first     sudo {command}   (lost at a restart: see --boot-unit)" for command in first.trial.cap_commands
        ]
        lines += [f"  changed   {changed}" for changed in difference_lines(first, frozen)]
    if frozen.workload.sampling.given():
        lines += ["", f"  sampling  {frozen.workload.sampling}, in the measured requests alone"]
    noted = sum(len(one.outliers) + len(one.trial.measurement.observations) for one in found if one.trial.measurement)
    if noted:
        lines += ["", f"with notes on {'one point' if noted == 1 else f'{noted} points'}: see --details"]
    return lines


def _by_command(found: Sequence[Recommendation]) -> dict[str, list[Recommendation]]:
    """Each command with the profiles it is best for."""
    grouped: dict[str, list[Recommendation]] = {}
    for one in found:
        assert one.trial.command is not None
        grouped.setdefault(one.trial.command.posix_line(), []).append(one)
    return grouped


def _row(frozen: FrozenStudy, one: Recommendation) -> tuple[str, ...]:
    figures = KeyFigures(one.profile, one.trials, frozen.workload)
    prefill, decode, memory = figures.prefill_tps, figures.decode_tps, figures.memory_mib
    context = figures.context_tokens
    streams = f" x{figures.cell.streams}" if figures.cell.streams > 1 else ""
    return (
        one.profile.name,
        _gain(one),
        "-" if prefill is None else f"{prefill:.0f} at {figures.depth}",
        "-" if decode is None else f"{decode:.1f} {figures.cell.content.value}{streams} at {figures.depth}",
        "-" if context is None else str(context),
        "yours" if one.is_baseline else figures.quality,
        "-" if memory is None else f"{memory / 1024:.1f} GiB",
    )


def _gain(one: Recommendation) -> str:
    gain = one.gain
    interval = "" if gain.low is None or gain.high is None else f" ({gain.low:.2f} to {gain.high:.2f})"
    if not one.meets_needs:
        return "needs not met"
    if one.candidate.is_baseline:
        return "keep yours, nothing faster" if one.tried else "yours, nothing else tried"
    if one.is_baseline:
        return f"keep yours: {gain.ratio:.2f}x{interval}"
    return f"{gain.ratio:.2f}x{interval}" if interval else f"{gain.ratio:.2f}x, not confirmed"
