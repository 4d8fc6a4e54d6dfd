"""Simulated studies in the tuner's own store: what `tuner best` and `tuner compare` read, without any process.

Launches are those of `simulated.py`; proposals, records, verdicts, the choice of finalists and the files are the
tuner's. The confirm stage launches finalists and baseline in turn, as often as it is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.builders import MACHINE, definition, engine_facts, frozen, model_facts
from tests.search_benchmark.simulated import Night, Simulated
from tuner.domain.command import LaunchCommand
from tuner.domain.configuration import Configuration, Value
from tuner.domain.frozen import FrozenStudy
from tuner.domain.measurement import CellResult, Measurement
from tuner.domain.record import BASELINE_NOTE, Stage, TrialRecord
from tuner.domain.space import Parameter, SearchSpace
from tuner.report.selection import finalists
from tuner.search.pool import Proposal, TrialPool
from tuner.search.space import complete
from tuner.store.folder import StudyFolder
from tuner.study.judge import reference_of, told_objectives
from tuner.workload.texts import fingerprint


@dataclass(frozen=True)
class Asked:
    """One study to be simulated and stored."""

    name: str
    engine: str
    weights: str
    size_bytes: int
    system: str
    study: Simulated
    tried: Sequence[Mapping[str, Value]] = ()
    """What is launched beside the baseline, on top of the baseline's values."""


def space_of(engine: str, domains: Mapping[str, Sequence[Value]]) -> SearchSpace:
    """A space of so many flags; of each the first value is the default."""
    return SearchSpace(
        engine=engine,
        parameters=tuple(
            Parameter(name=name, about=name, flag=f"--{name.replace('_', '-')}", choices=tuple(values),
                      default=values[0])
            for name, values in domains.items()
        ),
    )  # fmt: skip


def store(studies: Path, asked: Asked, *, rounds: int, seed: int) -> StudyFolder:
    """Runs the whole study in memory and leaves its folder."""
    study = asked.study
    folder = StudyFolder.in_(studies, asked.name)
    folder.create(definition(engine=asked.engine, model=(f"/{asked.weights}",)))
    held = _frozen(asked)
    folder.freeze(held)
    pool = TrialPool.open_file(folder.storage_path, asked.name, study.space)
    night = Night(study, seed)
    pool.enqueue(study.baseline, BASELINE_NOTE)
    for number, values in enumerate(asked.tried):
        pool.enqueue({**study.baseline, **values}, f"tried {number}")
    for _ in range(1 + len(asked.tried)):
        proposal = pool.ask()
        assert proposal is not None
        record = _launched(night, asked, proposal, Stage.SEARCH)
        pool.tell(record, told_objectives(record, study.workload, reference_of(pool.records())))
    _confirm(pool, night, asked, held, rounds)
    return folder


def _confirm(pool: TrialPool, night: Night, asked: Asked, held: FrozenStudy, rounds: int) -> None:
    searched = pool.records()
    launched = [(complete(asked.study.space, asked.study.baseline), BASELINE_NOTE)]
    for record in finalists(held, searched, len(searched)):
        launched.append((record.configuration, f"trial {record.number}"))
    for number in range(rounds):
        for configuration, note in launched if number % 2 == 0 else launched[::-1]:
            proposal = Proposal(pool.open_confirmation(), configuration, note)
            pool.tell(_launched(night, asked, proposal, Stage.CONFIRM), None, confirm=True)


def _launched(night: Night, asked: Asked, proposal: Proposal, stage: Stage) -> TrialRecord:
    """A launch with everything that a real one would tell: its command, acceptance, and the context it proved."""
    is_baseline = proposal.seed_name == BASELINE_NOTE
    record = night.run(proposal, baseline=is_baseline)
    measurement = record.measurement
    if measurement is not None:
        measurement = _told(asked.study, proposal.configuration, measurement, baseline=is_baseline)
    update: dict[str, object] = {"measurement": measurement, "command": _command(asked, proposal.configuration)}
    if stage is Stage.CONFIRM:
        update["stage"] = stage
    return record.model_copy(update=update)


def _told(study: Simulated, configuration: Configuration, measurement: Measurement, *, baseline: bool) -> Measurement:
    measured = study.measured(configuration, baseline=baseline)
    cells: list[CellResult] = []
    for result in measurement.cells:
        drafts = measured.drafts(result.cell.content.value, result.cell.depth, result.cell.streams)
        told: dict[str, float] = {}
        if drafts.drafted:
            told = {"acceptance_rate": drafts.accepted / drafts.drafted, "acceptance_length": drafts.gained}
        cells.append(result.model_copy(update=told))
    proven = study.workload.depths[-1] + study.workload.predict_tokens
    return measurement.model_copy(update={"cells": tuple(cells), "proven_context": proven})


def _command(asked: Asked, configuration: Configuration) -> LaunchCommand:
    words = [asked.engine, "--model", f"/{asked.weights}"]
    for name, value in configuration.values.items():
        words += [str(asked.study.space.by_name[name].flag), str(value)]
    return LaunchCommand(argv=tuple(words))


def _frozen(asked: Asked) -> FrozenStudy:
    rig = asked.study.rig
    return frozen(
        asked.study.profiles,
        study_id=asked.name,
        definition=definition(engine=asked.engine, model=(f"/{asked.weights}",)),
        space=asked.study.space,
        baseline=asked.study.baseline,
        machine=MACHINE.model_copy(
            update={"system": asked.system, "gpus": tuple(f"{d.name}: {d.description}" for d in rig.devices)}
        ),
        engines=(engine_facts(engine=asked.engine),),
        models=(model_facts(name=asked.weights, size_bytes=asked.size_bytes),),
        workload=asked.study.workload,
        texts=fingerprint(),
    )
