"""A rig as a study meets it, without HTTP: space, profiles and workload resolved as for a real machine, and launches.

Everything that decides what the search sees is the tuner's own: the shipped space file, the rules, the dry run's
limits, the verdict's constraints and the told objectives. Only engine and clock are simulated.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tests.fake_engine.rig import Measured, Rig
from tests.search.spaces import HELP_TEXTS, SHIPPED
from tuner.domain.configuration import Configuration, Value
from tuner.domain.facts import Device
from tuner.domain.measurement import ActualSettings, CellResult, Measurement
from tuner.domain.memory import MemoryProjection
from tuner.domain.profile import Profile
from tuner.domain.record import Owner, Stage, TrialRecord
from tuner.domain.space import UNSET, SearchSpace
from tuner.domain.verdict import Explanation, Outcome, Verdict
from tuner.domain.workload import Cell, Content, Workload
from tuner.search.pool import Proposal
from tuner.search.profiles_file import read_profiles, select_profiles
from tuner.search.resolve import Surroundings, resolve
from tuner.search.space_file import read_space_file
from tuner.study.judge import constraints
from tuner.study.memory import MemoryLimits

GPU_DEPTHS = (512, 8192)
CPU_DEPTHS = (256, 1024)
PREDICT_TOKENS = 128
_DRY_RUN_S = 1.0
_FLAGS = HELP_TEXTS["llama_server_help"]


@dataclass(frozen=True)
class Simulated:
    """One study on one rig."""

    rig: Rig
    profiles: tuple[Profile, ...]
    space: SearchSpace
    baseline: dict[str, Value]
    """Parameter -> value of the owner's own command; empty where it is the engine's defaults."""

    @classmethod
    def of(cls, rig: Rig, profiles: Sequence[str]) -> Simulated:
        """The study that a person would start on this rig."""
        least = rig.study.get("ctx_min", 32768 if rig.devices else 8192)
        chosen = [
            profile.model_copy(update={"least_context": min(least, rig.model["trained_context"])})
            for profile in select_profiles(read_profiles(SHIPPED / "profiles.toml"), list(profiles))
        ]
        file = read_space_file(SHIPPED / "llama_server.toml")
        base = dict(rig.study.get("base", {}))
        around = Surroundings(
            facts=_facts(rig, min(profile.least_context for profile in chosen)),
            flags=_FLAGS,
            devices=[
                Device(name=d.name, description=d.description, total_mib=d.total_mib, free_mib=d.free_mib)
                for d in rig.devices
            ],
            present=base,
        )
        space = resolve(file, around)
        return cls(rig, tuple(chosen), space, {name: space.by_name[name].default for name in base})

    @cached_property
    def workload(self) -> Workload:
        """The union of the cells that the profiles need, cheap ones first."""
        depths = GPU_DEPTHS if self.rig.devices else CPU_DEPTHS
        cells = {cell for profile in self.profiles for cell in profile.cells(depths)}
        cells |= {Cell(content=Content.CODE, depth=depth) for depth in depths}
        order = list(Content)
        ordered = sorted(cells, key=lambda cell: (cell.streams, cell.depth, order.index(cell.content)))
        return Workload(cells=tuple(ordered), predict_tokens=PREDICT_TOKENS)

    def measured(self, configuration: Configuration, *, baseline: bool = False) -> Measured:
        """The rig's answer to the command of a configuration; of the baseline, to the owner's own flags alone."""
        values = self.baseline if baseline else configuration.values
        settings: dict[str, Any] = {}
        environment: dict[str, str] = {}
        for name, value in values.items():
            parameter = self.space.by_name[name]
            if value == UNSET:
                continue
            if parameter.target == "environment":
                environment[str(parameter.environment)] = str(value)
            else:
                settings[str(parameter.flag or parameter.off_flag)[2:].replace("-", "_")] = value
        return self.rig.measure(settings, environment)

    def true_cells(self, measured: Measured) -> Measurement:
        """What would be measured without any noise."""
        results = []
        for cell in self.workload.cells:
            speed = measured.decode_tps(cell.content.value, cell.depth, cell.streams) * cell.streams
            prefill = measured.prefill_tps(cell.depth) if cell.streams == 1 else None
            results.append(CellResult(cell=cell, decode_tps=speed, prefill_tps=prefill))
        actual = ActualSettings(
            context_per_slot=measured.plan.context_per_slot,
            slots=measured.plan.slots,
            buffers_mib={name: sum(parts.values()) for name, parts in measured.memory.items() if name != "Host"},
        )
        return Measurement(cells=tuple(results), ready_s=self.rig.model["load_s"], actual=actual)

    def fails(self, measured: Measured) -> Outcome | None:
        """How a launch ends that is not measured to its end; None for one that is."""
        deepest = self.workload.depths[-1] + PREDICT_TOKENS
        if measured.outcome != "OK":
            return Outcome(measured.outcome)
        if deepest >= measured.max_depth:
            return Outcome.OUT_OF_MEMORY
        if deepest >= measured.crash_depth:
            return Outcome.CRASHED
        if measured.plan.gave_up or measured.plan.spec_failed or deepest >= measured.plan.context_per_slot:
            return Outcome.DEGRADED
        return None


@dataclass
class Night:
    """Launches one after the other, with the machine's noise, and what they cost."""

    study: Simulated
    seed: int
    seconds: float = 0.0
    launched: int = 0
    wasted_on_memory: int = 0
    limits: list[TrialRecord] = field(default_factory=list)
    """What was launched or projected: what the memory limits are learned from."""

    def run(self, proposal: Proposal, *, baseline: bool = False) -> TrialRecord:
        """One trial from its projection to its verdict."""
        study = self.study
        measured = study.measured(proposal.configuration, baseline=baseline)
        projection = None if baseline else self._projection(measured)
        record = TrialRecord(
            number=proposal.number,
            stage=Stage.BASELINE if baseline else Stage.SEARCH if proposal.seed_name is None else Stage.SEED,
            configuration=proposal.configuration,
            note=proposal.seed_name or "",
            owner=Owner(host="rig", boot_id="b", pid=1),
            started_at=self.seconds,
            projection=projection,
        )
        over = _worst(self.limits, projection)
        if over is not None and over > 0:
            self.seconds += _DRY_RUN_S
            missed = constraints(Outcome.WILL_NOT_FIT, None, study.profiles, memory_over_mib=over)
            verdict = Verdict(outcome=Outcome.WILL_NOT_FIT, reason="projected", constraints=missed)
            return self._closed(record, verdict, None)
        self.launched += 1
        outcome = study.fails(measured)
        if outcome is not None:
            self.wasted_on_memory += outcome is Outcome.OUT_OF_MEMORY
            self.seconds += study.rig.model["load_s"] + 5.0
            explained = Explanation(outcome=outcome, reason="simulated", device=measured.failed_device)
            missed = constraints(outcome, None, study.profiles, memory_over_mib=over or 0.0)
            verdict = Verdict(outcome=outcome, reason="simulated", constraints=missed, explanation=explained)
            return self._closed(record, verdict, None)
        measurement = self._noisy(study.true_cells(measured), record)
        self.seconds += _seconds(study, measurement)
        missed = constraints(Outcome.OK, measurement, study.profiles, memory_over_mib=min(over or 0.0, 0.0))
        return self._closed(record, Verdict(outcome=Outcome.OK, reason="measured", constraints=missed), measurement)

    def _projection(self, measured: Measured) -> MemoryProjection | None:
        """What the engine's dry run would say: nothing of drafts, nothing of what the driver takes."""
        if measured.settings.get("fit", "on") == "on" or not measured.plan.shares:
            return None
        draft = measured.rig.draft_mib(measured.plan, measured.settings)
        on = str(measured.settings.get("spec_draft_device") or next(iter(measured.plan.shares))).split(",")[0]
        needed = {name: sum(parts.values()) for name, parts in measured.projected.items() if name != "Host"}
        if on in needed:
            needed[on] -= draft
        free = {d.name: float(d.free_mib) for d in measured.rig.devices if d.name in needed}
        return MemoryProjection(needed_mib=needed, free_mib=free, speculation_mib=draft or None)

    def _noisy(self, true: Measurement, record: TrialRecord) -> Measurement:
        rng = random.Random(f"{self.seed}/{record.number}/{record.configuration.fingerprint}")
        luck = self.study.rig.luck(f"{self.seed}/{record.number}", self.seconds / 3600)
        sigma = self.study.rig.noise.get("sigma", 0.01)

        def noise() -> float:
            return luck * math.exp(rng.gauss(0, sigma))

        cells = []
        for result in true.cells:
            decode = None if result.decode_tps is None else result.decode_tps * noise()
            prefill = None if result.prefill_tps is None else result.prefill_tps * noise()
            cells.append(result.model_copy(update={"decode_tps": decode, "prefill_tps": prefill}))
        return true.model_copy(update={"cells": tuple(cells)})

    def _closed(self, record: TrialRecord, verdict: Verdict, measurement: Measurement | None) -> TrialRecord:
        update = {"verdict": verdict, "measurement": measurement, "finished_at": self.seconds}
        closed = record.model_copy(update=update)
        self.limits.append(closed)
        return closed


