"""What goes wrong in an engine becomes a verdict: with its reason, and the study goes on, and nothing is left."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench import FAKE, QUICK_PROFILES, Bench, bench_in
from tuner.domain.record import TrialRecord
from tuner.domain.verdict import Outcome
from tuner.process import engine_process
from tuner.study import run_study, run_trial, start
from tuner.workload import patience

FAULTS: dict[str, tuple[Outcome, str]] = {
    "oom_load": (Outcome.OUT_OF_MEMORY, "memory"),
    "oom_midprompt@500": (Outcome.OUT_OF_MEMORY, "in cell code@512"),
    "crash_load": (Outcome.CRASHED, "n_embd_head_k"),
    "crash_request": (Outcome.CRASHED, "in cell warm-up"),
    "sigill": (Outcome.CRASHED, ""),
    "segv@request": (Outcome.CRASHED, "in cell warm-up"),
    "killed": (Outcome.OUT_OF_MEMORY, ""),
    "http500": (Outcome.CRASHED, "Compute error"),
    "cut_context": (Outcome.DEGRADED, "tokens of context"),
    "no_speculation": (Outcome.DEGRADED, "speculation"),
    "hang_load": (Outcome.START_TIMEOUT, "not ready"),
    "hang_request": (Outcome.STALLED, "never began to answer in cell warm-up"),
    "stall_midstream@5": (Outcome.STALLED, "fell silent"),
    "slow_deep@1000": (Outcome.DEGRADED, "in code@1024 is"),
    "attention_on_cpu": (Outcome.DEGRADED, "pieces"),
    "other_kv_types": (Outcome.DEGRADED, "asked for a KV cache of f16/f16, runs with f32/f16"),
    # Hopeless, and so not measured to its end; slow as it is, it is what was asked for.
    "slow": (Outcome.OK, "cut short after 1 cells"),
    # How an engine ends says nothing about how it ran.
    "ignore_sigterm": (Outcome.OK, ""),
    "grandchild": (Outcome.OK, ""),
}
"""What each fault of the fake engine is to be called, and what its reason must tell."""

SPACE = """
schema_version = 1
engine = "llama_server"
[parameters.ctx_size]
kind = "context"
flag = "--ctx-size"
about = "Context."
[parameters.parallel]
flag = "--parallel"
choices = [1]
default = 1
about = "Slots."
[parameters.spec_type]
flag = "--spec-type"
choices = ["none", "draft-mtp"]
default = "none"
about = "Speculation."
[parameters.cache_type_k]
flag = "--cache-type-k"
choices = ["f16"]
default = "f16"
about = "Keys."
[parameters.cache_type_v]
flag = "--cache-type-v"
choices = ["f16"]
default = "f16"
about = "Values."
[parameters.batch_size]
flag = "--batch-size"
low = 2048
high = 2100
default = 2048
about = "Tells the seeds apart."
"""
BOTH = "0.5, deep = 0.5 }\nleast"
"""Cells at two depths instead of one."""
SEED = """
[[seeds]]
name = "meets {fault}"
because = "a test"
values = {{ batch_size = {mark}, spec_type = "draft-mtp" }}
"""


@pytest.fixture(scope="module")
def faulty(
    tmp_path_factory: pytest.TempPathFactory, tiny_model: Path
) -> Iterator[tuple[Bench, dict[str, TrialRecord]]]:
    """One study in which every seed but the last meets another fault. Fault -> its record."""
    with (
        pytest.MonkeyPatch.context() as monkeypatch,
        bench_in(tmp_path_factory.mktemp("faulty"), tiny_model, monkeypatch) as bench,
    ):
        monkeypatch.setattr(patience, "_SILENCE_S", 0.5)
        monkeypatch.setattr(patience, "_LEAST_PREFILL_TPS", 1000)
        monkeypatch.setattr(patience, "_STALL_S", 0.5)
        monkeypatch.setattr(start, "_LEAST_START_S", 4.0)
        defaults = {"stop_grace_s": 0.5, "cwd": None}
        monkeypatch.setattr(engine_process.EngineProcess.__init__, "__kwdefaults__", defaults)
        marks = {fault: 2049 + place for place, fault in enumerate([*FAULTS, ""])}
        seeds = [SEED.format(fault=fault, mark=mark) for fault, mark in marks.items()]
        space = bench.file("space.toml", SPACE + "".join(seeds))
        switches = [f"{fault}?batch_size={mark}" for fault, mark in marks.items() if fault]
        monkeypatch.setenv("FAKE_FAULT", ",".join(switches))
        words = bench.quick("--space", str(space), "--trials", str(len(marks) + 1))
        words[words.index("64")] = "512,1024"
        words[words.index("--profiles") + 1] = str(bench.file("two.toml", QUICK_PROFILES.replace("1.0 }\nleast", BOTH)))
        said = bench.tuner(*words)
        assert said.code == 0, said.err
        records = {record.note.removeprefix("meets "): record for record in bench.records() if record.note}
        yield bench, records


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_becomes_a_verdict(faulty: tuple[Bench, dict[str, TrialRecord]], fault: str) -> None:
    bench, records = faulty
    outcome, told = FAULTS[fault]
    record = records[fault]
    verdict = record.verdict
    assert verdict is not None
    assert verdict.outcome is outcome, verdict.reason
    assert verdict.reason
    assert told in verdict.reason
    assert record.finished_at is not None
    assert verdict.log is not None
    assert (bench.study() / verdict.log).stat().st_size > 0
    # A failed measurement is never a slow one, and never recommended.
    assert verdict.feasible == (outcome is Outcome.OK)
    cut = record.measurement is not None and record.measurement.cut_short is not None
    assert cut == (fault in ("slow", "attention_on_cpu")), "only what is hopeless is cut short"


def test_the_study_goes_on_after_every_fault(faulty: tuple[Bench, dict[str, TrialRecord]]) -> None:
    bench, records = faulty
    last = records[""]
    assert last.verdict is not None
    assert last.verdict.outcome is Outcome.OK
    bench.assert_nothing_left()
    status = bench.tuner("status", "s").out
    for outcome in {outcome for outcome, _ in FAULTS.values()}:
        assert f" {outcome.value}" in status
    found = json.loads(bench.tuner("best", "s", "--json").out)["profiles"][0]
    argv = found["command"]["argv"]
    fine = {"ignore_sigterm", "grandchild", ""}
    marks = {str(record.configuration.values["batch_size"]) for fault, record in records.items() if fault in fine}
    assert found["is_baseline"] or argv[argv.index("--batch-size") + 1] in marks


@pytest.mark.parametrize(
    ("fault", "advised"),
    [("oom_load", "context"), ("sigill", "build"), ("crash_request", "")],
)
def test_a_baseline_that_fails_ends_the_run_and_can_be_mended(bench: Bench, fault: str, advised: str) -> None:
    bench.monkeypatch.setenv("FAKE_FAULT", fault)
    said = bench.tuner(*bench.quick("--trials", "2"))
    assert said.code == 2
    assert said.err.startswith("error: The baseline did not run")
    where = next(line for line in said.err.splitlines() if "where:" in line).split("where:")[1].strip()
    assert where.endswith("trials/0000/engine.log")
    assert (bench.folder / where).is_file(), "the path leads to the log from where the user stands"
    assert "try:" in said.err
    assert advised in said.err.split("try:")[1]
    assert bench.engines() == []
    assert bench.tuner("best", "s").code == 2

    bench.monkeypatch.delenv("FAKE_FAULT")
    again = bench.tuner("run", "s")
    assert again.code == 0, again.err
    records = bench.records()
    stages = [(record.is_baseline, record.verdict.outcome is Outcome.OK) for record in records if record.verdict]
    assert stages[:2] == [(True, False), (True, True)]
    assert [record.is_baseline for record in records].count(True) == 2, "the mended baseline is measured once"
    assert str(FAKE) in again.out


def test_a_program_that_disappears_ends_the_run_with_a_message(bench: Bench) -> None:
    program = bench.file("server", FAKE.read_text())
    program.unlink()
    program.symlink_to(FAKE)
    words = bench.quick("--trials", "3")
    words[words.index(str(FAKE))] = str(program)
    calls = 0
    real = run_trial.run_trial

    def then_gone(kit, launch):  # type: ignore[no-untyped-def]
        nonlocal calls
        calls += 1
        if calls == 2:
            program.unlink()
        return real(kit, launch)

    bench.monkeypatch.setattr(run_study, "run_trial", then_gone)
    said = bench.tuner(*words)
    assert said.code == 2
    assert str(program) in said.err
    bench.monkeypatch.setattr(run_study, "run_trial", real)
    program.symlink_to(FAKE)
    assert bench.tuner("run", "s").code == 0
    assert [record.verdict.outcome for record in bench.records() if record.verdict].count(Outcome.INTERRUPTED) == 1


def test_a_launcher_that_outlives_its_worker_is_a_crash(bench: Bench) -> None:
    """The process is alive, and nobody serves any more."""
    bench.monkeypatch.setenv("FAKE_FAULT", "crash_request?batch_size=1024")
    launcher = bench.file(
        "launcher",
        f"""#!{sys.executable}
import subprocess, sys, time
worker = subprocess.Popen([{sys.executable!r}, {str(FAKE)!r}, *sys.argv[1:]])
if worker.wait() != 0 and "--alias" in sys.argv:
    time.sleep(600)
sys.exit(worker.returncode)
""",
    )
    launcher.chmod(0o755)
    space = bench.file(
        "space.toml",
        'schema_version = 1\nengine = "llama_server"\n[parameters.batch_size]\nflag = "--batch-size"\n'
        'choices = [2048, 1024]\ndefault = 2048\nabout = "One value meets the fault."\n',
    )
    words = bench.quick("--trials", "2", "--space", str(space), "--confirm-rounds", "2")
    words[words.index(str(FAKE))] = str(launcher)
    said = bench.tuner(*words)
    assert said.code == 0, said.err
    verdict = bench.records()[1].verdict
    assert verdict is not None
    assert verdict.outcome is Outcome.CRASHED
    assert "though the server is alive" in verdict.reason
    bench.assert_nothing_left()
