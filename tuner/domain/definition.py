"""What a study is asked to do: the content of `study.toml`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from tuner.domain.sampling import Sampling

Sampler = Literal["composite", "tpe", "gp", "random"]
"""What proposes configurations: the tuner's own model, or one of Optuna's."""

MOST_DEPTHS = 8
"""A depth costs a cold prefill in every launch."""

_BUDGETS = ("hours", "trials", "confirm_rounds", "confirm_most", "sampler", "trim")
"""What may change while a study goes on: it makes no figure incomparable."""


class StudyDefinition(BaseModel):
    """Everything a user decides about a study. Frozen once its first trial has run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = 1
    engine: str
    storage: str | None = None
    """The address of the storage that several machines share, without a password; None for a file of the study's."""
    binary: tuple[str, ...]
    """The engine's program; several make the binary itself a parameter."""
    model: tuple[str, ...]
    """The model file; several make the model itself a parameter."""
    space: str | None = None
    """A search space file of the user's own; None for the one that comes with the tuner."""
    fixed: tuple[str, ...] = ()
    """Arguments that every launch gets."""
    env: dict[str, str] = {}
    """Environment variables that every launch gets."""
    pasted: tuple[str, ...] | None = None
    """The command the user runs today, which then is the baseline."""
    profiles: tuple[str, ...]
    profiles_file: str | None = None
    power_cap: bool = False
    """Whether the graphics cards' power caps may be changed while the study runs, and are searched."""
    ctx_min: int | None = Field(default=None, ge=1)
    """Least context a slot must have, whatever the profiles say."""
    depths: tuple[int, ...] = Field(default=(), max_length=MOST_DEPTHS)
    """The depths to measure at; empty: chosen from the machine and the context."""
    prompts: str | None = None
    """A JSONL file with prompts of the user's own; what is in it is frozen with the study."""
    sampling: Sampling = Sampling()
    """How the next token is chosen in the measured requests. Never part of a command."""
    predict_tokens: int | None = Field(default=None, ge=2)
    """Tokens generated in each measured request; None: by the machine."""
    repeats: int = Field(default=1, ge=1)
    decode_limit_s: float = Field(default=60.0, gt=0, allow_inf_nan=False)
    sampler: Sampler = "composite"
    from_studies: tuple[str, ...] = ()
    """Folders of earlier studies whose winners are tried early."""
    hours: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    trials: int | None = Field(default=None, gt=0)
    trim: bool = True
    """Whether the winners are measured without each of their flags, so that only those are printed which pay."""
    confirm_rounds: int = Field(default=3, ge=2)
    confirm_most: int | None = Field(default=None, ge=2)
    """Launches of a finalist whose gain is still open; None: five times the rounds while there is time."""

    def changes_to(self, now: StudyDefinition) -> list[str]:
        """In what another definition differs, budgets aside, in words."""
        free = set(_BUDGETS)
        if self.storage is not None and now.storage is not None:
            # Machines may know one storage by different addresses.
            free.add("storage")
        return [
            f"{name} was {getattr(self, name)}, is {getattr(now, name)}"
            for name in StudyDefinition.model_fields
            if name not in free and getattr(self, name) != getattr(now, name)
        ]
