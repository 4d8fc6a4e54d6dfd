"""`tuner compare` at the command line: names and paths, forms, and what cannot be compared."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.bench import ROOT, Bench

SAMPLE = ROOT / "studies" / "sample-quickstart"


@pytest.fixture
def pair(bench: Bench) -> Bench:
    for name in ("one", "other"):
        shutil.copytree(SAMPLE, bench.studies / name)
    return bench


def test_a_study_and_its_copy_cannot_be_told_apart(pair: Bench) -> None:
    said = pair.tuner("compare", "one", "other")
    assert said.code == 0, said.err
    assert "chat: no measurable difference between one and other" in said.out
    assert "decode prose-en @384" in said.out
    assert "note      the studies were not launched in turn" in said.out


def test_a_folder_from_another_place_is_named_by_its_path(pair: Bench, tmp_path: Path) -> None:
    elsewhere = tmp_path / "copied" / "one"
    shutil.copytree(SAMPLE, elsewhere)
    said = pair.tuner("compare", "one", str(elsewhere), "--profile", "chat", "--json")
    assert said.code == 0, said.err
    told = json.loads(said.out)
    assert [study["name"] for study in told["studies"]] == ["one", str(elsewhere)]
    assert [compared["name"] for compared in told["profiles"]] == ["chat"]
    # How often the kept study warmed up is read from its request lines.
    assert not any("warm-ups" in line for line in told["differences"])


@pytest.mark.parametrize(("form", "begins"), [("--markdown", "- **one**: llama_server"), ("--csv", "profiles,metric,")])
def test_other_forms(pair: Bench, form: str, begins: str) -> None:
    said = pair.tuner("compare", "one", "other", form)
    assert said.code == 0, said.err
    assert said.out.startswith(begins)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("one",), "One study alone is no comparison"),
        (("one", "one"), "One study alone is no comparison"),
        (("one", "lost"), "There is no study `lost`"),
        (("one", "other", "--profile", "lost"), "None of the studies has a profile `lost`"),
        (("one", "other", "--json", "--csv"), "--json and --csv exclude each other"),
    ],
)
def test_mistakes_are_told_with_what_to_do(pair: Bench, words: tuple[str, ...], told: str) -> None:
    said = pair.tuner("compare", *words)
    assert said.code == 2
    assert told in said.err
    assert "try:" in said.err


def test_a_study_that_has_measured_nothing_is_named(pair: Bench) -> None:
    assert pair.tuner("init", "--model", str(pair.model), "--name", "empty").code == 0
    said = pair.tuner("compare", "one", "empty")
    assert (said.code, "empty has no measured baseline yet" in said.err) == (2, True)
