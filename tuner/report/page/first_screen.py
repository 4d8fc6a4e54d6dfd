"""The first screen: for each profile its command, the gain, and what it costs in quality, memory and watts."""

from __future__ import annotations

from tuner.report.page.document import Block, Card, Cards, Code, Items, Section, Table, Text
from tuner.report.page.figures import UNKNOWN, Figures, counted, interval, joined, with_unit
from tuner.report.page.gains import gains_picture
from tuner.report.page.source import Source
from tuner.report.recommendation import Recommendation
from tuner.report.tables import difference_lines, headline

_NOISE_NATS = 0.02


def first_screen(source: Source) -> Section:
    """The section; one card a profile."""
    cards = [_card(source, place, found) for place, found in enumerate(source.recommendations)]
    return Section("commands", "What to run", [Cards(cards), gains_picture(source)])


def _card(source: Source, place: int, recommendation: Recommendation) -> Card:
    figures = Figures(source.best, "").at("profiles", place)
    headlined, verdict, under = _headline(recommendation, figures)
    commands = [("first, as root (lost at a restart)", f"sudo {line}") for line in recommendation.trial.cap_commands]
    if recommendation.trial.command is not None:
        commands.append(("", recommendation.trial.command.posix_line()))
    metrics = figures.at("metrics")
    return Card(
        name=recommendation.profile.name,
        about=recommendation.profile.about,
        headline=headlined,
        verdict=verdict,
        under=under,
        commands=commands,
        facts=[
            ("Quality", _quality(metrics, recommendation)),
            ("Memory", _memory(metrics)),
            ("Power", _watts(metrics)),
            ("Context", _context(metrics)),
        ],
        more=_more(source, recommendation, metrics),
    )


def _headline(recommendation: Recommendation, figures: Figures) -> tuple[Text, str, Text]:
    gain = recommendation.gain
    if not recommendation.meets_needs or recommendation.candidate.is_baseline:
        told = headline(recommendation)
        return (told[0].upper() + told[1:],), "same" if recommendation.meets_needs else "unmet", ()
    ratio = figures.number("candidate_gain", digits=2)
    ends = interval(figures, "candidate_gain_interval")
    assert ratio is not None
    if gain.low is None or gain.high is None or ends is None:
        return (ratio, "x baseline"), "same", ("not confirmed: launched once, which may be luck",)
    without = f"; {counted(gain.outliers, 'outlying launch', 'es')} left out" if gain.outliers else ""
    seen: Text = (ratio, "x baseline (", *ends, without, ")")
    if gain.low <= 1 <= gain.high:
        kept = "keep the baseline. The best candidate: " if recommendation.is_baseline else ""
        return ("No measurable difference",), "same", (kept, *seen)
    if recommendation.is_baseline:
        return ("Keep the baseline",), "same", ("the best candidate is slower: ", *seen)
    launches = figures.number("launches")
    assert launches is not None
    return (ratio, "x baseline"), "better", (*ends, ", from ", launches, " launches of it", without)


def _quality(metrics: Figures, recommendation: Recommendation) -> Text:
    quality = metrics.at("quality")
    if quality.told is None:
        return ("nothing: it is the baseline",) if recommendation.is_baseline else ("not checked",)
    depth = quality.at("depth_tokens").told
    places = [
        _place("alone", quality, "alone"),
        _place(f"behind {depth} tokens" if depth is not None else "deep", quality, "deep"),
    ]
    hidden, found = quality.number("needles_hidden"), quality.number("needles_found")
    if hidden is not None and found is not None and hidden.value:
        places.append((found, " of ", hidden, " hidden facts found"))
    return joined([place for place in places if place], "; ") or ("not checked",)


