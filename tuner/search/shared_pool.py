"""A pool of trials in a storage that several machines share: each is a worker that may be cut off or die."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import optuna

from tuner.domain.configuration import Configuration, Value
from tuner.domain.record import Owner, TrialRecord
from tuner.domain.space import SearchSpace
from tuner.search import shared_storage
from tuner.search.pool import Proposal, TrialPool
from tuner.search.samplers import SamplerFactory
from tuner.search.shared_storage import Patience, connect
from tuner.search.workers import Workers, founding_text, living, open_study


class SharedPool:
    """Fits `tuner.study.protocols.Pool`. A context manager: while it is entered, this process is a worker.

    While the storage is away every method waits. What an earlier attempt may have left half done is what a kill may
    leave, and is settled like that.
    """

    def __init__(
        self,
        storage: optuna.storages.RDBStorage,
        name: str,
        space: SearchSpace,
        workers: Workers,
        patience: Patience,
        sampler: SamplerFactory,
    ) -> None:
        self._patient = patience
        self._workers = workers
        self._pool = patience(lambda: TrialPool(storage, name, space, sampler, prefix=f"{name}/"))
        self._unrecorded_since: dict[tuple[bool, int], float] = {}
        self._held = ExitStack()

    def __enter__(self) -> Self:
        self._patient(lambda: self._held.enter_context(self._workers))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._held.close()

    def leads(self) -> bool:
        """Whether this worker measures the study's baseline."""
        return self._patient(self._workers.is_first)

    def enqueue(self, values: dict[str, Value], origin: str) -> None:
        """As `TrialPool.enqueue`."""
        self._patient(lambda: self._pool.enqueue(values, origin))

    def origins(self) -> set[str]:
        """As `TrialPool.origins`."""
        return self._patient(self._pool.origins)

    def ask(self) -> Proposal | None:
        """As `TrialPool.ask`; of two workers that ask at the same time no two get the same."""
        return self._patient(self._pool.ask)

    def open_confirmation(self) -> int:
        """As `TrialPool.open_confirmation`."""
        return self._patient(self._pool.open_confirmation)

    def open_beside(self, configuration: Configuration) -> int:
        """As `TrialPool.open_beside`."""
        return self._patient(lambda: self._pool.open_beside(configuration))

    def save(self, record: TrialRecord, *, confirm: bool = False) -> None:
        """As `TrialPool.save`."""
        self._patient(lambda: self._pool.save(record, confirm=confirm))

    def tell(
        self, record: TrialRecord, objectives: tuple[float, float, float] | None, *, confirm: bool = False
    ) -> None:
        """As `TrialPool.tell`. What was taken over meanwhile is another worker's: its outcome stays."""
        try:
            self._patient(lambda: self._pool.tell(record, objectives, confirm=confirm))
        except (optuna.exceptions.UpdateFinishedTrialError, ValueError):
            stored = self._patient(lambda: self._pool.closed(record.number, confirm=confirm))
            if stored is None:
                raise
            # It may be our own word, of which only the answer was lost.
            if stored != record:
                self._patient.note(
                    f"trial {record.folder} was taken over while this machine was cut off; "
                    "its files stay here, its figures do not count"
                )

    def records(self, *, confirm: bool = False) -> list[TrialRecord]:
        """As `TrialPool.records`."""
        return self._patient(lambda: self._pool.records(confirm=confirm))

    def untold(self, *, confirm: bool = False) -> list[TrialRecord]:
        """The records of trials that were never closed, and that no living worker can close."""
        self._patient(self._workers.look)
        found = self._patient(lambda: self._pool.untold(confirm=confirm))
        return [record for record in found if not self._is_alive(record.owner)]

    def drop_unrecorded(self) -> None:
        """As `TrialPool.drop_unrecorded`, of what stayed without a record for as long as makes a worker dead."""
        self._patient(lambda: self._pool.drop_unrecorded(self._is_abandoned))

    def _is_alive(self, owner: Owner) -> bool:
        return self._patient(lambda: self._workers.is_alive(owner))

    def _is_abandoned(self, confirm: bool, number: int) -> bool:
        # By how long it was seen so, since clocks of machines differ.
        now = time.monotonic()
        return now - self._unrecorded_since.setdefault((confirm, number), now) >= shared_storage.GRACE_S


def founding_of(address: str, name: str) -> str | None:
    """What the study `name` of a storage was resolved to, as JSON; None where there is no such study.

    Raises:
        BadInput, MissingFile, NotPermitted: the storage cannot be reached.
    """
    storage = connect(address)
    with shared_storage.shared_errors(address):
        names = {summary.study_name for summary in optuna.get_all_study_summaries(storage, include_best_trial=False)}
        return founding_text(open_study(storage, name)) if f"{name}/workers" in names else None


class SharedStudy:
    """A connection to a shared storage.

    Args:
        address: with its password.
        name: of the study.
        note: takes what is to be told while the storage is away.
        until: when to give up waiting for it, in seconds since the epoch; None: never.
    """

    def __init__(self, address: str, name: str, note: Callable[[str], None], until: float | None = None) -> None:
        self._storage = connect(address)
        self._name = name
        self._patience = Patience(address, note, until)

    def workers(self, owner: Owner, process_alive: Callable[[Owner], bool]) -> Workers:
        """This process among the study's workers, not yet joined."""
        return self._patience(lambda: Workers(self._storage, self._name, owner, process_alive))

    def founded(self, workers: Workers, text: str) -> str:
        """As `Workers.founded`."""
        return self._patience(lambda: workers.founded(text))

    def pool(self, space: SearchSpace, workers: Workers, sampler: SamplerFactory) -> SharedPool:
        """The study's pool for a worker."""
        return SharedPool(self._storage, self._name, space, workers, self._patience, sampler)

    def read(self, space: SearchSpace) -> tuple[list[TrialRecord], list[TrialRecord], list[Owner]]:
        """All records of search and confirm stage, and who is at work. Nothing is changed."""
        pool = TrialPool(self._storage, self._name, space, prefix=f"{self._name}/")
        return pool.records(), pool.records(confirm=True), living(open_study(self._storage, self._name))
