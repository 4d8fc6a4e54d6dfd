"""A study from somewhere else: nothing of it runs before somebody has seen what that would be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from tests.bench import FAKE, Bench

WITNESS = '#!/bin/sh\ntouch {place}\nexec {fake} "$@"\n'


@pytest.fixture
def received(bench: Bench, tmp_path: Path) -> tuple[Bench, Path]:
    """A study that somebody else made, whose program leaves a trace when it runs."""
    trace = tmp_path / "it-ran"
    program = bench.file("their-server", WITNESS.format(place=trace, fake=FAKE))
    program.chmod(0o755)
    made = ["init", "--model", str(bench.model), "--binary", str(program), "--env", "LD_LIBRARY_PATH=/theirs"]
    assert bench.tuner(*made, "--name", "theirs").code == 0
    bench.study("theirs").rename(bench.study())
    trace.unlink()
    return bench, trace


@pytest.mark.parametrize("command", [("run", "s"), ("resume",), ("doctor", "s")])
def test_without_anybody_to_ask_it_says_what_it_would_run_and_runs_nothing(
    received: tuple[Bench, Path], command: tuple[str, ...]
) -> None:
    bench, trace = received
    said = bench.tuner(*command)
    assert said.code == 2
    assert "--trust" in said.err
    for told in ("their-server", "LD_LIBRARY_PATH=/theirs", "tiny.gguf", "made by"):
        assert told in said.out
    assert not trace.exists()


def test_what_only_reads_asks_nothing(received: tuple[Bench, Path]) -> None:
    bench, trace = received
    assert "nothing yet" in bench.tuner("status", "s").out
    assert "no measured baseline" in bench.tuner("best", "s").err
    assert not trace.exists()


def test_a_study_is_trusted_once_and_stays_so(received: tuple[Bench, Path]) -> None:
    bench, trace = received
    assert bench.tuner("doctor", "s", "--trust").code == 0
    assert trace.exists()
    said = bench.tuner("doctor", "s")
    assert said.code == 0, said.err
    assert "was made by" not in said.out


def test_verifying_a_finished_study_from_elsewhere_asks_as_well(bench: Bench) -> None:
    assert bench.tuner(*bench.quick("--trials", "2", "--confirm-rounds", "2")).code == 0
    bench.study().rename(bench.study("moved"))
    said = bench.tuner("verify", "moved")
    assert said.code == 2
    assert "--trust" in said.err
    assert "program" in said.out
    assert not list((bench.study("moved") / "trials").glob("verify-*"))
    assert bench.tuner("verify", "moved", "--trust", "--rounds", "2").code == 0


@pytest.mark.parametrize("answer", [True, False])
def test_somebody_at_a_terminal_is_asked(
    received: tuple[Bench, Path], answer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, trace = received

    def confirm(_: str, *, abort: bool) -> None:
        if abort and not answer:
            raise typer.Abort

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(typer, "confirm", confirm)
    assert bench.tuner("doctor", "s").code == (0 if answer else 130)
    assert trace.exists() is answer


@pytest.mark.parametrize("forged", ["copied", "claimed", "broken", "gone"])
def test_a_folder_cannot_say_of_itself_that_it_may_run(received: tuple[Bench, Path], forged: str) -> None:
    bench, trace = received
    seal = bench.study() / "origin.json"
    content = json.loads(seal.read_text())
    if forged == "claimed":
        seal.write_text(json.dumps({**content, "made_by": "you@here", "seal": "0" * 64}))
    elif forged == "broken":
        seal.write_text("[]")
    elif forged == "gone":
        seal.unlink()
    assert bench.tuner("run", "s").code == 2
    assert not trace.exists()


def test_an_own_study_can_be_edited_before_it_runs(bench: Bench) -> None:
    assert bench.tuner("init", "--model", str(bench.model), "--binary", str(FAKE), "--name", "s").code == 0
    definition = bench.study() / "study.toml"
    definition.write_text(definition.read_text().replace("# trials =", "trials = 1"))
    assert bench.tuner("doctor", "s").code == 0


def test_another_user_has_another_key(bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert bench.tuner("init", "--model", str(bench.model), "--binary", str(FAKE), "--name", "s").code == 0
    key = tmp_path / "state" / "key"
    assert key.stat().st_mode & 0o077 == 0
    monkeypatch.setenv("TUNER_STATE", str(tmp_path / "elsewhere"))
    assert bench.tuner("doctor", "s").code == 2


def test_frozen_json_cannot_name_a_program_that_study_toml_does_not(bench: Bench, tmp_path: Path) -> None:
    trace = tmp_path / "it-ran"
    program = bench.file("other", WITNESS.format(place=trace, fake=FAKE))
    program.chmod(0o755)
    second = bench.file("second", f'#!/bin/sh\nexec {FAKE} "$@"\n')
    second.chmod(0o755)
    words = bench.quick("--trials", "1", "--confirm-rounds", "2", "--binary", str(second))
    assert bench.tuner(*words).code == 0
    frozen = bench.study() / "frozen.json"
    content = json.loads(frozen.read_text())
    (parameter,) = [one for one in content["space"]["parameters"] if one["target"] == "binary"]
    parameter["choices"] = [str(program)]
    parameter["default"] = str(program)
    frozen.write_text(json.dumps(content))
    said = bench.tuner("run", "s", "--trials", "3")
    assert said.code == 2
    assert "names a program that study.toml does not" in said.err
    assert not trace.exists()
