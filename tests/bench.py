"""A place to run whole studies in: a model, the fake engine, a folder of studies, and the real command line.

What a study left is read with SQLite and psutil alone, so that a mistake of the tuner cannot hide itself.
"""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests.fake_engine.tiny_gguf import write_tiny_gguf
from tuner import wiring
from tuner.cli.app import main
from tuner.domain.record import TrialRecord
from tuner.store.folder import StudyFolder
from tuner.study import settle

ROOT = Path(__file__).resolve().parent.parent
FAKE = ROOT / "tests" / "fake_engine" / "llama_server.py"
RIGS = ROOT / "tests" / "rigs"
PATIENCE_S = 60

QUICK_PROFILES = """
schema_version = 1
[profiles.quick]
prefill = 0.3
decode = 0.7
contents = { code = 1.0 }
depths = { shallow = 1.0 }
least_context = 4096
"""
"""One profile with one cell: a launch takes no longer than its start."""


@dataclass(frozen=True)
class Said:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


@dataclass
class Bench:
    """Runs the tuner in this process (`tuner`) or as its own (`start`), against the fake engine."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def model(self) -> Path:
        return self.folder / "tiny.gguf"

    @property
    def studies(self) -> Path:
        return self.folder / "studies"

    def quick(self, *more: str) -> list[str]:
        """`tuner run` of a new study that measures as little as possible."""
        profiles = self.file("quick.toml", QUICK_PROFILES)
        return [
            "run", "--model", str(self.model), "--binary", str(FAKE), "--profiles", str(profiles), "--profile", "quick",
            "--depths", "64", "--predict-tokens", "8", "--name", "s", "--no-trim", *more,
        ]  # fmt: skip

    def file(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def rig(self, name: str) -> None:
        self.monkeypatch.setenv("FAKE_RIG", str(RIGS / f"{name}.toml"))

    def tuner(self, *words: str) -> Said:
        """The command in this process. What would be a traceback for a user is an exception here."""
        code = 0
        out, err = io.StringIO(), io.StringIO()
        with _handlers_kept(), redirect_stdout(out), redirect_stderr(err):
            try:
                main(list(words))
            except SystemExit as ended:
                code = int(ended.code or 0)
        return Said(code, out.getvalue(), err.getvalue())

    def start(self, *words: str, prelude: str = "", **env: str) -> subprocess.Popen[str]:
        """The command as a program of its own, in a session of its own. `prelude` is Python that runs before it."""
        process = subprocess.Popen(
            [sys.executable, "-c", f"{prelude}\nfrom tuner.cli.app import main; main()", *words],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def make_own(self, name: str = "s") -> None:
        """Seals a study that was copied to this bench."""
        wiring.origin(StudyFolder(self.study(name))).seal("the tests")

    # ---- what a study left --------------------------------------------------------------------------------------

    def study(self, name: str = "s") -> Path:
        return self.studies / name

    def frozen(self, name: str = "s") -> dict[str, object]:
        content: dict[str, object] = json.loads((self.study(name) / "frozen.json").read_text())
        return content

    def raw_records(self, stage: str = "search", name: str = "s") -> dict[int, str]:
        """Trial number -> its record, as it lies in the storage."""
        database = self.study(name) / "study.db"
        if not database.is_file():
            return {}
        query = (
            "SELECT trials.number, a.value_json FROM trials "
            "JOIN studies ON studies.study_id = trials.study_id "
            "JOIN trial_user_attributes a ON a.trial_id = trials.trial_id "
            "WHERE studies.study_name = ? AND a.key = 'record' ORDER BY trials.number"
        )
        with closing(sqlite3.connect(database, timeout=30)) as connection:
            try:
                rows = connection.execute(query, (stage,)).fetchall()
            except sqlite3.OperationalError:  # Killed before its tables were made.
                return {}
        return {number: json.loads(text) for number, text in rows}

    def records(self, stage: str = "search", name: str = "s") -> list[TrialRecord]:
        return [TrialRecord.model_validate_json(text) for text in self.raw_records(stage, name).values()]

    def engines(self) -> list[psutil.Process]:
        """Every living process of any engine that a study of this bench started."""
        found, ids = [], []
        for path in self.studies.glob("*/frozen.json"):
            with suppress(ValueError, KeyError):  # Some tests damage it.
                ids.append(json.loads(path.read_text())["study_id"])
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                marker = process.environ().get("TUNER_MARKER", "")
                if marker.split("/")[0] in ids and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def assert_nothing_left(self) -> None:
        """No engine process, and nobody listens where one did."""
        assert self.engines() == []
        for record in [*self.records(), *self.records("confirm")]:
            assert record.launched is not None
            argv = record.launched.argv
            port = int(argv[argv.index("--port") + 1])
            with socket.socket() as probe:
                assert probe.connect_ex(("127.0.0.1", port)) != 0, f"port {port} is still served"

    def wait_for(self, what: Callable[[], object], of: subprocess.Popen[str] | None = None) -> None:
        """Until it holds; fails when the program `of` ends first."""
        deadline = time.monotonic() + PATIENCE_S
        while not what():
            assert time.monotonic() < deadline, "it never came"
            if of is not None and of.poll() is not None:
                out, err = of.communicate()
                raise AssertionError(f"ended with {of.returncode} before: {out}\n{err}")
            time.sleep(0.02)


def configurations(records: Sequence[TrialRecord]) -> list[str]:
    """The fingerprints of what was really measured: interrupted launches say nothing and are launched again."""
    return [
        record.configuration.fingerprint
        for record in records
        if record.verdict is not None and record.verdict.outcome.value != "INTERRUPTED"
    ]


@contextmanager
def _handlers_kept() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers: Mapping[int, object] = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with an MTP layer, so that every kind of speculation can be tuned."""
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    return write_tiny_gguf(path, arch="qwen35", layers=4, embd=64, mtp=1, context=131072)


@pytest.fixture
def bench(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    with bench_in(tmp_path, tiny_model, monkeypatch) as made:
        yield made


@contextmanager
def bench_in(folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A bench in a folder. Afterwards nothing that it started may be left."""
    for name in list(os.environ):
        if name.startswith(("FAKE_", "TUNER_", "LLAMA_ARG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("FAKE_RIG", str(RIGS / "default.toml"))
    monkeypatch.setenv("FAKE_TIME_SCALE", "0.0002")
    # Studies of other tests on this machine are no rivals.
    monkeypatch.setenv("TUNER_STATE", str(folder / "state"))
    # What `env python3` finds may be a slow launcher of its own.
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    monkeypatch.setattr(settle, "_PAUSE_AFTER_CRASH_S", 0.0)
    monkeypatch.chdir(folder)
    (folder / "tiny.gguf").symlink_to(model)
    made = Bench(folder, monkeypatch)
    yield made
    for process in made.started:
        if process.poll() is None:
            process.kill()
        process.communicate()
    left = made.engines()
    for process in left:
        with suppress(psutil.Error):
            process.kill()
    assert not left, "engines were left behind"
