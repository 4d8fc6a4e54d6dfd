"""A machine without processes: launches are simulated, everything that decides about them is the project's own.

A launch is a pass of the real workload over a server that answers at once. Its speed is its configuration's, with noise
from request to request and from launch to launch, with slow outliers, and with a machine that drifts over the hours of
a clock that only launches and pauses move.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.builders import MACHINE, definition, frozen, profile
from tests.workload.simulated_server import SimulatedServer
from tuner.domain.command import LaunchCommand
from tuner.domain.configuration import Configuration, Value
from tuner.domain.measurement import ActualSettings, Measurement
from tuner.domain.profile import Profile
from tuner.domain.record import BASELINE_NOTE, Owner, Stage, TrialRecord
from tuner.domain.verdict import Outcome, Verdict
from tuner.domain.workload import Cell, Content, Workload
from tuner.study import anchors, confirm, trim
from tuner.study.launch import Launch
from tuner.study.precision import precision_of
from tuner.workload.measure import WorkloadRun
from tuner.workload.patience import Patience

CELLS = tuple(Cell(content=Content.CODE, depth=depth) for depth in (16, 48))
BASELINE: dict[str, Value] = {"chunk": 256, "cache": "f16"}
LAUNCH_S = 60.0
PROFILE = profile(depths={"shallow": 0.5, "deep": 0.5}, least_context=1)


@dataclass
class SimulatedPool:
    """The records of a study, as the pool would give them."""

    searched: list[TrialRecord] = field(default_factory=list)
    confirmed: list[TrialRecord] = field(default_factory=list)

    def records(self, *, confirm: bool = False) -> list[TrialRecord]:
        return list(self.confirmed if confirm else self.searched)

    def untold(self, *, confirm: bool = False) -> list[TrialRecord]:  # noqa: ARG002
        return []

    def drop_unrecorded(self) -> None:
        pass

    def open_confirmation(self) -> int:
        return len(self.confirmed)


@dataclass
class SimulatedMachine:
    """Launches configurations. `speed` is a configuration's, relative to the baseline's."""

    monkeypatch: pytest.MonkeyPatch
    speed: Callable[[Configuration], float] = lambda _: 1.0
    seed: int = 0
    request_noise: float = 0.0
    launch_noise: float = 0.0
    outliers: float = 0.0
    slower: float = 0.25
    drift: Callable[[float], float] = lambda _: 0.0
    """Seconds since the study began -> by how much the machine is slower by then; logarithm."""
    profiles: tuple[Profile, ...] = (PROFILE,)
    fails: Callable[[Configuration], bool] = lambda _: False
    """Configurations that run out of memory."""
    asked: dict[str, Any] = field(default_factory=lambda: {"hours": 8.0})
    clock: float = 1_000_000.0

    def __post_init__(self) -> None:
        self.began = self.clock
        self.rng = np.random.default_rng(self.seed)
        self.pool = SimulatedPool()
        self.notes: list[str] = []
        observer = SimpleNamespace(
            phase=lambda *_: None, time_left=lambda *_: None, note=self.notes.append, trial_step=lambda _: None
        )
        self.kit: Any = SimpleNamespace(
            frozen=frozen(
                self.profiles,
                definition=definition(**self.asked),
                workload=Workload(cells=CELLS, predict_tokens=16),
            ),
            pool=self.pool, observer=observer, until=None, is_paused=lambda: False,
            baseline=Configuration(values=BASELINE), complete=lambda values: Configuration(values=dict(values)),
            keeps_rules=lambda _: True, believed=lambda _: {},
        )  # fmt: skip
        self.monkeypatch.setattr(confirm, "run_trial", self.run_trial)
        self.monkeypatch.setattr(anchors, "run_trial", self.run_trial)
        self.monkeypatch.setattr(trim, "run_trial", self.run_trial)
        self.monkeypatch.setattr(anchors, "time", SimpleNamespace(time=lambda: self.clock, sleep=self.wait))

    def wait(self, seconds: float) -> None:
        self.clock += seconds

    def search(self, **values: Value) -> TrialRecord:
        """One launch of the search; without values that of the baseline."""
        stage = Stage.SEARCH if self.pool.searched else Stage.BASELINE
        configuration = Configuration(values={**BASELINE, **values})
        return self.run_trial(self.kit, Launch(len(self.pool.searched), stage, configuration))

    def run_trial(self, kit: Any, launch: Launch) -> TrialRecord:
        """What `tuner.study.run_trial.run_trial` does, without the processes."""
        number = len(self.pool.confirmed if launch.confirms else self.pool.searched)
        common = self.rng.normal(0, self.launch_noise) - self.drift(self.clock - self.began)
        if self.rng.random() < self.outliers:
            common -= self.slower
        factor = self.speed(launch.configuration) if not launch.is_baseline else 1.0
        server = SimulatedServer(
            lambda *_: 50 * factor * math.exp(common + self.rng.normal(0, self.request_noise)),
            prefill_tps=1000 * factor * math.exp(common + self.rng.normal(0, self.request_noise)),
        )
        run = WorkloadRun(
            server, kit.frozen.workload, salt_key=f"{launch.stage}/{number}", slots=1, log=lambda *_: None,
            patience=Patience(), precision=precision_of(kit, launch),
        )  # fmt: skip
        cells = tuple(run.measure().cells)
        record = TrialRecord(
            number=number,
            stage=launch.stage,
            configuration=launch.configuration,
            note=launch.note,
            put_back=launch.put_back,
            owner=Owner(host=MACHINE.host, boot_id="b", pid=1),
            started_at=self.clock,
            finished_at=self.clock + LAUNCH_S,
            command=LaunchCommand(argv=("engine",)),
            folder=f"trials/{'confirm-' if launch.confirms else ''}{number:04}",
            verdict=Verdict(outcome=Outcome.OK, reason="measured"),
            measurement=Measurement(cells=cells, ready_s=1.0, actual=ActualSettings(context_per_slot=4096, slots=1)),
        )
        if self.fails(launch.configuration):
            missed = Verdict(outcome=Outcome.OUT_OF_MEMORY, reason="simulated", constraints={"outcome": 1.0})
            record = record.model_copy(update={"verdict": missed, "measurement": None})
        self.clock += LAUNCH_S + 1
        (self.pool.confirmed if launch.confirms else self.pool.searched).append(record)
        return record

    def launched(self, stage: Stage) -> list[str]:
        """What was measured again in a stage, in order: `baseline` or the trial's note."""
        return [BASELINE_NOTE if r.is_baseline else r.note for r in self.pool.confirmed if r.stage is stage]
