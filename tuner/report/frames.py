"""Every trial and every request of a study as pandas frames. README.md documents the columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tuner.domain.measurement import Measurement, RequestTiming
from tuner.domain.record import TrialRecord
from tuner.report.key_figures import worst_nats

if TYPE_CHECKING:
    import pandas as pd

SCHEMA_VERSION = 1
"""Rises when a column changes its meaning; it is a column of both frames."""

_QUALITY = "quality "
"""What the cell's name of a question begins with."""
_WARM_UP = "warm-up"


def trial_frame(records: Sequence[TrialRecord]) -> pd.DataFrame:
    """One row for each launch, in the order in which they started; unknown is missing, never 0."""
    rows = [_trial(record) for record in sorted(records, key=lambda one: one.started_at)]
    return _frame(rows)


def request_frame(
    records: Sequence[TrialRecord], lines_of: Callable[[TrialRecord], Iterable[Mapping[str, Any]]]
) -> pd.DataFrame:
    """One row for each request that left a line, warm-ups and questions too.

    Args:
        records: the launches.
        lines_of: a launch's lines of `requests.jsonl`.
    """
    rows = [
        _request(record, number, line)
        for record in sorted(records, key=lambda one: one.started_at)
        for number, line in enumerate(lines_of(record))
    ]
    return _frame(rows)


def _trial(record: TrialRecord) -> dict[str, Any]:
    verdict, measurement = record.verdict, record.measurement
    return {
        "schema_version": SCHEMA_VERSION,
        "trial": record.folder,
        "stage": record.stage.value,
        "number": record.number,
        "note": record.note or None,
        "is_baseline": record.is_baseline,
        "fingerprint": record.configuration.fingerprint,
        "outcome": verdict.outcome.value if verdict else None,
        "feasible": verdict.feasible if verdict else None,
        "reason": verdict.reason if verdict else None,
        "started_at": record.started_at,
        "seconds": record.seconds,
        "command_line": record.command.posix_line() if record.command else None,
        "projected_mib": sum(record.projection.needed_mib.values()) if record.projection else None,
        **(_measured(measurement) if measurement else {}),
        **{f"parameter.{name}": value for name, value in record.configuration.values.items()},
    }


def _measured(measurement: Measurement) -> dict[str, Any]:
    actual = measurement.actual
    row: dict[str, Any] = {
        "ready_s": measurement.ready_s,
        "context_tokens": actual.context_per_slot,
        "proven_context_tokens": measurement.proven_context,
        "slots": actual.slots,
        "kv_types": actual.kv_types,
        "buffers_mib": sum(actual.buffers_mib.values()) if actual.buffers_mib else None,
        "host_rss_peak_mib": measurement.host_rss_peak_mib,
        "swap_growth_mib": measurement.swap_growth_mib,
        "gpu_memory_peak_mib": _sum(use.memory_peak_mib for use in measurement.gpus),
        "gpu_power_mean_w": _sum(use.power_mean_w for use in measurement.gpus),
        "gpu_energy_j": _sum(use.energy_j for use in measurement.gpus),
        "quality_nats": worst_nats(measurement),
        "cut_short": measurement.cut_short,
    }
    for result in measurement.cells:
        row[f"decode_tps.{result.cell.name}"] = result.decode_tps
        row[f"acceptance_rate.{result.cell.name}"] = result.acceptance_rate
    for depth in sorted({result.cell.depth for result in measurement.cells if result.cell.streams == 1}):
        row[f"prefill_tps.{depth}"] = measurement.prefill_at(depth)
        row[f"ttft_ms.{depth}"] = measurement.ttft_at(depth)
    return row


def _request(record: TrialRecord, number: int, line: Mapping[str, Any]) -> dict[str, Any]:
    cell = str(line["cell"])
    is_question = cell.startswith(_QUALITY)
    content, _, place = cell.partition("@")
    depth, _, streams = place.partition("x")
    row: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "trial": record.folder,
        "stage": record.stage.value,
        "request": number,
        "kind": "question" if is_question else "warm-up" if cell == _WARM_UP else "cell",
        "cell": cell,
        "content": content if place and not is_question else None,
        "depth": int(depth) if depth.isdigit() and not is_question else None,
        "streams": int(streams) if streams.isdigit() else 1 if depth.isdigit() and not is_question else None,
        "counts": line["counts"],
        "failure": line.get("kind"),
    }
    for name in RequestTiming.model_fields:
        value = line.get(name)
        row[name] = json.dumps(value) if name == "gaps_ms" and value is not None else value
    if line.get("decode_ms") is not None or line.get("prefill_ms") is not None:
        timing = RequestTiming.model_validate({k: v for k, v in line.items() if k in RequestTiming.model_fields})
        row["prefill_tps"], row["decode_tps"] = timing.prefill_tps, timing.decode_tps
        row["client_decode_tps"], row["acceptance_rate"] = timing.client_decode_tps, timing.acceptance_rate
    return row


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Columns of one type each: numbers that may be missing stay numbers, and mixed values become texts."""
    import pandas as pd

    names = list(dict.fromkeys(name for row in rows for name in row))
    columns: dict[str, pd.Series[Any]] = {}
    for name in names:
        values = [row.get(name) for row in rows]
        kinds = {type(value) for value in values if value is not None}
        if kinds == {int}:
            columns[name] = pd.Series(values, dtype="Int64")
        elif kinds and kinds <= {int, float}:
            columns[name] = pd.Series(values, dtype="Float64")
        elif kinds == {bool}:
            columns[name] = pd.Series(values, dtype="boolean")
        else:
            texts = [None if value is None else str(value) for value in values]
            columns[name] = pd.Series(texts, dtype="string")
    return pd.DataFrame(columns)