def _worst(records: Sequence[TrialRecord], projection: MemoryProjection | None) -> float | None:
    """MiB by which the worst device would miss its memory, as a study judges it."""
    if projection is None:
        return None
    return max(MemoryLimits.learned(records).over(projection).values())


def _seconds(study: Simulated, measurement: Measurement) -> float:
    """Wall time of a launch that is measured to its end."""
    seconds = study.rig.model["load_s"] + 5.0
    for depth in study.workload.depths:
        seconds += depth / (measurement.prefill_at(depth) or math.inf)
    for result in measurement.cells:
        speed = (result.decode_tps or math.inf) / result.cell.streams
        # A second measured request, and the instruction that is read on top of the prefix.
        seconds += PREDICT_TOKENS / speed + 0.5
    return seconds


def _facts(rig: Rig, least: int) -> Mapping[str, Value | None]:
    size = rig.model["weights_mib"]
    return {
        "machine.gpus": len(rig.devices), "machine.physical_cores": rig.machine["cores"],
        "machine.logical_cores": 2 * rig.machine["cores"], "machine.memory_mib": rig.machine["host_mib"],
        "model.trained_context": rig.model["trained_context"], "model.layers": rig.model["layers"],
        "model.mtp_layers": rig.model["mtp_layers"], "model.experts": 0, "model.size_mib": int(size),
        "engine.devices": len(rig.devices), "engine.has_vulkan": any(d.name.startswith("Vulkan") for d in rig.devices),
        "engine.computes_on_cpu": not rig.devices or size > sum(device.total_mib for device in rig.devices),
        "study.ctx_min": least, "study.draft_model": False, "study.models": 1, "study.binaries": 1,
    }  # fmt: skip
