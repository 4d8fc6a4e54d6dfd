"""The machines that work on one study together: each is a trial of the Optuna study `NAME/workers`, with a heartbeat.

Everything is what Optuna's storage gives: numbers that are given one after the other, a trial's state that only one can
change, and heartbeats by the database's own clock. The first trial holds what the study was resolved to.
"""

from __future__ import annotations

import threading
import uuid
import warnings
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

import optuna
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from tuner.domain.record import Owner

_FROZEN = "frozen"
_OWNER = "owner"
_TOKEN = "token"


class Workers:
    """One worker among those of a study. A context manager: while it is entered, this one is alive.

    Args:
        storage: with heartbeats.
        name: the study's.
        owner: this process.
        process_alive: whether a process of this machine still runs.
    """

    def __init__(
        self,
        storage: optuna.storages.RDBStorage,
        name: str,
        owner: Owner,
        process_alive: Callable[[Owner], bool],
    ) -> None:
        self._storage = storage
        self._study = open_study(storage, name)
        self._owner = owner
        self._process_alive = process_alive
        self._trial_id: int | None = None
        self._greeted: set[int] = set()
        self._ended = threading.Event()
        self._beating: threading.Thread | None = None

    def founded(self, text: str) -> str:
        """What the study was resolved to: by the machine that was first, which may be this one with its own `text`."""
        known = founding_text(self._study)
        if known is not None:
            return known
        self._study.add_trial(optuna.trial.create_trial(value=0.0, user_attrs={_FROZEN: text}))
        founded = founding_text(self._study)
        assert founded is not None
        return founded

    def __enter__(self) -> Self:
        self._join()
        self._beating = threading.Thread(target=self._beat, daemon=True)
        self._beating.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._trial_id is not None:
            # While the storage is away nobody can be told; then the heartbeat's end says it.
            with suppress(SQLAlchemyError, optuna.exceptions.OptunaError):
                self._storage.set_trial_state_values(self._trial_id, TrialState.COMPLETE, [0.0])

    def is_alive(self, owner: Owner) -> bool:
        """Whether the process that opened a trial may still close it. `look` before."""
        if owner.host == self._owner.host:
            return owner == self._owner or self._process_alive(owner)
        return owner in living(self._study)

    def is_first(self) -> bool:
        """Whether this one does what only one may do: it joined first of those that are alive."""
        owners = living(self._study)
        return not owners or owners[0] == self._owner

    def look(self) -> None:
        """Finds out who is alive, and says so where this one was taken for dead while it was cut off."""
        for trial in _running(self._study):
            if trial._trial_id not in self._greeted:
                # One that died before its first sign of life gets it here, or it could never fall silent.
                self._greeted.add(trial._trial_id)
                self._storage.record_heartbeat(trial._trial_id)
            owner = _owner_of(trial)
            if owner.host == self._owner.host and owner != self._owner and not self._process_alive(owner):
                with suppress(optuna.exceptions.UpdateFinishedTrialError):
                    self._storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            optuna.storages.fail_stale_trials(self._study)
        if not any(trial._trial_id == self._trial_id for trial in _running(self._study)):
            self._join()

    def _join(self) -> None:
        token = uuid.uuid4().hex
        attributes = {_OWNER: self._owner.model_dump_json(), _TOKEN: token}
        self._study.add_trial(optuna.trial.create_trial(state=TrialState.RUNNING, user_attrs=attributes))
        ours = next(trial for trial in _running(self._study) if trial.user_attrs.get(_TOKEN) == token)
        self._storage.record_heartbeat(ours._trial_id)
        self._greeted.add(ours._trial_id)
        self._trial_id = ours._trial_id

    def _beat(self) -> None:
        interval_s = self._storage.get_heartbeat_interval()
        while not self._ended.wait(interval_s):
            # What stops the heart for a while is for the trials to tell: they go through the same storage.
            with suppress(SQLAlchemyError, optuna.exceptions.OptunaError):
                if self._trial_id is not None:
                    self._storage.record_heartbeat(self._trial_id)


def open_study(storage: optuna.storages.BaseStorage, name: str) -> optuna.Study:
    """The Optuna study with the workers of a study; made if it is not there."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna.create_study(storage=storage, study_name=f"{name}/workers", load_if_exists=True)


def founding_text(study: optuna.Study) -> str | None:
    """What the study was resolved to; None where nobody has begun it."""
    for trial in study.get_trials(deepcopy=False):
        if _FROZEN in trial.user_attrs:
            return str(trial.user_attrs[_FROZEN])
    return None


def living(study: optuna.Study) -> list[Owner]:
    """The workers that have not ended, in the order in which they joined."""
    return [_owner_of(trial) for trial in _running(study)]


def _running(study: optuna.Study) -> list[FrozenTrial]:
    return study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))


def _owner_of(trial: FrozenTrial) -> Owner:
    return Owner.model_validate_json(trial.user_attrs[_OWNER])
