"""The pool of trials: one Optuna storage, opened, asked, told and read.

The complete record of a trial is one JSON value in the trial's attributes. Two Optuna studies share the storage:
`search`, which the sampler learns from, and `confirm`, re-measurements that it must not see.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import optuna
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from tuner.domain.configuration import Configuration, Value
from tuner.domain.errors import BadInput, NotPermitted
from tuner.domain.record import BASELINE_NOTE, TrialRecord
from tuner.domain.space import SearchSpace
from tuner.domain.verdict import Outcome
from tuner.search.directions import contradicts, directions
from tuner.search.distributions import distributions, from_optuna, to_optuna
from tuner.search.records import RECORD, parsed
from tuner.search.samplers import SamplerFactory, tpe
from tuner.search.space import complete, random_values, violations

CONSTRAINTS = ("outcome", "memory", "context", "streams")
"""The constraints of every told trial, always all of them and in this order: Optuna's samplers rely on it."""

OBJECTIVES = ("prefill_tps", "decode_tps", "context_tokens")
"""The raw metrics that the study maximises together. Profiles are computed from stored trials, never searched alone."""

_ORIGIN = "origin"
_TOKEN = "token"
"""Tells a trial that was just added from those that others add."""
_PATIENCE = 20
"""Proposals in a row that may be known already before random ones are drawn instead."""

_LOCK_WAIT_S = 60.0

Storage = optuna.storages.BaseStorage
"""Where a study's trials lie, whatever database that is."""


