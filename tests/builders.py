"""Values for tests, with everything unimportant filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tuner.domain.command import LaunchCommand
from tuner.domain.configuration import Configuration, Value
from tuner.domain.definition import StudyDefinition
from tuner.domain.facts import EngineFacts, FlagCatalogue, MachineFacts, ModelFacts
from tuner.domain.frozen import FrozenStudy
from tuner.domain.measurement import ActualSettings, CellResult, Measurement
from tuner.domain.profile import Profile
from tuner.domain.record import Owner, Stage, TrialRecord
from tuner.domain.space import Parameter, SearchSpace
from tuner.domain.verdict import Outcome, Verdict
from tuner.domain.workload import Cell, Content, Workload

SHALLOW, DEEP = DEPTHS = (512, 8192)
MACHINE = MachineFacts(
    host="desk", system="Linux x86_64", cpu="Some CPU", physical_cores=8, logical_cores=16, memory_mib=64000
)


def profile(name: str = "coder", **changes: Any) -> Profile:
    """A profile that weighs prefill and decode alike, at one depth and for code only."""
    values: dict[str, Any] = {
        "about": "", "prefill": 1.0, "decode": 1.0, "context": 0.0, "contents": {"code": 1.0},
        "depths": {"shallow": 1.0}, "least_context": 4096,
    }  # fmt: skip
    return Profile(name=name, **values | changes)


def measurement(
    prefill: float | Mapping[int, float] = 1000.0,
    decode: float | Mapping[tuple[Content, int], float] = 50.0,
    *,
    context: int | None = 32768,
    slots: int = 1,
    cells: Sequence[Cell] | None = None,
    **changes: Any,
) -> Measurement:
    """Speeds alike everywhere, or told by depth (prefill) and by content and depth (decode)."""
    taken = cells if cells is not None else [Cell(content=Content.CODE, depth=depth) for depth in DEPTHS]
    results = [
        CellResult(
            cell=cell,
            decode_tps=decode.get((cell.content, cell.depth)) if isinstance(decode, Mapping) else decode,
            prefill_tps=prefill.get(cell.depth) if isinstance(prefill, Mapping) else prefill,
        )
        for cell in taken
    ]
    actual = ActualSettings(context_per_slot=context, slots=slots, buffers_mib={"CUDA0": 900.0})
    return Measurement(**{"cells": tuple(results), "ready_s": 1.0, "actual": actual, "proven_context": 8400} | changes)


def record(
    number: int,
    values: Mapping[str, Value] | None = None,
    measured: Measurement | None = None,
    *,
    stage: Stage = Stage.SEARCH,
    outcome: Outcome | None = Outcome.OK,
    seconds: float = 60.0,
    note: str = "",
    constraints: Mapping[str, float] | None = None,
) -> TrialRecord:
    """A trial that took `seconds`; open for no outcome."""
    verdict = None
    if outcome is not None:
        verdict = Verdict(outcome=outcome, reason="because", constraints=dict(constraints or {}))
    return TrialRecord(
        number=number,
        stage=stage,
        configuration=Configuration(values=dict(values or {})),
        note=note,
        owner=Owner(host="desk", boot_id="b", pid=1),
        started_at=1000.0,
        finished_at=None if outcome is None else 1000.0 + seconds,
        command=LaunchCommand(argv=("engine", *(f"--{name}={value}" for name, value in (values or {}).items()))),
        verdict=verdict,
        measurement=measured,
    )


def definition(**changes: Any) -> StudyDefinition:
    """What a user asked who named nothing but files."""
    values: dict[str, Any] = {"engine": "llama_server", "binary": ("/bin/e",), "model": ("/m.gguf",), "profiles": ()}
    return StudyDefinition(**values | changes)


def engine_facts(**changes: Any) -> EngineFacts:
    """An engine without flags."""
    values: dict[str, Any] = {
        "engine": "llama_server", "binary": "/bin/e", "version": "1", "flags": FlagCatalogue(entries=()),
    }  # fmt: skip
    return EngineFacts(**values | changes)


def model_facts(**changes: Any) -> ModelFacts:
    """A small dense model."""
    values: dict[str, Any] = {
        "path": "/m.gguf", "name": "small", "architecture": "llama", "size_bytes": 10**9, "trained_context": 32768,
        "layers": 16,
    }  # fmt: skip
    return ModelFacts(**values | changes)


def frozen(profiles: Sequence[Profile] | None = None, **changes: Any) -> FrozenStudy:
    """A study of two parameters, `chunk` and `cache`."""
    space = SearchSpace(
        engine="llama_server",
        parameters=(
            Parameter(name="chunk", about="a", flag="--chunk", choices=(128, 256, 512), default=256),
            Parameter(name="cache", about="b", flag="--cache", choices=("f16", "q8_0"), default="f16"),
        ),
    )
    values: dict[str, Any] = {
        "study_id": "s1", "definition": definition(), "space": space, "baseline": {}, "fixed": (),
        "baseline_arguments": (), "machine": MACHINE, "engines": (engine_facts(),), "models": (model_facts(),),
        "profiles": tuple(profiles if profiles is not None else [profile()]),
        "workload": Workload(cells=tuple(Cell(content=Content.CODE, depth=d) for d in DEPTHS), predict_tokens=64),
    }  # fmt: skip
    return FrozenStudy(**values | changes)
