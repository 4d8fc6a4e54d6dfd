"""`tuner front`: the Pareto front of a study."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from tuner import wiring
from tuner.domain.errors import BadInput
from tuner.domain.frozen import FrozenStudy
from tuner.domain.record import TrialRecord
from tuner.report.front import FrontPoint, front
from tuner.report.json_form import SCHEMA_VERSION
from tuner.report.key_figures import worst_nats
from tuner.store.folder import StudyFolder

_WIDE = 200


def front_command(name: str, studies: Path, *, as_json: bool, as_csv: bool) -> None:
    """Prints every configuration that no other one beats in prefill, decode and context at once.

    Raises:
        BadInput: nothing was measured yet.
    """
    folder = StudyFolder.existing(studies, name)
    study = wiring.read_study(folder)
    points = front(study.frozen, study.searched, study.confirmed) if study else []
    if study is None or not points:
        raise BadInput(f"The study {name} has nothing measured yet", advice=f"run it with `tuner run {name}`")
    rows = [_row(study.frozen, point) for point in points]
    if as_json:
        typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, "study": name, "front": rows}, indent=2))
    elif as_csv:
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({**row, "argv": " ".join(row["argv"])} for row in rows)
        typer.echo(text.getvalue(), nl=False)
    else:
        _print(rows)


def _row(frozen: FrozenStudy, point: FrontPoint) -> dict[str, Any]:
    record, measurement = point.record, point.record.measurement
    assert measurement is not None
    assert record.command is not None
    watts = [use.power_mean_w for use in measurement.gpus if use.power_mean_w is not None]
    return {
        "trial": record.number,
        "prefill_tps": round(point.prefill_tps, 2),
        "decode_tps": round(point.decode_tps, 2),
        "context_tokens": point.context_tokens,
        "proven_context_tokens": measurement.proven_context,
        "quality_nats": worst_nats(measurement),
        "memory_mib": round(sum(measurement.actual.buffers_mib.values())) or None,
        "power_w": round(sum(watts)) if watts else None,
        "is_baseline": record.is_baseline,
        "differences": _differences(frozen, record),
        "command_line": record.command.posix_line(),
        "argv": list(record.command.argv),
    }


def _differences(frozen: FrozenStudy, record: TrialRecord) -> str:
    """In what it differs from the baseline's own values, short enough for a table."""
    defaults = {parameter.name: parameter.default for parameter in frozen.space.parameters}
    return ", ".join(
        f"{name.replace('_', '-')} {value}"
        for name, value in record.configuration.values.items()
        if value != defaults[name]
    )


def _print(rows: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False)
    for heading in ("trial", "prefill t/s", "decode t/s", "context", "proven", "nats off", "MiB", "W"):
        table.add_column(heading, justify="right")
    table.add_column("differs from the defaults in")
    for row in rows:
        figures = [f"{row['prefill_tps']:.0f}", f"{row['decode_tps']:.1f}", str(row["context_tokens"])]
        nats = None if row["quality_nats"] is None else f"{row['quality_nats']:.2f}"
        others = [row["proven_context_tokens"], nats, row["memory_mib"], row["power_w"]]
        what = "the baseline" if row["is_baseline"] else row["differences"] or "nothing"
        table.add_row(str(row["trial"]), *figures, *("-" if other is None else str(other) for other in others), what)
    # Into a file or a pipe the rows go unbroken.
    (Console() if sys.stdout.isatty() else Console(width=_WIDE)).print(table)
    typer.echo(
        "\nmeans over depths and cells, of one launch each; answers by their nats off the baseline's; "
        "the commands: --json or --csv"
    )
