"""The complete record of a trial, as it lies in the trial's attributes."""

from __future__ import annotations

from functools import lru_cache

from optuna.trial import FrozenTrial

from tuner.domain.record import TrialRecord

RECORD = "record"
"""The attribute that holds it, as JSON."""


def record_of(trial: FrozenTrial) -> TrialRecord | None:
    """The trial's record; None where none was written."""
    text = trial.user_attrs.get(RECORD)
    return None if text is None else parsed(text)


@lru_cache(maxsize=4096)
def parsed(text: str) -> TrialRecord:
    """A record from its JSON. Remembered: all records are asked for before every trial."""
    return TrialRecord.model_validate_json(text)
