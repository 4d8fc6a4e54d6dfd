"""A night on a simulated rig as its records would tell it: search, anchors and confirm stage, nothing launched."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tests.builders import definition, engine_facts, model_facts
from tests.fake_engine.rig import Measured, Rig
from tests.search_benchmark.simulated import Night, Simulated
from tuner.domain.command import LaunchCommand
from tuner.domain.configuration import Configuration, Value
from tuner.domain.facts import Device, MachineFacts
from tuner.domain.frozen import FrozenStudy
from tuner.domain.gpu import GpuIdentity, GpuUse
from tuner.domain.measurement import CellResult, Measurement
from tuner.domain.quality import PlaceCost, QualityCost, QualityResult
from tuner.domain.record import BASELINE_NOTE, Stage, TrialRecord
from tuner.engines.llama_server import ENGINE
from tuner.report.selection import baseline_of, finalists
from tuner.search.pool import Proposal
from tuner.search.space import complete, random_values, violations

RIGS = Path(__file__).parents[1] / "rigs"
PROFILES = ("coding-agent", "chat", "long-document", "creative-writing")
MODEL, BINARY = "/models/some model.gguf", "/opt/llama.cpp/llama-server"
HOST, UUID = "ninas-desk", "GPU-0123abcd"
"""What tells who owns the machine: no report may name it."""


@dataclass(frozen=True)
class Records:
    """What a study's storage would hold."""

    frozen: FrozenStudy
    searched: list[TrialRecord]
    confirmed: list[TrialRecord]


def simulated_night(rig_name: str, launches: int, *, seed: int = 1, rounds: int = 5) -> Records:
    """So many launches of a search, and the confirm stage after them."""
    rig = Rig.load(RIGS / f"{rig_name}.toml")
    study = Simulated.of(rig, PROFILES)
    frozen = _frozen(study)
    dress = _Dresser(study, frozen, seed)
    night = Night(study, seed)
    searched = [dress.dressed(record) for record in _search(study, night, launches, np.random.default_rng(seed))]
    confirmed = dress.anchors(searched, night.seconds) + dress.confirm_stage(searched, night.seconds, rounds)
    return Records(frozen, searched, confirmed)


def _search(study: Simulated, night: Night, launches: int, rng: np.random.Generator) -> list[TrialRecord]:
    """The baseline, the shipped seeds, then changes of one to three flags of whatever is the fastest so far."""
    baseline = night.run(Proposal(0, complete(study.space, study.baseline), None), baseline=True)
    records = [baseline]
    waiting: list[tuple[Mapping[str, Value], str | None]] = [(seed.values, seed.name) for seed in study.space.seeds]
    known = {baseline.configuration.fingerprint}
    while night.launched < launches:
        values, name = waiting.pop(0) if waiting else ({}, None)
        if name is None:
            drawn = random_values(study.space, rng)
            changed = rng.choice(sorted(drawn), size=int(rng.integers(1, 4)), replace=False)
            best = _fastest(study, records, rng)
            values = {**best.configuration.values, **{one: drawn[one] for one in changed}}
        configuration = complete(study.space, {**study.baseline, **values})
        if configuration.fingerprint in known or violations(study.space, configuration):
            continue
        known.add(configuration.fingerprint)
        records.append(night.run(Proposal(len(records), configuration, name)))
    return records


def _fastest(study: Simulated, records: list[TrialRecord], rng: np.random.Generator) -> TrialRecord:
    """For one of the profiles, by turns of chance."""
    profile = study.profiles[int(rng.integers(len(study.profiles)))]
    scored = [
        (score, record.number)
        for record in records
        if record.measurement is not None
        if (score := profile.log_score(record.measurement, study.workload.depths)) is not None
    ]
    return records[max(scored)[1]]


def _frozen(study: Simulated) -> FrozenStudy:
    rig = study.rig
    devices = tuple(
        Device(name=d.name, description=d.description, total_mib=d.total_mib, free_mib=d.free_mib) for d in rig.devices
    )
    cards = tuple(
        GpuIdentity(
            vendor="NVIDIA", name=d.description, uuid=f"{UUID}-{d.name}", total_mib=d.total_mib, driver="580.1",
            source="NVML",
        )
        for d in rig.devices
    )  # fmt: skip
    return FrozenStudy(
        study_id="s1", definition=definition(), space=study.space, baseline=study.baseline, fixed=(),
        baseline_arguments=(),
        machine=MachineFacts(
            host=HOST, system="Linux x86_64", cpu="AMD Ryzen 9 9950X", physical_cores=rig.machine["cores"],
            logical_cores=2 * rig.machine["cores"], memory_mib=rig.machine["host_mib"], cards=cards,
        ),
        engines=(engine_facts(version="b9999 (0123abc)", devices=devices),),
        models=(model_facts(path=MODEL, name=rig.model["name"], size_bytes=int(rig.model["weights_mib"]) * 2**20),),
        profiles=study.profiles, workload=study.workload,
    )  # fmt: skip


