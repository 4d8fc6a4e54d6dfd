"""From what a user asked to what a study is held to: everything is looked up once and frozen."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from tuner import __version__
from tuner.domain.configuration import Value
from tuner.domain.conversation import Conversation
from tuner.domain.definition import StudyDefinition
from tuner.domain.errors import BadInput, UnknownFlag
from tuner.domain.facts import Device, EngineFacts, FlagCatalogue, MachineFacts, ModelFacts
from tuner.domain.frozen import FrozenStudy
from tuner.domain.profile import Profile
from tuner.domain.space import Seed
from tuner.domain.workload import Cell, Content, Workload, question_tokens
from tuner.search.earlier import with_earlier
from tuner.search.placement import CONTEXT_STEP
from tuner.search.profiles_file import read_profiles, select_profiles
from tuner.search.resolve import Surroundings, resolve
from tuner.search.space_file import read_space_file
from tuner.study.power import cap_choices
from tuner.study.protocols import Cards, Engine
from tuner.workload.prompts_file import read_prompts
from tuner.workload.texts import fingerprint

_GPU_DEPTHS = (512, 8192)
_CPU_DEPTHS = (256, 1024)
"""Where nothing is asked: shallow, and as deep as a launch can measure in a minute or so on such a machine."""
_GPU_TOKENS = 256
_CPU_TOKENS = 128
"""Speculation needs a few hundred tokens to show what it is worth: its luck changes from sentence to sentence."""


@dataclass(frozen=True)
class Sources:
    """Where the files that come with the tuner are, and how the machine is looked at."""

    space_file: Path
    profiles_file: Path
    machine: Callable[[Sequence[Device]], MachineFacts]
    cards: Cards
    winners: Callable[[str], list[Seed]]
    """The folder of an earlier study -> what it recommends."""
    user: str = ""
    """Who asks, as `user@host`."""


@dataclass(frozen=True)
class Surveyed:
    """What was found out about the machine, the engine's binaries and the model files."""

    machine: MachineFacts
    engines: tuple[EngineFacts, ...]
    models: tuple[ModelFacts, ...]


def survey(engine: Engine, definition: StudyDefinition, sources: Sources) -> Surveyed:
    """Looks at everything that a study depends on. Raises EngineNotFound and MissingFile."""
    models = tuple(engine.read_model(Path(path)) for path in definition.model)
    engines = tuple(inspect(engine, definition, binary) for binary in definition.binary)
    return Surveyed(sources.machine(engines[0].devices), engines, models)


def inspect(engine: Engine, definition: StudyDefinition, binary: str) -> EngineFacts:
    """What a binary says of itself and its devices, under the study's own arguments and variables."""
    arguments = (*definition.fixed, *(definition.pasted or ()))
    return engine.inspect(Path(binary), arguments=arguments, env=definition.env)