@dataclass(frozen=True)
class Proposal:
    """A configuration to measure next."""

    number: int
    configuration: Configuration
    seed_name: str | None
    """The seed it comes from; None when the sampler proposed it."""


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Tells what fails in the storage at `path` as an error for the user.

    Raises:
        BadInput: the file is damaged, or no study of this tuner.
        NotPermitted: the file cannot be read or written now.
    """
    try:
        yield
    except (sqlite3.Error, SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        cause: BaseException = error
        while not isinstance(cause, sqlite3.Error) and cause.__cause__ is not None:
            cause = cause.__cause__
        if isinstance(cause, sqlite3.OperationalError) and "no such" not in str(cause):
            raise NotPermitted(
                f"The study's storage cannot be used: {cause}",
                where=str(path),
                advice="look at free space and permissions there; what was measured so far is kept",
            ) from error
        raise BadInput(
            f"The study's storage is damaged: {cause}",
            where=str(path),
            advice="put back a copy of it, or start a new study under another name; this one's files stay as they are",
        ) from error


class TrialPool:
    """All trials of one study, in one Optuna storage."""

    def __init__(
        self,
        storage: optuna.storages.BaseStorage,
        name: str,
        space: SearchSpace,
        sampler: SamplerFactory = tpe,
        *,
        prefix: str = "",
        beside: str = "confirm",
    ) -> None:
        """`prefix` stands before the names of the Optuna studies, in a storage that holds several studies.

        `beside` names the Optuna study of what is measured again: each has its own records and numbers.
        """
        self.storage = storage
        self._space = space
        self._distributions = distributions(space)
        self._search = _open(storage, f"{prefix}search", len(OBJECTIVES))
        self._confirm = _open(storage, f"{prefix}{beside}", 1)
        # A sampler seeded alike after every start would propose its first trials again.
        told = len(self._search.get_trials(deepcopy=False))
        seed = int.from_bytes(hashlib.sha256(f"{name} {told}".encode()).digest()[:4], "big")
        # Proposals are drawn in memory, from a copy of what was told: the many that are known already, or break a
        # rule, then cost neither a trial number nor a write.
        self._draft = _open(optuna.storages.InMemoryStorage(), "draft", len(OBJECTIVES))
        self._draft.sampler = sampler(seed)
        self._drafted: set[int] = set()
        self._rng = np.random.default_rng(seed)
        self._asked: dict[int, Trial] = {}
        self._failures: list[TrialRecord] = []

    @classmethod
    def open_file(
        cls, path: Path, name: str, space: SearchSpace, sampler: SamplerFactory = tpe, *, beside: str = "confirm"
    ) -> TrialPool:
        """The pool of the study `name` in the SQLite file at `path`, made if it is not there."""

        def connect() -> sqlite3.Connection:
            return sqlite3.connect(path, timeout=_LOCK_WAIT_S, check_same_thread=False)

        with storage_errors(path):
            # Write-ahead logging, for all connections: a reader never blocks the run, and a kill loses nothing.
            with closing(connect()) as connection:
                connection.execute("PRAGMA journal_mode=wal")
                (state,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if state != "ok":
                raise sqlite3.DatabaseError(state)
            # No path in the URL: a `?` ends it, Optuna reads braces as a template, and SQLAlchemy undoes `%` since 2.1.
            storage = optuna.storages.RDBStorage("sqlite:///study.db", engine_kwargs={"creator": connect})
            return cls(storage, name, space, sampler, beside=beside)

    def enqueue(self, values: dict[str, Value], origin: str) -> None:
        """Puts a configuration in the queue that `ask` serves first. `origin` is the seed's name.

        The queue lies in the storage, so it survives a kill. What waits in it already, as an interrupted trial does,
        is not put there again.
        """
        waiting = self._search.get_trials(deepcopy=False, states=(TrialState.WAITING,))
        if any(trial.user_attrs.get(_ORIGIN) == origin for trial in waiting):
            return
        self._search.enqueue_trial(to_optuna(self._space, values), user_attrs={_ORIGIN: origin})

    def origins(self) -> set[str]:
        """The names of everything that was ever enqueued."""
        trials = self._search.get_trials(deepcopy=False)
        return {trial.user_attrs[_ORIGIN] for trial in trials if trial.user_attrs.get(_ORIGIN)}

    def ask(self) -> Proposal | None:
        """The next configuration that keeps all rules and was never measured; None when the space is used up."""
        records = self.records()
        known = {record.configuration.fingerprint for record in records if _says_something(record)}
        crashed = [record.configuration for record in records if _took_the_machine_down(record)]
        self._failures = [record for record in records if directions(self._space, record)]
        baseline_known = any(record.is_baseline and _is_measured(record) for record in records)
        while self._search.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
            trial = self._search.ask(self._distributions)
            configuration = complete(self._space, from_optuna(self._space, trial.params))
            # A baseline that failed is asked for again; that a kill can put it in the queue twice must not show.
            is_baseline = trial.user_attrs.get(_ORIGIN) == BASELINE_NOTE
            is_wanted = not baseline_known if is_baseline else self._is_wanted(configuration, known, crashed)
            if not is_wanted or (not is_baseline and self._is_taken(trial.number, configuration)):
                self._search.tell(trial, state=TrialState.FAIL)
                continue
            self._asked[trial.number] = trial
            return Proposal(trial.number, configuration, trial.user_attrs.get(_ORIGIN))
        params = self._draw(known, crashed)
        if params is None:
            return None
        self._search.enqueue_trial(params)
        return self.ask()

    def _is_taken(self, number: int, configuration: Configuration) -> bool:
        """Whether an earlier trial has this configuration: another machine may have asked for it at the same time.

        The storage gives numbers one after the other, so that exactly one of two gives way.
        """
        for other in self._search.get_trials(deepcopy=False):
            if other.number < number and other.state is not TrialState.FAIL:
                values = from_optuna(self._space, other.system_attrs.get("fixed_params", other.params))
                if complete(self._space, values).fingerprint == configuration.fingerprint:
                    return True
        return False

    def _draw(self, known: set[str], crashed: Sequence[Configuration]) -> dict[str, Value] | None:
        """What the sampler proposes next, as Optuna's parameters; random values when it only repeats itself."""
        self._copy_told()
        for _ in range(_PATIENCE):
            trial = self._draft.ask(self._distributions)
            configuration = complete(self._space, from_optuna(self._space, trial.params))
            if self._is_ruled_out(configuration, crashed):
                _set_constraints(trial, {"outcome": 1.0})
                self._draft.tell(trial, state=TrialState.PRUNED)
                continue
            self._draft.tell(trial, state=TrialState.FAIL)
            if configuration.fingerprint not in known:
                return dict(trial.params)
        for _ in range(1000):
            values = random_values(self._space, self._rng)
            if self._is_wanted(complete(self._space, values), known, crashed):
                return to_optuna(self._space, values)
        return None

    def _copy_told(self) -> None:
        for trial in self._search.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED)):
            if trial.number not in self._drafted:
                self._drafted.add(trial.number)
                self._draft.add_trial(_in_order(trial))

    def _is_wanted(self, configuration: Configuration, known: set[str], crashed: Sequence[Configuration]) -> bool:
        return configuration.fingerprint not in known and not self._is_ruled_out(configuration, crashed)

    def _is_ruled_out(self, configuration: Configuration, crashed: Sequence[Configuration]) -> bool:
        """Whether it breaks a rule, may take the machine down, or lies where a failure has shown that it fails."""
        breaks = bool(violations(self._space, configuration)) or _is_near(configuration, crashed)
        return breaks or contradicts(self._space, configuration, self._failures)

    def open_confirmation(self) -> int:
        """A number for a re-measurement."""
        return self._confirm.ask().number

    def open_beside(self, configuration: Configuration) -> int:
        """A number for a configuration that nobody asked for, measured on another one's launch."""
        params = to_optuna(self._space, configuration.values)
        known = {name: self._distributions[name] for name in params}
        token = uuid.uuid4().hex
        self._search.add_trial(
            optuna.trial.create_trial(
                state=TrialState.RUNNING, params=params, distributions=known, user_attrs={_TOKEN: token}
            )
        )
        trials = self._search.get_trials(deepcopy=False)
        return next(trial.number for trial in reversed(trials) if trial.user_attrs.get(_TOKEN) == token)

    def save(self, record: TrialRecord, *, confirm: bool = False) -> None:
        """Makes the record durable. It can be saved again as long as its trial is open."""
        self._trial(record.number, confirm).set_user_attr(RECORD, record.model_dump_json(exclude_none=True))

    def tell(
        self, record: TrialRecord, objectives: tuple[float, float, float] | None, *, confirm: bool = False
    ) -> None:
        """Closes a trial: its final record, its constraints, and its raw metrics if all were measured.

        An interrupted trial says nothing about its configuration: it is closed as failed, and asked again.
        """
        verdict = record.verdict
        assert verdict is not None
        trial = self._trial(record.number, confirm)
        self.save(record, confirm=confirm)
        if verdict.outcome is Outcome.INTERRUPTED:
            # In the queue first: a kill in between can only leave it there twice, which `ask` sees.
            if not confirm:
                self._enqueue_again(self._search.get_trials(deepcopy=False)[record.number])
            (self._confirm if confirm else self._search).tell(trial, state=TrialState.FAIL)
            return
        if confirm:
            self._confirm.tell(trial, 0.0)
            return
        _set_constraints(trial, verdict.constraints)
        if objectives is None:
            self._search.tell(trial, state=TrialState.PRUNED)
        else:
            self._search.tell(trial, objectives)

    def records(self, *, confirm: bool = False) -> list[TrialRecord]:
        """The records of all trials, open ones included, in order."""
        study = self._confirm if confirm else self._search
        return [parsed(text) for text in _record_texts(study.get_trials(deepcopy=False))]

    def records_of(self, beside: str) -> list[TrialRecord]:
        """The records of another study beside the search; none where there is no such study."""
        names = {study.study_name: study._study_id for study in self.storage.get_all_studies()}
        if beside not in names:
            return []
        return [parsed(text) for text in _record_texts(self.storage.get_all_trials(names[beside], deepcopy=False))]

    def untold(self, *, confirm: bool = False) -> list[TrialRecord]:
        """The records of trials that were never closed: without a verdict, or killed just before they were told."""
        study = self._confirm if confirm else self._search
        running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        return [parsed(text) for text in _record_texts(running)]

    def leads(self) -> bool:
        """Whether this process measures the study's baseline: always, it is alone."""
        return True

    def closed(self, number: int, *, confirm: bool = False) -> TrialRecord | None:
        """The record of a trial that was closed; None while it is open."""
        trial = (self._confirm if confirm else self._search).get_trials(deepcopy=False)[number]
        return parsed(trial.user_attrs[RECORD]) if trial.state.is_finished() and RECORD in trial.user_attrs else None

    def drop_unrecorded(self, is_abandoned: Callable[[bool, int], bool] = lambda *_: True) -> None:
        """Puts back what was asked but killed before its record was written, and closes it.

        `is_abandoned` tells from whether it is a re-measurement, and from its number, whether nobody will write one.
        """
        for trial in self._search.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            if RECORD not in trial.user_attrs and is_abandoned(False, trial.number):
                self._enqueue_again(trial)
                self._search.tell(trial.number, state=TrialState.FAIL)
        for trial in self._confirm.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            if RECORD not in trial.user_attrs and is_abandoned(True, trial.number):
                self._confirm.tell(trial.number, state=TrialState.FAIL)

    def _enqueue_again(self, trial: FrozenTrial) -> None:
        """Puts a trial's configuration in the queue once more, whole: a kill can leave only some of its `params`."""
        values = trial.system_attrs.get("fixed_params", trial.params)
        self._search.enqueue_trial(values, user_attrs={_ORIGIN: trial.user_attrs.get(_ORIGIN)})

    def _trial(self, number: int, confirm: bool) -> Trial:
        """The open trial with this number, also one that an earlier process asked for."""
        study = self._confirm if confirm else self._search
        if not confirm and number in self._asked:
            return self._asked[number]
        return Trial(study, study.get_trials(deepcopy=False)[number]._trial_id)