@dataclass
class _Dresser:
    """Gives simulated records what a real launch leaves beside its speeds."""

    study: Simulated
    frozen: FrozenStudy
    seed: int

    def dressed(self, record: TrialRecord) -> TrialRecord:
        rng = random.Random(f"{self.seed}/{record.stage}/{record.number}")
        baseline = record.is_baseline
        if baseline:
            arguments = [word for name, value in self.study.baseline.items() for word in (f"--{name}", str(value))]
            command = LaunchCommand(argv=(BINARY, "--model", MODEL, *arguments))
        else:
            command = ENGINE().command(
                self.study.space, record.configuration, binary=BINARY, model=MODEL, fixed=(), env={}
            )
        measurement = record.measurement
        if measurement is not None:
            measured = self.study.measured(record.configuration, baseline=baseline)
            measurement = self._measurement(measurement, measured, rng, baseline=baseline)
        folder = f"trials/{record.number:04d}"
        return record.model_copy(update={"command": command, "measurement": measurement, "folder": folder})

    def _measurement(
        self, measurement: Measurement, measured: Measured, rng: random.Random, *, baseline: bool
    ) -> Measurement:
        cells = tuple(self._cell(result, measured) for result in measurement.cells)
        uses = []
        for card, device in zip(self.frozen.machine.cards, self.study.rig.devices, strict=True):
            buffers = measurement.actual.buffers_mib.get(device.name)
            if buffers is not None:
                held = buffers + 260 + rng.gauss(0, 30)
                watts = 0.7 * 450 + rng.gauss(0, 8)
                uses.append(
                    GpuUse(
                        key=card.key, name=card.name, device=device.name, samples=100, memory_idle_mib=400.0,
                        memory_peak_mib=400.0 + held, power_mean_w=watts, power_peak_w=1.2 * watts, energy_j=watts * 90,
                        temperature_max_c=71.0,
                    )
                )  # fmt: skip
        quality = QualityResult(answers=(), depth=8192, cost=None if baseline else self._cost(rng))
        deepest = self.study.workload.depths[-1] + 140
        update = {
            "cells": cells, "gpus": tuple(uses), "quality": quality, "host_rss_peak_mib": 2100.0 + rng.gauss(0, 50),
            "proven_context": deepest,
        }  # fmt: skip
        return measurement.model_copy(update=update)

    def _cost(self, rng: random.Random) -> QualityCost:
        place = PlaceCost(known_right=12, known_asked=12, kl=abs(rng.gauss(0.012, 0.01)))
        return QualityCost(alone=place, deep=place, needles_found=3, needles_hidden=3, loop_share_added=0.0)

    def _cell(self, result: CellResult, measured: Measured) -> CellResult:
        cell = result.cell
        drafts = measured.drafts(cell.content.value, cell.depth, cell.streams)
        rate = drafts.accepted / drafts.drafted if drafts.drafted else None
        first = None if result.prefill_tps is None else 1000 * cell.depth / result.prefill_tps + 40
        update = {
            "acceptance_rate": rate, "acceptance_length": drafts.gained if rate is not None else None,
            "ttft_ms": first, "warm_ttft_ms": 45.0,
        }  # fmt: skip
        return result.model_copy(update=update)

    def anchors(self, searched: list[TrialRecord], seconds: float) -> list[TrialRecord]:
        """The baseline again, ten times in the night."""
        return [
            self.again(baseline, number, Stage.ANCHOR, BASELINE_NOTE, (number + 1) / 11 * seconds)
            for number in range(10)
            if (baseline := baseline_of(searched)) is not None
        ]

    def confirm_stage(self, searched: list[TrialRecord], seconds: float, rounds: int) -> list[TrialRecord]:
        """Baseline and finalists in turn."""
        baseline = baseline_of(searched)
        assert baseline is not None
        chosen = [(baseline, BASELINE_NOTE), *((r, f"trial {r.number}") for r in finalists(self.frozen, searched, 4))]
        made: list[TrialRecord] = []
        for turn in range(rounds):
            for of, note in chosen if turn % 2 == 0 else chosen[::-1]:
                number = 10 + len(made)
                made.append(self.again(of, number, Stage.CONFIRM, note, seconds + 100.0 * len(made)))
        return made

    def again(self, of: TrialRecord, number: int, stage: Stage, note: str, at: float) -> TrialRecord:
        """Another launch of a trial's configuration, with noise of its own."""
        night = replace(Night(self.study, self.seed + 1000), seconds=at)
        proposal = Proposal(of_trial(number), of.configuration, None)
        record = night.run(proposal, baseline=of.is_baseline)
        renamed = record.model_copy(update={"stage": stage, "note": note, "number": number})
        dressed = self.dressed(renamed)
        return dressed.model_copy(update={"folder": f"trials/confirm-{number:04d}"})


def of_trial(number: int) -> int:
    """A number that the search has not used, so that the simulated noise is another one."""
    return 100_000 + number


def many_trials(records: Records, count: int) -> Records:
    """The same night with so many trials of the search: other numbers, other times, other speeds."""
    rng = random.Random(count)
    made = list(records.searched)
    while len(made) < count:
        of = records.searched[len(made) % len(records.searched)]
        seconds = made[-1].finished_at or 0.0
        update: dict[str, object] = {
            "number": len(made), "stage": Stage.SEARCH, "note": "",
            "started_at": seconds, "finished_at": seconds + 80.0,
            "folder": f"trials/{len(made):04d}",
            "configuration": Configuration(values={**of.configuration.values, "copy": len(made)}),
        }  # fmt: skip
        if of.measurement is not None:
            factor = math.exp(rng.gauss(0, 0.05))
            cells = tuple(
                cell.model_copy(update={"decode_tps": cell.decode_tps and factor * cell.decode_tps})
                for cell in of.measurement.cells
            )
            update["measurement"] = of.measurement.model_copy(update={"cells": cells})
        made.append(of.model_copy(update=update))
    return Records(records.frozen, made, records.confirmed)
