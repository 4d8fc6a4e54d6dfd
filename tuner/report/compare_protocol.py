"""In what the studies of a comparison were made differently: what a reader must know beside the figures."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

from tuner.domain.record import Stage
from tuner.report.compare import ComparedStudy, Comparison
from tuner.report.compare_alike import prompts_fingerprint

_CLOCKS_AGREE = 0.01


def heading(study: ComparedStudy) -> str:
    """A study in one line: engine, weights, machine."""
    frozen = study.frozen
    return f"{_engines(study)}; {_models(study)}; {frozen.machine.host}: {_cards(study)}"


def differences(comparison: Comparison) -> list[str]:
    """What was not the same for all studies, each in a line; then what is true of every comparison between studies."""
    studies = comparison.studies
    lines = []
    for what, told in _ASPECTS:
        values = {study.name: told(study) for study in studies}
        if len(set(values.values())) > 1:
            lines.append(f"{what}: " + "; ".join(f"{name} {value}" for name, value in values.items()))
    launches = {
        study.name: sorted({len(arm.launches) for p in comparison.profiles for arm in p.arms if arm.study is study})
        for study in studies
    }
    if len({tuple(counts) for counts in launches.values()}) > 1:
        told_each = [f"{name} {' to '.join(map(str, _ends(counts)))}" for name, counts in launches.items() if counts]
        lines.append(f"launches of what is compared: {'; '.join(told_each)}")
    if len({facts.engine for study in studies for facts in study.frozen.engines}) > 1:
        lines.append("decoding: of one stream by each engine's own timings, of several together by the client's clock")
    lines.append(
        "the studies were not launched in turn: of what one day, room or driver differs by from another, the intervals "
        "hold only what each study saw its own machine wander"
    )
    if len({_models(study) for study in studies}) > 1:
        lines.append(
            "the weights differ, and so may the answers: each study holds its answers against its own baseline alone"
        )
    return lines


def _ends(counts: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted({counts[0], counts[-1]}))


def _engines(study: ComparedStudy) -> str:
    return ", ".join(dict.fromkeys(f"{facts.engine} {facts.version}" for facts in study.frozen.engines))


def _models(study: ComparedStudy) -> str:
    told = [
        f"{model.name}{f' {model.quantisation}' if model.quantisation else ''}, {model.size_bytes / 2**30:.2f} GiB"
        for model in study.frozen.models
    ]
    return " and ".join(dict.fromkeys(told))


def _cards(study: ComparedStudy) -> str:
    machine = study.frozen.machine
    cards = [f"{card.name}{f', driver {card.driver}' if card.driver else ''}" for card in machine.cards]
    return "; ".join(cards or machine.gpus) or machine.cpu


def _sampling(study: ComparedStudy) -> str:
    return str(study.frozen.workload.sampling)


def _depths(study: ComparedStudy) -> str:
    return ", ".join(map(str, study.frozen.workload.depths))


def _clock(study: ComparedStudy) -> str:
    """How far the engine's own timings lie from the client's clock, over all cells of one stream that say both."""
    ratios = [
        result.decode_tps / result.client_decode_tps - 1
        for record in (*study.searched, *study.confirmed)
        if record.measurement is not None
        for result in record.measurement.cells
        if result.cell.streams == 1 and result.decode_tps and result.client_decode_tps
    ]
    if not ratios:
        return "of one clock alone"
    away = statistics.median(ratios)
    if abs(away) <= _CLOCKS_AGREE:
        return "agree to 1 %"
    return f"{abs(away):.0%} {'faster' if away > 0 else 'slower'} by the engine's own timings"


def _warm_ups(study: ComparedStudy) -> str:
    known = [study.warm_ups[r.folder] for r in (*study.searched, *study.confirmed) if r.folder in study.warm_ups]
    if not known:
        return "not recorded"
    least, most = min(known), max(known)
    return f"{least} a launch" if least == most else f"{least} to {most} a launch"


def _needs(study: ComparedStudy) -> str:
    least = sorted({profile.least_context for profile in study.frozen.profiles})
    return "to ".join(f"{context} " for context in _ends(least)) + "tokens"


def _days(study: ComparedStudy) -> str:
    started = [record.started_at for record in study.confirmed if record.stage is Stage.CONFIRM]
    if not started:
        return "never"
    ends = (time.strftime("%Y-%m-%d", time.localtime(at)) for at in (min(started), max(started)))
    return " to ".join(dict.fromkeys(ends))


def _checked(study: ComparedStudy) -> str:
    measured = [r.measurement for r in (*study.searched, *study.confirmed) if r.measurement is not None]
    return "checked" if any(one.quality is not None for one in measured) else "not checked"


_ASPECTS: tuple[tuple[str, Callable[[ComparedStudy], str]], ...] = (
    ("tuner", lambda study: study.frozen.tuner_version or "not recorded"),
    ("texts", lambda study: study.frozen.texts or "not recorded"),
    ("own prompts", lambda study: prompts_fingerprint(study.frozen) or "none"),
    ("depths", _depths),
    ("tokens an answer", lambda study: str(study.frozen.workload.predict_tokens)),
    ("sampling", _sampling),
    ("least requests a cell", lambda study: str(study.frozen.workload.repeats)),
    ("decoding cut off after", lambda study: f"{study.frozen.workload.decode_limit_s:g} s"),
    ("least context asked for", _needs),
    ("warm-ups", _warm_ups),
    ("clock of one stream's decoding, engine and client", _clock),
    ("answers", _checked),
    ("confirmed on", _days),
    ("system", lambda study: study.frozen.machine.system),
)