def _place(where: str, quality: Figures, key: str) -> Text:
    """What was lost where the questions stand."""
    told: list[Text] = []
    nats = quality.number(key, "kl_nats", digits=3)
    if nats is not None:
        told.append((*with_unit(nats, "nats off"), " (noise)" if nats.value < _NOISE_NATS else ""))
    asked, right = quality.number(key, "known_asked"), quality.number(key, "known_right")
    if asked is not None and right is not None and asked.value:
        told.append((right, " of ", asked, " answers"))
    return (f"{where} ", *joined(told)) if told else ()


def _memory(metrics: Figures) -> Text:
    """What the driver saw where it did; what the engine says that it holds beside it."""
    parts: list[Text] = []
    seen = set()
    for place, use in enumerate(metrics.at("gpus").told):
        if use["memory_peak_mib"] is not None:
            own: Text = ()
            if use["device"] in metrics.at("buffers_mib").told:
                seen.add(use["device"])
                own = (" (the engine's own: ", *metrics.memory("buffers_mib", use["device"]), ")")
            name = use["device"] or use["name"]
            parts.append((f"{name} ", *metrics.memory("gpus", place, "memory_peak_mib"), " at its peak", *own))
    for device in metrics.at("buffers_mib").told:
        if device not in seen:
            parts.append((f"{device} ", *metrics.memory("buffers_mib", device)))
    if metrics.at("host_rss_peak_mib").told is not None:
        parts.append(("host process ", *metrics.memory("host_rss_peak_mib")))
    return joined(parts) or (UNKNOWN,)


def _watts(metrics: Figures) -> Text:
    parts: list[Text] = []
    for place, use in enumerate(metrics.at("gpus").told):
        if use["power_mean_w"] is None:
            continue
        peak = metrics.number("gpus", place, "power_peak_w")
        upto: Text = (" (up to ", *with_unit(peak, "W"), ")") if peak is not None else ()
        parts.append(
            (f"{use['device'] or use['name']} ", *with_unit(metrics.number("gpus", place, "power_mean_w"), "W"), *upto)
        )
    return joined(parts) or ("not measured: no card that tells it",)


def _context(metrics: Figures) -> Text:
    tokens, proven = metrics.number("context_tokens"), metrics.number("proven_context_tokens")
    proof: Text = (", none of it proven",) if proven is None else (", ", proven, " proven by a cold prompt")
    return ("not told",) if tokens is None else (*with_unit(tokens, "tokens a slot"), *proof)


def _more(source: Source, recommendation: Recommendation, metrics: Figures) -> list[Block]:
    """All speeds, and flag by flag what is different."""
    blocks: list[Block] = []
    changed = difference_lines(recommendation, source.frozen)
    if changed:
        blocks.append(Items([(Code(line),) for line in changed]))
    depths = [str(depth) for depth in source.frozen.workload.depths]
    rows: list[list[Text]] = []
    prefill = metrics.at("prefill_tps")
    if prefill.told:
        rows.append([("prefill, cold",), *(_cell(prefill, depth) for depth in depths)])
    for content in metrics.at("decode_tps").told:
        rows.append([(f"decode, {content}",), *(_cell(metrics.at("decode_tps", content), depth) for depth in depths)])
    for kind in ("cold", "warm"):
        times = [metrics.at("ttft_ms", depth, kind) for depth in depths]
        if any(time.told is not None for time in times):
            rows.append([(f"first token, {kind}",), *(t.time() if t.told is not None else ("-",) for t in times)])
    if rows:
        blocks.append(
            Table(["", *(f"at {depth} tokens" for depth in depths)], rows, frozenset(range(1, len(depths) + 1)))
        )
    if recommendation.outliers:
        blocks.append(Items([(f"left out: {line}",) for line in recommendation.outliers]))
    notes = recommendation.trial.measurement.observations if recommendation.trial.measurement is not None else ()
    if notes:
        blocks.append(Items([(note,) for note in notes]))
    return blocks


def _cell(figures: Figures, depth: str) -> Text:
    return figures.speed(depth) if figures.at(depth).told is not None else ("-",)
