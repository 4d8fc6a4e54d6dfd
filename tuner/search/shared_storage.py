"""A storage that several machines share: its address, how it is connected to, and what to do while it is away.

The address may hold a password. It stays in memory: files, logs and messages get the address without it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import optuna
import sqlalchemy
from sqlalchemy import exc
from sqlalchemy.engine import URL, make_url

from tuner.domain.errors import BadInput, MissingFile, NotPermitted

HEARTBEAT_S = 15
"""So often a worker says that it is alive."""
GRACE_S = 600
"""A worker that was silent for so long is taken for dead, and its open trial is asked again. Longer than a router takes
to start anew: a machine that is merely cut off keeps the measurement that it is making."""
_CONNECT_S = 10
_ATTEMPTS = 10
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 30.0
_SECRETS = ("password", "sslpassword")
"""Of the query; beside the password in front of the host."""
_AWAY = (exc.OperationalError, exc.InterfaceError, exc.InternalError, exc.PendingRollbackError)
"""What a connection that broke shows as, also one that the server ended because nothing came any more."""

Result = TypeVar("Result")


def parse_url(text: str) -> URL:
    """The address of a storage.

    Raises:
        BadInput: it is none; what was written is not told, since there may be a password in it.
    """
    advice = "write it like postgresql://user@host/database; a password in it needs its @ : / as %40 %3A %2F"
    try:
        url = make_url(text)
    except (exc.ArgumentError, ValueError):  # The latter for a port that is no number.
        raise BadInput("--storage is no address of a storage", advice=advice) from None
    if text.partition("://")[2].partition("?")[0].count("@") > 1:
        raise BadInput("--storage has more than one @ before its database", advice=advice)
    if url.get_backend_name() == "sqlite":
        raise BadInput(
            "--storage names an SQLite file, which several machines cannot share safely",
            advice="leave --storage out: a study of one machine has its own file; for several use postgresql://",
        )
    return url


def public_form(text: str) -> str:
    """The address without any password. Raises BadInput as `parse_url`."""
    return _public(parse_url(text)).render_as_string(hide_password=False)


def has_secret(text: str) -> bool:
    """Whether an address holds a password. Raises BadInput as `parse_url`."""
    url = parse_url(text)
    return url.password is not None or any(name in url.query for name in _SECRETS)


def connect(text: str) -> optuna.storages.RDBStorage:
    """The storage at an address, with heartbeats; its tables are made if they are not there.

    Raises:
        BadInput: the address is none.
        MissingFile: the package that speaks to such a database is not installed.
        NotPermitted: it cannot be reached, or lets nobody in.
    """
    url = parse_url(text)
    arguments: dict[str, Any] = {}
    if url.get_backend_name() in ("postgresql", "postgres"):
        if url.drivername in ("postgresql", "postgres"):
            # SQLAlchemy 2.0 would take the driver's older edition.
            url = url.set(drivername="postgresql+psycopg")
        # See libpq, "Parameter Key Words": a cable that was pulled shows within half a minute.
        arguments = {
            "connect_timeout": _CONNECT_S, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3,
            "tcp_user_timeout": 30_000, "application_name": "llm-engine-tuner",
        }  # fmt: skip
    with warnings.catch_warnings(), shared_errors(text):
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        try:
            storage = _opened(url, {"pool_pre_ping": True, "connect_args": arguments})
        except (ImportError, exc.NoSuchModuleError) as error:
            raise MissingFile(
                f"The package for {url.get_backend_name()} is not installed",
                advice="pip install 'llm-engine-tuner[postgresql]'; other databases need their SQLAlchemy driver",
            ) from error
        if arguments:
            sqlalchemy.event.listen(storage.engine, "connect", _end_what_hangs)
            storage.engine.dispose()
    return storage


def _opened(url: URL, engine_kwargs: dict[str, Any]) -> optuna.storages.RDBStorage:
    """The storage. Of several machines that begin together only one can make the tables: the others try again."""
    for attempt in range(_ATTEMPTS):
        try:
            return optuna.storages.RDBStorage(
                # Optuna reads braces in a text as a template.
                url.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}"),
                engine_kwargs=engine_kwargs,
                heartbeat_interval=HEARTBEAT_S,
                grace_period=GRACE_S,
            )
        except (exc.ProgrammingError, exc.IntegrityError):
            if attempt == _ATTEMPTS - 1:
                raise
            time.sleep(0.5)
    raise AssertionError


def _end_what_hangs(connection: Any, _: object) -> None:
    """Has the server end a transaction whose machine was cut off in the middle: its locks would stop all others."""
    with connection.cursor() as cursor:
        cursor.execute("SET idle_in_transaction_session_timeout = 30000")
    connection.commit()


@contextmanager
def shared_errors(text: str) -> Iterator[None]:
    """Tells what fails in the shared storage as an error for the user, without any password.

    Raises:
        NotPermitted: it cannot be reached or used now.
    """
    try:
        yield
    except (exc.SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        raise NotPermitted(
            f"The shared storage cannot be used: {_told(error, text)}",
            where=public_form(text),
            advice="look at the address, the network and the server; a password comes from TUNER_STORAGE or ~/.pgpass",
        ) from None


class Patience:
    """Tries again while the storage is away: the study pauses, and goes on when it is back.

    Args:
        text: the address.
        note: takes what is to be told.
        until: when to give up, in seconds since the epoch; None: never.
    """

    def __init__(self, text: str, note: Callable[[str], None], until: float | None) -> None:
        self._text = text
        self.note = note
        self._until = until

    def __call__(self, what: Callable[[], Result]) -> Result:
        """The result of `what`, which may be called several times.

        Raises:
            NotPermitted: the storage was away until the run had to end.
        """
        wait_s, told = _FIRST_WAIT_S, False
        while True:
            try:
                result = what()
            except (exc.SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
                if not is_away(error) or (self._until is not None and time.time() + wait_s > self._until):
                    with shared_errors(self._text):
                        raise
                if not told:
                    self.note(f"paused: the shared storage is away ({_told(error, self._text)}); tried again")
                    told = True
                time.sleep(wait_s)
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
            else:
                if told:
                    self.note("the shared storage is back")
                return result


def is_away(error: BaseException) -> bool:
    """Whether an error says that the storage cannot be reached now, and not that something is wrong with a request."""
    return isinstance(_root(error, exc.SQLAlchemyError), _AWAY)


def _root(error: BaseException, kind: type[BaseException]) -> BaseException:
    while not isinstance(error, kind) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _told(error: BaseException, text: str) -> str:
    """The last cause's first line, without the secrets of the address."""
    while error.__cause__ is not None:
        error = error.__cause__
    told = next(iter(str(error).strip().splitlines()), type(error).__name__)
    url = parse_url(text)
    for secret in (url.password, *(url.query.get(name) for name in _SECRETS)):
        for one in (secret,) if isinstance(secret, str) else secret or ():
            told = told.replace(one, "***") if one else told
    return told


def _public(url: URL) -> URL:
    bare = URL.create(
        url.drivername, username=url.username, host=url.host, port=url.port, database=url.database, query=url.query
    )
    return bare.difference_update_query(_SECRETS)
