"""The address of a shared storage keeps its password to itself; what breaks a connection is told from the rest."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import optuna
import pytest
from sqlalchemy import exc

from tuner.domain.errors import BadInput, MissingFile, NotPermitted
from tuner.search import shared_storage
from tuner.search.shared_storage import Patience, connect, has_secret, is_away, parse_url, public_form, shared_errors

SECRET = "hu/sh@42"
QUOTED = "hu%2Fsh%4042"


@pytest.mark.parametrize(
    ("address", "public"),
    [
        (f"postgresql://me:{QUOTED}@db/night", "postgresql://me@db/night"),
        (f"postgresql+psycopg://me:{QUOTED}@db:5433/night", "postgresql+psycopg://me@db:5433/night"),
        (f"postgresql://me@db/night?password={QUOTED}&sslmode=require", "postgresql://me@db/night?sslmode=require"),
        (f"postgresql://db/night?sslpassword={QUOTED}", "postgresql://db/night"),
        ("mysql+pymysql://me@db/night", "mysql+pymysql://me@db/night"),
    ],
)
def test_the_public_form_is_the_address_without_its_secrets(address: str, public: str) -> None:
    assert public_form(address) == public
    assert public_form(public) == public
    assert not has_secret(public)
    assert has_secret(address) == (QUOTED in address)


@pytest.mark.parametrize(
    "wrong",
    [f"{SECRET}", f"postgresql://me:{SECRET}@db/night", "sqlite:///x.db", f"postgresql://me:{QUOTED}@db:port/x"],
)
def test_what_is_no_address_is_refused_without_being_repeated(wrong: str) -> None:
    with pytest.raises(BadInput) as told:
        parse_url(wrong)
    for part in (SECRET, "sh@42", QUOTED):
        assert part not in str(told.value)
    assert "postgresql://" in str(told.value)


def test_errors_are_told_without_the_password() -> None:
    address = f"postgresql://me:{QUOTED}@db/night"
    with pytest.raises(NotPermitted) as told, shared_errors(address):
        raise exc.OperationalError("SELECT", {}, Exception(f"no such host {SECRET}, said the driver"))
    assert SECRET not in str(told.value)
    assert "no such host ***" in str(told.value)
    assert "postgresql://me@db/night" in str(told.value)
    assert told.value.__cause__ is None


def test_a_database_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "psycopg":
            raise ImportError(name)
        return real(name, *rest, **more)

    for name in [name for name in sys.modules if name.partition(".")[0] == "psycopg"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingFile, match="not installed") as told:
        connect("postgresql://me@localhost/night")
    assert "[postgresql]" in str(told.value)


def away() -> Exception:
    error = optuna.exceptions.StorageInternalError("commit")
    error.__cause__ = exc.OperationalError("INSERT", {}, Exception("server closed the connection unexpectedly"))
    return error


def wrong() -> Exception:
    error = optuna.exceptions.StorageInternalError("commit")
    error.__cause__ = exc.DataError("INSERT", {}, Exception("value too long"))
    return error


def test_only_what_may_pass_is_waited_for() -> None:
    assert is_away(away())
    assert is_away(exc.InterfaceError("SELECT", {}, Exception("connection already closed")))
    assert not is_away(wrong())
    assert not is_away(exc.IntegrityError("INSERT", {}, Exception("duplicate key")))
    assert not is_away(ValueError("x"))


def test_while_the_storage_is_away_it_is_tried_again_and_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(shared_storage.time, "sleep", waits.append)
    notes: list[str] = []
    answers: list[Exception | int] = [away(), away(), away(), away(), away(), away(), away(), 7]

    def what() -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert Patience("postgresql://me@db/night", notes.append, None)(what) == 7
    assert waits == [1, 2, 4, 8, 16, 30, 30]
    assert len(notes) == 2
    assert "paused" in notes[0]
    assert "back" in notes[1]


def test_a_run_that_must_end_does_not_wait_any_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_storage.time, "sleep", lambda _: None)

    def what() -> None:
        raise away()

    with pytest.raises(NotPermitted, match="server closed"):
        Patience("postgresql://me@db/night", lambda _: None, 1.0)(what)


def test_what_is_wrong_is_no_reason_to_wait() -> None:
    def what() -> None:
        raise wrong()

    with pytest.raises(NotPermitted, match="value too long"):
        Patience("postgresql://me@db/night", lambda _: None, None)(what)
