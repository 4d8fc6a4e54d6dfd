"""What became of a trial."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class Outcome(StrEnum):
    """The one word for what became of a trial. Only `OK` trials can be recommended."""

    OK = "OK"
    INVALID = "INVALID"
    """It breaks a rule of the space, or the engine refused it at once: nothing was loaded."""
    WILL_NOT_FIT = "WILL_NOT_FIT"
    """The engine's own dry run says that memory does not suffice: nothing was launched."""
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    START_TIMEOUT = "START_TIMEOUT"
    """Launched, alive, but never ready within the deadline."""
    STALLED = "STALLED"
    """Ready, then silent: a request got no token within its deadline."""
    CRASHED = "CRASHED"
    DEGRADED = "DEGRADED"
    """It ran, but not as asked: a smaller context, no speculation, layers on the CPU."""
    WRONG_OUTPUT = "WRONG_OUTPUT"
    HOST_CRASH = "HOST_CRASH"
    """The machine went down during the trial. Never launched again."""
    INTERRUPTED = "INTERRUPTED"
    """The user or a kill stopped the tuner during the trial; says nothing about the configuration."""

    @property
    def was_loaded(self) -> bool:
        """Whether a trial with this outcome cost the loading of a model."""
        return self not in (Outcome.INVALID, Outcome.WILL_NOT_FIT)


class Move(BaseModel):
    """A flag that the engine itself wants larger or smaller before it can run."""

    model_config = ConfigDict(frozen=True)

    flag: str
    """Its long spelling."""
    larger: bool
    """Whether it wants more of it; otherwise less."""
    at: float | None = None
    """The value that the flag had, as the engine tells it; for a value that the engine chose itself."""


class Explanation(BaseModel):
    """Why an engine process ended or failed, read by the engine's own file from its log and exit code."""

    model_config = ConfigDict(frozen=True)

    outcome: Outcome
    reason: str
    """One sentence for a person: what happened and on which device."""
    repair: str | None = None
    """What would help, in words, if that is known."""
    line: str | None = None
    """The telling line of the log."""
    device: str | None = None
    """The device that failed (`CUDA0`, `Vulkan1`, `CPU`, ...), if the log names it."""
    shortfall_mib: float | None = None
    """The size of the allocation that failed, in MiB, if the log names it."""
    moves: tuple[Move, ...] = ()
    """Which flags would have to change, and in which direction. One failure may want more of what another wants less
    of: too small a share of memory for a KV cache, too large a one for what the computation needs besides."""


class Verdict(BaseModel):
    """An outcome, a reason a person understands, and how far each constraint was missed."""

    model_config = ConfigDict(frozen=True)

    outcome: Outcome
    reason: str
    constraints: dict[str, float] = {}
    """Constraint name -> violation; feasible when every value is <= 0."""
    log: str | None = None
    """Where the engine's log lies, relative to the study folder."""
    explanation: Explanation | None = None

    @property
    def feasible(self) -> bool:
        """Whether the configuration may be recommended."""
        return self.outcome is Outcome.OK and all(value <= 0 for value in self.constraints.values())