def _says_something(record: TrialRecord) -> bool:
    """Whether a trial, open or closed, makes its configuration known. An interrupted one does not."""
    return record.verdict is None or record.verdict.outcome is not Outcome.INTERRUPTED


def _took_the_machine_down(record: TrialRecord) -> bool:
    return record.verdict is not None and record.verdict.outcome is Outcome.HOST_CRASH


def _is_near(configuration: Configuration, crashed: Iterable[Configuration]) -> bool:
    """Whether it differs in a single value from one that took the machine down: not worth another night's end."""
    return any(len(configuration.differences_from(one.values)) <= 1 for one in crashed)


def _is_measured(record: TrialRecord) -> bool:
    return record.verdict is not None and record.verdict.outcome is Outcome.OK


def _set_constraints(trial: Trial, missed: Mapping[str, float]) -> None:
    with warnings.catch_warnings():
        # A trial that is told again after a kill has some of them already, and Optuna keeps those.
        warnings.simplefilter("ignore")
        for name in CONSTRAINTS:
            trial.set_constraint(name, missed.get(name, 0.0))


def _in_order(trial: FrozenTrial) -> FrozenTrial:
    """The trial with its constraints in the order of `CONSTRAINTS`: a database server tells them in any order, and
    samplers tell them apart by their place.
    """
    known = trial.constraints
    return optuna.trial.create_trial(
        state=trial.state,
        values=trial.values,
        params=trial.params,
        distributions=trial.distributions,
        user_attrs=trial.user_attrs,
        constraints={name: known[name] for name in CONSTRAINTS if name in known},
    )


def _open(storage: optuna.storages.BaseStorage, name: str, objectives: int) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    logging.getLogger("alembic").setLevel(logging.ERROR)
    return optuna.create_study(
        storage=storage, study_name=name, directions=[StudyDirection.MAXIMIZE] * objectives, load_if_exists=True
    )


def _record_texts(trials: Iterable[FrozenTrial]) -> list[str]:
    return [trial.user_attrs[RECORD] for trial in trials if RECORD in trial.user_attrs]
