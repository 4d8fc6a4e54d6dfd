"""Everything a run needs, handed in by `tuner.wiring`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tuner.domain.configuration import Configuration, Value
from tuner.domain.facts import EngineFacts
from tuner.domain.frozen import FrozenStudy
from tuner.domain.measurement import RequestFailure, RequestTiming
from tuner.domain.quality import Reply
from tuner.domain.record import Owner, TrialRecord
from tuner.study.protocols import Cards, Engine, Observer, Pool, Process


class TrialFiles(Protocol):
    """Where one launch leaves its files."""

    relative: str
    log_path: Path
    dry_run_log_path: Path
    gpu_csv_path: Path

    def dry_run_log_text(self) -> str:
        """The dry run's log so far."""

    def log_text(self) -> str:
        """The engine's log so far."""

    def log_request(self, cell: str, counts: bool, answer: RequestTiming | Reply | RequestFailure) -> None:
        """Keeps the raw figures of one request, durably enough to survive a kill."""

    def close(self) -> None:
        """Closes the files."""


class StartProcess(Protocol):
    """Makes a process that starts when its context is entered."""

    def __call__(self, argv: tuple[str, ...], env: Mapping[str, str], log_path: Path, marker: str) -> Process: ...


@dataclass(frozen=True)
class Kit:
    """The objects of one run of one study."""

    frozen: FrozenStudy
    engine: Engine
    pool: Pool
    observer: Observer
    owner: Owner
    environment: Mapping[str, str]
    """What the tuner itself inherited."""
    trial_files: Callable[[int, bool], TrialFiles]
    """Number and whether it confirms -> the launch's folder."""
    start_process: StartProcess
    cards: Cards
    free_port: Callable[[], int]
    complete: Callable[[Mapping[str, Value]], Configuration]
    """Values -> the configuration that they and the defaults make."""
    keeps_rules: Callable[[Configuration], bool]
    """Whether a configuration breaks no rule of the search space."""
    believed: Callable[[Sequence[TrialRecord]], Mapping[str, Mapping[str, float]]]
    """The search's records as they compare -> profile -> fingerprint -> what the search's model believes its log score
    to be: of a single launch the best one seen is partly luck. Empty where there is no model."""
    until: float | None
    """When the run ends, in seconds since the epoch; None: by the study's own budget alone."""
    is_paused: Callable[[], bool]
    """Whether somebody has asked for a pause."""
    after_crashes: bool
    """Whether to go on though the machine went down twice in a row."""
    stop_leftovers: Callable[[str], list[str]]
    """Marker prefix -> what was left running under it and has been stopped, in words."""

    def engine_facts(self, binary: str) -> EngineFacts:
        """What is known of one of the study's binaries."""
        return next(facts for facts in self.frozen.engines if facts.binary == binary)

    @property
    def baseline(self) -> Configuration:
        """The baseline as a configuration: the user's own values, the engine's defaults for the rest."""
        return self.complete(self.frozen.baseline)
