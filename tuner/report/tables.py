"""Results as lines and tables for a terminal and for a log file."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from tuner.domain.frozen import FrozenStudy
from tuner.domain.measurement import Measurement
from tuner.domain.record import TrialRecord
from tuner.domain.workload import Workload
from tuner.report.cards import card_lines
from tuner.report.quality import quality_lines, quality_short
from tuner.report.recommendation import Recommendation
from tuner.report.requests_told import content_name, request_lines


def trial_line(record: TrialRecord) -> str:
    """What came of a trial, in one line."""
    verdict, measurement = record.verdict, record.measurement
    if verdict is None:
        return "running"
    seconds = f" ({record.seconds:.0f} s)" if record.seconds is not None else ""
    if measurement is None or not verdict.feasible:
        log = f" [{verdict.log}]" if verdict.log else ""
        return f"{verdict.outcome.value}: {verdict.reason}{seconds}{log}"
    return f"{speeds(measurement)}{quality_short(measurement)}{seconds}"


def speeds(measurement: Measurement) -> str:
    """Prefill and decode speed of a launch, by depth and content."""
    single = [result for result in measurement.cells if result.cell.streams == 1]
    depths = sorted({result.cell.depth for result in single})
    prefill = [f"{measurement.prefill_at(depth):.0f}@{depth}" for depth in depths if measurement.prefill_at(depth)]
    decode = [result.decode_tps for result in single if result.decode_tps is not None]
    told = [f"prefill {' '.join(prefill)} t/s"] if prefill else []
    if decode:
        told.append(f"decode {min(decode):.1f} to {max(decode):.1f} t/s")
    return ", ".join(told) or "nothing measured"


def decode_by_content(trials: Sequence[TrialRecord], workload: Workload) -> dict[str, dict[int, float]]:
    """Content -> depth -> decode speed in tokens a second: the median of the launches; streams marked as `code x2`."""
    table: dict[str, dict[int, float]] = {}
    for cell in workload.cells:
        found = [
            result.decode_tps
            for trial in trials
            if trial.measurement is not None
            and (result := trial.measurement.result(cell)) is not None
            and result.decode_tps is not None
        ]
        if found:
            table.setdefault(content_name(cell), {})[cell.depth] = statistics.median(found)
    return table


def prefill_by_depth(trials: Sequence[TrialRecord], workload: Workload) -> dict[int, float]:
    """Depth -> cold prefill speed in tokens a second: the median of the launches."""
    table: dict[int, float] = {}
    for depth in workload.depths:
        found = [t.measurement.prefill_at(depth) for t in trials if t.measurement is not None]
        known = [speed for speed in found if speed is not None]
        if known:
            table[depth] = statistics.median(known)
    return table


def difference_lines(recommendation: Recommendation, frozen: FrozenStudy) -> list[str]:
    """Flag by flag, in what a recommendation differs from the baseline, and what that is worth where it is known."""
    lines = []
    worths = {worth.name: f"   {worth.told()}" for worth in recommendation.worths}
    for name, (before, now) in recommendation.differences.items():
        parameter = frozen.space.by_name[name]
        told = flag_name(frozen, name)
        unit = f" {parameter.unit}" if parameter.unit else ""
        own = " (the card's own)" if parameter.target == "power_cap" else " (engine's default)"
        was = "not set" if before is None else f"{before}{unit}" + ("" if name in frozen.baseline else own)
        lines.append(f"{told}: {was} -> {'not set' if now is None else f'{now}{unit}'}{worths.get(name, '')}")
    return lines


def flag_name(frozen: FrozenStudy, name: str) -> str:
    """A parameter as a user knows it: its flag, or its environment variable."""
    parameter = frozen.space.by_name[name]
    return parameter.flag or parameter.environment or name.replace("_", " ")


def dropped_lines(recommendation: Recommendation, frozen: FrozenStudy) -> list[str]:
    """The flags that the search had set and that are worth nothing measurable."""
    return [
        f"{flag_name(frozen, worth.name)} {worth.now}: {worth.told()}"
        for worth in recommendation.worths
        if worth.name in recommendation.put_back
    ]


def recommendation_lines(recommendation: Recommendation, frozen: FrozenStudy) -> list[str]:
    """One profile's recommendation for a person to read in ten seconds."""
    trial, workload = recommendation.trial, frozen.workload
    lines = [f"{recommendation.profile.name}: {headline(recommendation)}"]
    if trial.command is not None:
        lines += ["", f"  {trial.command.posix_line()}", ""]
    lines += [f"  power     sudo {command}   (lost at a restart: see --boot-unit)" for command in trial.cap_commands]
    prefill = prefill_by_depth(recommendation.trials, workload)
    if prefill:
        lines.append("  prefill   " + "   ".join(f"{speed:.0f} t/s at {depth}" for depth, speed in prefill.items()))
    wanted = {content.value for content in recommendation.profile.contents}
    for name, speed_at in decode_by_content(recommendation.trials, workload).items():
        content, _, streams = name.partition(" x")
        if content in wanted and int(streams or 1) == recommendation.profile.streams:
            lines.append(f"  decode    {name:<13}" + "   ".join(f"{s:.1f} t/s at {d}" for d, s in speed_at.items()))
    lines += [f"  quality   {line}" for line in quality_lines(recommendation.trials)]
    lines += request_lines(recommendation.trials, workload, recommendation.profile)
    if workload.sampling.given():
        lines.append(f"  sampling  {workload.sampling}, in the measured requests alone")
    if trial.measurement is not None:
        lines.append("  context   " + context_told(trial.measurement))
        lines.append("  memory    " + memory_told(trial.measurement))
        lines += [f"  card      {line}" for line in card_lines(trial.measurement)]
        lines += [f"  note      {observation}" for observation in trial.measurement.observations]
    lines += [f"  left out  {line}" for line in recommendation.outliers]
    lines += [f"  changed   {line}" for line in difference_lines(recommendation, frozen)]
    lines += [f"  dropped   {line}" for line in dropped_lines(recommendation, frozen)]
    return lines


def headline(recommendation: Recommendation) -> str:
    """The gain in words, with what to make of it."""
    if not recommendation.meets_needs:
        return "nothing that was measured meets this profile's needs; the closest is the baseline"
    if recommendation.candidate.is_baseline and recommendation.tried == 0:
        return "nothing but the baseline was measured; more --hours or --trials give the search its turn"
    if recommendation.candidate.is_baseline:
        return "nothing faster was found than the baseline"
    if recommendation.is_baseline:
        return f"keep the baseline; the best candidate: {recommendation.gain.told()}"
    return recommendation.gain.told()


def context_told(measurement: Measurement) -> str:
    """Context of a slot, and how much of it was proven by a filled prompt."""
    context, proven = measurement.actual.context_per_slot, measurement.proven_context
    proof = f"{proven} proven by a cold prompt" if proven is not None else "none of it proven"
    return f"{context if context is not None else 'unknown'} tokens a slot, {proof}"


def memory_told(measurement: Measurement) -> str:
    """What the engine holds, by device, and the host memory seen."""
    buffers = [f"{device} {mib:.0f} MiB" for device, mib in measurement.actual.buffers_mib.items()]
    rss = measurement.host_rss_peak_mib
    return ", ".join([*buffers, *([f"host process {rss:.0f} MiB"] if rss is not None else [])]) or "unknown"