def freeze(engine: Engine, definition: StudyDefinition, surveyed: Surveyed, sources: Sources) -> FrozenStudy:
    """Resolves the study for this machine, model and engine build.

    Raises:
        BadInput, MissingFile, UnknownFlag: something in the definition or the files it names is wrong.
    """
    own_space = definition.space is not None
    file = read_space_file(Path(definition.space) if definition.space else sources.space_file)
    if file.engine != engine.name:
        raise BadInput(
            f"The search space is for {file.engine}, the study for {engine.name}",
            where=definition.space,
            advice="name another --space, or another --engine",
        )
    own_profiles = [Path(definition.profiles_file)] if definition.profiles_file else []
    known = read_profiles(sources.profiles_file, *own_profiles)
    prompts = read_prompts(Path(definition.prompts)) if definition.prompts else ()
    profiles = select_profiles(known, definition.profiles, prompts)

    # Of several builds, every one must know what is searched.
    flags = reduce(FlagCatalogue.common_with, (engine_facts.flags for engine_facts in surveyed.engines))
    searchable = {name: (t.flag, t.off_flag) for name, t in file.parameters.items() if t.flag or t.off_flag}
    fixed = engine.understand(definition.fixed, flags, {})
    fixed_values = engine.understand(definition.fixed, flags, searchable).present
    pasted = engine.understand(definition.pasted or (), flags, searchable)
    trained = min((m.trained_context for m in surveyed.models if m.trained_context), default=None)
    context_name = next((name for name, table in file.parameters.items() if table.kind == "context"), "")
    cap = _cap(fixed_values.get(context_name), trained)
    profiles, notes = _adapted(profiles, definition.ctx_min, cap, _needed(definition, surveyed, prompts))

    caps, no_caps = cap_choices(sources.cards) if definition.power_cap else ([], Surroundings.no_caps)
    around = Surroundings(
        facts=_facts(definition, surveyed, profiles, fixed.draft_model or pasted.draft_model),
        flags=flags,
        devices=surveyed.engines[0].devices,
        present=pasted.present,
        fixed_environment=frozenset(definition.env),
        fixed_flags=fixed.flags,
        caps=caps,
        no_caps=no_caps,
        models=definition.model,
        binaries=definition.binary,
        strict=own_space,
    )
    try:
        space = resolve(file, around)
    except (BadInput, UnknownFlag) as error:
        error.where = error.where or definition.space
        raise
    earlier = [seed for folder in definition.from_studies for seed in sources.winners(folder)]
    space, left_out = with_earlier(space, earlier)
    # What the space does not search here stays in every launch, as the user wrote it.
    searched = {name: spellings for name, spellings in searchable.items() if name in space.by_name}
    pasted = engine.understand(definition.pasted or (), flags, searched)
    return FrozenStudy(
        made_by=sources.user,
        study_id=uuid.uuid4().hex[:12],
        tuner_version=__version__,
        texts=fingerprint(),
        definition=definition,
        space=space,
        baseline={name: space.by_name[name].default for name in pasted.present},
        fixed=(*fixed.arguments, *pasted.kept),
        baseline_arguments=(*fixed.arguments, *pasted.arguments),
        machine=surveyed.machine,
        engines=surveyed.engines,
        models=surveyed.models,
        profiles=profiles,
        workload=_workload(definition, profiles, surveyed, trained, prompts),
        notes=(*fixed.notes, *pasted.notes, *notes, *left_out, *_measured_how(definition, prompts)),
    )


def _measured_how(definition: StudyDefinition, prompts: Sequence[Conversation]) -> list[str]:
    """What a user asked of the requests, for the beginning of a run."""
    notes = [f"sampling: {definition.sampling}"] if definition.sampling.given() else []
    if prompts:
        longest = max(prompt.tokens_at_most for prompt in prompts)
        notes.append(
            f"{len(prompts)} prompts of your own, the longest about {longest} tokens; repeats take them in turn"
        )
    return notes


def _cap(fixed_context: Value | None, trained: int | None) -> int | None:
    """The most context there can be: what the user fixed, else what the model was trained on."""
    if isinstance(fixed_context, int) and fixed_context > 0:
        return fixed_context
    return trained


def _predict_tokens(definition: StudyDefinition, surveyed: Surveyed) -> int:
    return definition.predict_tokens or (_GPU_TOKENS if surveyed.engines[0].devices else _CPU_TOKENS)


