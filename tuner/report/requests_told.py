"""What a user feels beside the speeds, for a terminal and for JSON: first tokens, drafts that held, streams apart."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from tuner.domain.measurement import CellResult
from tuner.domain.profile import Profile
from tuner.domain.record import TrialRecord
from tuner.domain.workload import Cell, Workload

_USUAL_ENDS = ("limit", None)


def ttft_by_depth(trials: Sequence[TrialRecord], workload: Workload) -> dict[int, dict[str, float | None]]:
    """Depth -> time to the first token in ms, `cold` and `warm` (the prefix cached): medians of the launches."""
    table: dict[int, dict[str, float | None]] = {}
    for depth in workload.depths:
        cells = [cell for cell in workload.cells if (cell.depth, cell.streams) == (depth, 1)]
        told = {
            "cold": _median(trials, cells, lambda result: result.ttft_ms),
            "warm": _median(trials, cells, lambda result: result.warm_ttft_ms),
        }
        if any(time is not None for time in told.values()):
            table[depth] = told
    return table


def acceptance_by_content(
    trials: Sequence[TrialRecord], workload: Workload
) -> dict[str, dict[int, dict[str, float | None]]]:
    """Content -> depth -> acceptance `rate` and `length` (tokens a verification); empty without speculation."""
    table: dict[str, dict[int, dict[str, float | None]]] = {}
    for cell in workload.cells:
        rate = _median(trials, [cell], lambda result: result.acceptance_rate)
        if rate is not None:
            length = _median(trials, [cell], lambda result: result.acceptance_length)
            table.setdefault(content_name(cell), {})[cell.depth] = {"rate": rate, "length": length}
    return table


def content_name(cell: Cell) -> str:
    """The content, streams marked as `code x2`."""
    return cell.content.value + (f" x{cell.streams}" if cell.streams > 1 else "")


def request_lines(trials: Sequence[TrialRecord], workload: Workload, profile: Profile) -> list[str]:
    """Time to the first token, acceptance where speculation is on, streams apart, and answers that ended early."""
    own = [cell for cell in workload.cells if cell.content in profile.contents and cell.streams == profile.streams]
    lines = []
    for depth, told in ttft_by_depth(trials, workload).items():
        times = [f"{_duration(time)} {kind}" for kind, time in told.items() if time is not None]
        lines.append(f"  ttft      {', '.join(times)} at {depth}")
    accepted = acceptance_by_content(trials, workload)
    for name in dict.fromkeys(content_name(cell) for cell in own if content_name(cell) in accepted):
        told_at = [
            f"{100 * (figures['rate'] or 0):.0f} % of drafts, {figures['length'] or 1:.2f} tokens a step at {depth}"
            for depth, figures in accepted[name].items()
        ]
        lines.append(f"  accepted  {name:<13}" + "   ".join(told_at))
    for cell in own:
        spread = _median(trials, [cell], lambda result: result.stream_spread)
        results = _results(trials, [cell])
        if spread is not None:
            speeds = [speed for result in results for speed in result.stream_tps]
            lines.append(
                f"  streams   {cell.name}: {min(speeds):.1f} to {max(speeds):.1f} t/s each, {100 * spread:.0f} % apart"
            )
        odd = sorted({str(end) for result in results for end in result.finish_reasons if end not in _USUAL_ENDS})
        if odd:
            lines.append(f"  note      {cell.name}: answers ended early ({', '.join(odd)})")
    return lines


def _results(trials: Sequence[TrialRecord], cells: Sequence[Cell]) -> list[CellResult]:
    measured = [trial.measurement for trial in trials if trial.measurement is not None]
    return [result for one in measured for cell in cells if (result := one.result(cell)) is not None]


def _median(
    trials: Sequence[TrialRecord], cells: Sequence[Cell], metric: Callable[[CellResult], float | None]
) -> float | None:
    known = [value for result in _results(trials, cells) if (value := metric(result)) is not None]
    return statistics.median(known) if known else None


def _duration(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 10_000 else f"{ms / 1000:.1f} s"
