"""A row for a community's table of results: what others need to compare, and nothing that tells who measured it."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import PurePath

from tuner import __version__
from tuner.domain.frozen import FrozenStudy
from tuner.domain.record import Stage, TrialRecord
from tuner.domain.verdict import Outcome
from tuner.report.key_figures import KeyFigures
from tuner.report.recommendation import Recommendation
from tuner.report.selection import baseline_of

COLUMNS = (
    "card", "engine", "model", "context", "kv types", "profile", "baseline prefill/decode t/s",
    "best prefill/decode t/s", "gain", "quality", "n-max", "acceptance", "method",
)  # fmt: skip
"""In the order of the cells of a row."""

_DRAFT_LENGTHS = ("--spec-draft-n-max", "--draft-max", "--draft-n", "--draft", "--speculative-num-draft-tokens")
"""How engines are told the most tokens to draft at once."""
_UNKNOWN = "-"


def community_rows(
    frozen: FrozenStudy,
    found: Sequence[Recommendation],
    searched: Sequence[TrialRecord],
    confirmed: Sequence[TrialRecord],
    identifying: Sequence[str] = (),
) -> list[tuple[str, ...]]:
    """One row a profile, a text for each of `COLUMNS`.

    Args:
        frozen: the study.
        found: its recommendations.
        searched: the search's records.
        confirmed: the confirm stage's.
        identifying: names (of the user, of the machine) that must not be in it, wherever an engine or a model file may
            have put them. The study's own host is always one of them.
    """
    names = [name for name in (*identifying, frozen.machine.host) if len(name) > 1]
    baseline = _baseline_launches(searched, confirmed)
    return [tuple(_clean(cell, names) for cell in _row(frozen, one, baseline)) for one in found]


def as_markdown(rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table with its head."""
    lines = [COLUMNS, tuple("---" for _ in COLUMNS), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def as_csv(rows: Sequence[tuple[str, ...]]) -> str:
    """Comma separated values with a head, as RFC 4180 has them."""
    text = io.StringIO()
    csv.writer(text).writerows([COLUMNS, *rows])
    return text.getvalue()


def _row(frozen: FrozenStudy, one: Recommendation, baseline: Sequence[TrialRecord]) -> tuple[str, ...]:
    figures = KeyFigures(one.profile, one.trials, frozen.workload)
    before = KeyFigures(one.profile, baseline, frozen.workload)
    measurement = one.trial.measurement
    actual = measurement.actual if measurement is not None else None
    speculates = actual is not None and actual.speculation is not False
    rate = figures.acceptance_rate
    return (
        _card(frozen, one),
        _engine(frozen, one),
        _model(frozen, one),
        _UNKNOWN if figures.context_tokens is None else str(figures.context_tokens),
        (actual.kv_types if actual is not None else None) or _UNKNOWN,
        one.profile.name,
        _speeds(before),
        _speeds(figures),
        _gain(one),
        "yours" if one.is_baseline else figures.quality,
        (_draft_length(one) if speculates else None) or _UNKNOWN,
        _UNKNOWN if rate is None else f"{rate:.0%}",
        _method(frozen, one, figures, len(baseline)),
    )


def _baseline_launches(searched: Sequence[TrialRecord], confirmed: Sequence[TrialRecord]) -> list[TrialRecord]:
    again = [
        record
        for record in confirmed
        if record.stage is Stage.CONFIRM
        and record.is_baseline
        and record.verdict
        and record.verdict.outcome is Outcome.OK
    ]
    first = baseline_of(searched)
    return again or ([first] if first is not None else [])


def _card(frozen: FrozenStudy, one: Recommendation) -> str:
    measurement = one.trial.measurement
    used = [use for use in measurement.gpus if use.device is not None] if measurement is not None else []
    capped = bool(one.trial.cap_commands)
    if used:
        told = [use.name + (f" at {use.power_cap_w:.0f} W" if capped and use.power_cap_w else "") for use in used]
    else:
        told = [device.description for device in frozen.engines[0].devices] or [frozen.machine.cpu]
    return ", ".join(f"{told.count(name)}x {name}" if told.count(name) > 1 else name for name in dict.fromkeys(told))


def _engine(frozen: FrozenStudy, one: Recommendation) -> str:
    assert one.trial.command is not None
    program = one.trial.command.argv[0]
    facts = next((facts for facts in frozen.engines if facts.binary == program), frozen.engines[0])
    # Behind the first line some engines tell where and with what they were built.
    version = facts.version.splitlines()[0] if facts.version else ""
    return f"{facts.engine} {version.removeprefix('version: ').partition(' built ')[0]}".strip()


def _model(frozen: FrozenStudy, one: Recommendation) -> str:
    assert one.trial.command is not None
    words = one.trial.command.argv
    facts = next((model for model in frozen.models if model.path in words), frozen.models[0])
    return " ".join(filter(None, [facts.name, facts.quantisation]))


def _speeds(figures: KeyFigures) -> str:
    prefill, decode = figures.prefill_tps, figures.decode_tps
    return " / ".join([
        _UNKNOWN if prefill is None else f"{prefill:.0f}",
        _UNKNOWN if decode is None else f"{decode:.1f}",
    ])  # fmt: skip


def _gain(one: Recommendation) -> str:
    gain = one.gain
    if one.is_baseline:
        return "1.00x, baseline kept"
    return f"{gain.ratio:.2f}x" + (
        f" ({gain.low:.2f} to {gain.high:.2f})" if gain.low is not None and gain.high is not None else ", one launch"
    )


def _draft_length(one: Recommendation) -> str | None:
    """The last one in the command, which is the one that counts."""
    assert one.trial.command is not None
    argv = one.trial.command.argv
    named = [value for flag, value in pairwise(argv) if flag in _DRAFT_LENGTHS]
    return named[-1] if named else None


def _method(frozen: FrozenStudy, one: Recommendation, figures: KeyFigures, baseline: int) -> str:
    cell, workload = figures.cell, frozen.workload
    sampling = str(workload.sampling) if workload.sampling.given() else "greedy"
    return (
        f"llm-engine-tuner {__version__}; server over HTTP; prefill cold at {figures.depth}, decode {cell.name}, "
        f"{workload.predict_tokens} tokens, {sampling}; {baseline} + {len(one.trials)} launches, 95 % interval"
    )


def _clean(text: str, names: Sequence[str]) -> str:
    """Without names, and without what looks like a path: of that only the last part stays."""
    for name in names:
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "…", text, flags=re.IGNORECASE)
    text = re.sub(r"(?:[A-Za-z]:\\|\\\\)\S+", lambda found: PurePath(found[0].replace("\\", "/")).name, text)
    text = re.sub(r"(?<!\S)(?:~|\.{1,2})?/\S+", lambda found: PurePath(found[0]).name, text)
    return " ".join(text.split())