def _needed(definition: StudyDefinition, surveyed: Surveyed, prompts: Sequence[Conversation]) -> int:
    """The context that the deepest of the asked depths takes; 0 where none was asked."""
    if not definition.depths:
        return 0
    tokens = max(definition.depths) + _predict_tokens(definition, surveyed) + question_tokens(prompts)
    return -(-tokens // CONTEXT_STEP) * CONTEXT_STEP


def _adapted(
    profiles: Sequence[Profile], ctx_min: int | None, cap: int | None, needed: int
) -> tuple[tuple[Profile, ...], list[str]]:
    """Profiles with the least context that can be had here and that the measured depths need, and what was changed."""
    if ctx_min is not None and cap is not None and ctx_min > cap:
        raise BadInput(
            f"--ctx-min {ctx_min} is more than the {cap} tokens that the model or your -c allows",
            advice=f"ask for {cap} or less",
        )
    adapted, lowered, raised = [], [], []
    for profile in profiles:
        least = profile.least_context if ctx_min is None else ctx_min
        if ctx_min is None and least < needed <= (cap or needed):
            raised.append(profile.name)
            least = needed
        if cap is not None and least > cap:
            lowered.append(profile.name)
            least = cap
        adapted.append(profile.model_copy(update={"least_context": least}))
    notes = []
    if raised:
        notes.append(f"least context raised to {needed} tokens, for the deepest of --depths: {', '.join(raised)}")
    if lowered:
        notes.append(f"least context lowered to {cap} tokens, all there is: {', '.join(lowered)}")
    return tuple(adapted), notes


def _facts(
    definition: StudyDefinition, surveyed: Surveyed, profiles: Sequence[Profile], draft_model: bool
) -> Mapping[str, Value | None]:
    """What a search space file may name. Of several model files the least counts: a value must suit them all."""
    devices, models = surveyed.engines[0].devices, surveyed.models
    size_mib = max(model.size_bytes for model in models) // 2**20
    device_mib = sum(device.total_mib or 0 for device in devices)
    layers = [model.layers for model in models if model.layers is not None]
    trained = [model.trained_context for model in models if model.trained_context is not None]
    return {
        "machine.gpus": len(devices),
        "machine.physical_cores": surveyed.machine.physical_cores,
        "machine.logical_cores": surveyed.machine.logical_cores,
        "machine.memory_mib": surveyed.machine.memory_mib,
        "model.trained_context": min(trained, default=None),
        "model.layers": min(layers, default=None),
        "model.mtp_layers": min(model.mtp_layers for model in models),
        "model.experts": min(model.experts for model in models),
        "model.size_mib": size_mib,
        "model.recurrent": any(model.recurrent_layers for model in models),
        "engine.devices": len(devices),
        "engine.has_vulkan": any(device.name.startswith("Vulkan") for device in devices),
        "engine.has_rocm": any(device.name.startswith("ROCm") for device in devices),
        "engine.computes_on_cpu": not devices or size_mib > device_mib,
        "study.ctx_min": min(profile.least_context for profile in profiles),
        "study.draft_model": draft_model,
        "study.models": len(models),
        "study.binaries": len(definition.binary),
    }


def _workload(
    definition: StudyDefinition,
    profiles: Sequence[Profile],
    surveyed: Surveyed,
    trained: int | None,
    prompts: tuple[Conversation, ...],
) -> Workload:
    """The union of the cells that the profiles need, cheap ones first."""
    depths = tuple(sorted(set(definition.depths)))
    least = min(profile.least_context for profile in profiles)
    predict_tokens = _predict_tokens(definition, surveyed)
    question = question_tokens(prompts)
    room = min(least, trained or least) - predict_tokens - question
    if not depths:
        usual = _GPU_DEPTHS if surveyed.engines[0].devices else _CPU_DEPTHS
        depths = tuple(sorted({min(depth, room) for depth in usual}))
    if depths[-1] > room:
        raise BadInput(
            f"A depth of {depths[-1]} tokens does not fit: with {predict_tokens} generated tokens and "
            f"{f'{question} for your longest prompt' if prompts else 'the instruction'}, a context of {least} leaves "
            f"room for {max(room, 0)}",
            advice="lower --depths, or ask for more context with --ctx-min",
        )
    if depths[0] < 16:
        raise BadInput(
            f"A depth of {depths[0]} tokens is too small to measure anything"
            + (f", and with about {question} tokens for your longest prompt no more fits" if prompts else ""),
            advice="use 16 or more" + (", leave that prompt out, or raise --ctx-min" if prompts else ""),
        )
    cells = {cell for profile in profiles for cell in profile.cells(depths)}
    # Prefill is read from single-stream cells, also for a profile of several streams.
    cells |= {
        Cell(content=next(iter(profile.contents)), depth=depth)
        for profile in profiles
        if profile.streams > 1
        for depth in profile.depth_weights(depths)
    }
    ordered = sorted(cells, key=lambda cell: (cell.streams, cell.depth, list(Content).index(cell.content)))
    return Workload(
        cells=tuple(ordered),
        predict_tokens=predict_tokens,
        repeats=definition.repeats,
        decode_limit_s=definition.decode_limit_s,
        sampling=definition.sampling,
        conversations=prompts,
    )
