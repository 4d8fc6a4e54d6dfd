"""The complete record of a trial: written before the launch, completed when its verdict is known."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from tuner.domain.command import LaunchCommand
from tuner.domain.configuration import Configuration
from tuner.domain.measurement import Measurement
from tuner.domain.memory import MemoryProjection
from tuner.domain.verdict import Verdict


class Stage(StrEnum):
    """Why a trial was launched."""

    BASELINE = "baseline"
    SEED = "seed"
    SEARCH = "search"
    CONFIRM = "confirm"
    """A re-measurement of a configuration that the search found, or of the baseline."""
    ANCHOR = "anchor"
    """The baseline measured again during the search, which shows how the machine drifts."""
    REMEASURE = "remeasure"
    """A trial of the search measured again, because the machine drifted while it ran."""
    TRIM = "trim"
    """A winner with some of its flags put back to the baseline's values, which shows what these are worth."""
    VERIFY = "verify"
    """The baseline or a winner launched again later, to see whether what was found still holds."""


class Owner(BaseModel):
    """The process that runs a trial: what a later start needs to settle it."""

    model_config = ConfigDict(frozen=True)

    host: str
    boot_id: str
    pid: int


class TrialRecord(BaseModel):
    """One trial. Open while `verdict` is None."""

    model_config = ConfigDict(frozen=True)

    number: int
    """Counts within its stage's pool: the search counts apart from everything that is measured again."""
    stage: Stage
    configuration: Configuration
    note: str = ""
    """For a seed its name, for what is measured again what that is."""
    owner: Owner
    started_at: float
    """Seconds since the epoch."""
    finished_at: float | None = None
    command: LaunchCommand | None = None
    """What a user would run: the command that was launched, without what the measurement added."""
    launched: LaunchCommand | None = None
    """What was started for the measurement: own port, alias and log flags included."""
    cap_commands: tuple[str, ...] = ()
    """What sets the power caps it ran under, by hand; empty where they are the cards' own."""
    put_back: tuple[str, ...] = ()
    """Of a trim the parameters that have the baseline's values again; `note` says of which trial."""
    folder: str = ""
    """The trial's folder, relative to the study folder."""
    projection: MemoryProjection | None = None
    """What the engine's dry run said that it needs; None where none was made."""
    verdict: Verdict | None = None
    measurement: Measurement | None = None

    @property
    def seconds(self) -> float | None:
        """Wall time of the trial; None while it is open, and for one whose end nobody saw because of a kill."""
        return None if self.finished_at is None else self.finished_at - self.started_at

    @property
    def is_baseline(self) -> bool:
        """Whether it measured the baseline, for the first time or again."""
        return self.stage is Stage.BASELINE or self.note == BASELINE_NOTE


BASELINE_NOTE = "baseline"
