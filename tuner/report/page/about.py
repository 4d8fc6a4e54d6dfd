"""The machine and the versions, and the method in plain words."""

from __future__ import annotations

from tuner import __version__
from tuner.domain.facts import ModelFacts
from tuner.domain.record import Stage
from tuner.report.page.document import Code, Items, Section, Table, Text, paragraph
from tuner.report.page.figures import count, number, with_unit
from tuner.report.page.source import Source


def machine_section(source: Source) -> Section:
    """What a reader with another machine must know. The machine's name, its users and its cards' numbers stay out."""
    machine = source.frozen.machine
    rows: list[list[Text]] = [
        [("processor",), (f"{machine.cpu}, ", count(machine.physical_cores), " cores")],
        [("memory",), with_unit(number(machine.memory_mib / 1024, 1), "GiB")],
        [("system",), (machine.system,)],
    ]
    for card in machine.cards:
        size: Text = (", ", *with_unit(number(card.total_mib / 1024, 1), "GiB")) if card.total_mib is not None else ()
        driver = f", driver {card.driver}" if card.driver else ""
        rows.append([("graphics card",), (card.name, *size, f"{driver}, read through {card.source}")])
    for device in source.frozen.engines[0].devices if source.frozen.engines else ():
        rows.append([("engine's device",), (f"{device.name}: {device.description}",)])
    if source.frozen.engines and not source.frozen.engines[0].devices:
        rows.append([("engine's device",), ("none: it computes on the processor",)])
    rows += [[("engine",), (f"{facts.engine} {facts.version}",)] for facts in source.frozen.engines]
    rows += [[("model",), _model(model)] for model in source.frozen.models]
    rows.append([("tuner",), (__version__,)])
    return Section("machine", "Machine and versions", [Table(["", ""], rows)])


def _model(model: ModelFacts) -> Text:
    told = [model.name, model.architecture, *([model.quantisation] if model.quantisation else [])]
    layers = f", {model.layers} layers" if model.layers is not None else ""
    drafts = f", {model.mtp_layers} of them for drafting" if model.mtp_layers else ""
    context: Text = (
        (", trained for ", *with_unit(count(model.trained_context), "tokens")) if model.trained_context else ()
    )
    return (f"{', '.join(told)}, ", *with_unit(number(model.size_bytes / 2**20), "MiB"), layers, drafts, *context)


def method_section(source: Source) -> Section:
    """How the figures came to be; only what this study did."""
    workload = source.frozen.workload
    contents = list(dict.fromkeys(cell.content.value for cell in workload.cells))
    anchors = sum(1 for record in source.confirmed if record.stage is Stage.ANCHOR)
    items: list[Text] = [
        (
            "Each trial starts the real server with exactly the printed flags (port, name and log settings aside), "
            "sends requests over HTTP, and stops it. Nothing is taken from a benchmark program.",
        ),
        (
            f"Kinds of text: {', '.join(contents)}. At depths of {', '.join(map(str, workload.depths))} tokens, ",
            count(workload.predict_tokens),
            f" tokens an answer. Sampling: {workload.sampling}.",
        ),
        (
            "Prefill is the time for a prompt that no cache can know, which the server confirms. Decode is the tokens "
            "after the first, by the server's own timings, held against the client's clock.",
        ),
        (
            "A profile weighs prefill, decode and context as its user would; its score is the weighted mean of the "
            "logarithms, told as a ratio: 1.42x means that the work is done 1.42 times as fast.",
        ),
        (
            "The search only proposes. The best configurations and the baseline are then launched again in turn, and "
            "the gain that is told comes from those launches alone. Its interval counts the spread between launches "
            "and holds for all profiles together in 95 of 100 studies. Where it contains 1, that is told as no "
            "measurable difference, and the baseline is kept.",
        ),
        (
            "Answers are held against the baseline's: known questions, facts hidden in the deep text, the "
            "probabilities of the first answer token. What answers wrongly is never recommended, however fast.",
        ),
    ]
    if anchors:
        items.append(
            (
                "The baseline was measured again ",
                count(anchors),
                " times during the search, and the machine's drift taken out of comparisons.",
            )
        )
    if not source.confirm_launches:
        items.append(
            ("In this study nothing was launched again yet: the gains are of single launches, and may be luck.",)
        )
    profiles = Table(
        ["profile", "prefill", "decode", "context", "least context", "kinds of text"],
        [
            [
                (profile.name,),
                *(
                    _share(weight, profile.prefill + profile.decode + profile.context)
                    for weight in (profile.prefill, profile.decode, profile.context)
                ),
                with_unit(count(profile.least_context), "tokens"),
                (
                    ", ".join(content.value for content in profile.contents)
                    + (f", {profile.streams} at once" if profile.streams > 1 else ""),
                ),
            ]
            for profile in source.frozen.profiles
        ],
        frozenset({1, 2, 3, 4}),
    )
    fixed = source.frozen.fixed
    kept = [paragraph("In every launch: ", Code(" ".join(fixed)), ".")] if fixed else []
    return Section("method", "How this was measured", [Items(items), *kept, profiles])


def _share(weight: float, total: float) -> Text:
    return with_unit(number(weight / total, scale=100), "%")
