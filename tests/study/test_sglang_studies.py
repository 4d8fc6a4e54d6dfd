"""Whole studies of the fake SGLang, through the real command line."""

from __future__ import annotations

import json
import shlex
import signal

import pytest

from tests.bench import configurations
from tests.sglang_bench import SglangBench, sglang
from tuner.domain.record import Stage, TrialRecord
from tuner.domain.verdict import Outcome
from tuner.study import start

__all__ = ["sglang"]

SHARES = """
schema_version = 1
engine = "sglang"
[parameters.share]
flag = "--mem-fraction-static"
choices = ["unset", 0.5, 0.6, 0.7, 0.8, 0.86, 0.88, 0.9, 0.92, 0.94, 0.96, 0.98, 0.99]
default = "unset"
about = "Share of memory."
[parameters.requests]
flag = "--max-running-requests"
choices = ["unset", 1, 16]
default = "unset"
about = "Requests."
[[seeds]]
name = "little"
because = "too little"
values = { share = 0.5, requests = 1 }
[[seeds]]
name = "much"
because = "too much"
values = { share = 0.99, requests = 16 }
"""

FAULTY = """
schema_version = 1
engine = "sglang"
[parameters.requests]
flag = "--max-running-requests"
choices = ["unset", 1, 2]
default = "unset"
about = "Requests."
[parameters.drafts]
flag = "--speculative-algorithm"
choices = ["unset", "NEXTN"]
default = "unset"
about = "Drafts."
[[seeds]]
name = "faulty"
because = "a test"
values = { requests = 1, drafts = "NEXTN" }
"""


def outcome(record: TrialRecord) -> Outcome | None:
    return None if record.verdict is None else record.verdict.outcome


def best(bench: SglangBench) -> dict[str, object]:
    said = bench.tuner("best", "s", "--json")
    assert said.code == 0, said.err
    (profile,) = json.loads(said.out)["profiles"]
    return dict(profile)


def test_a_study_from_its_baseline_to_its_best_command(sglang: SglangBench) -> None:
    said = sglang.tuner(*sglang.quick("--trials", "9", "--confirm-rounds", "2"))
    assert said.code == 0, said.err
    searched, confirmed = sglang.records(), sglang.records("confirm")
    baseline = searched[0]
    assert baseline.stage is Stage.BASELINE
    assert baseline.command is not None
    start = [str(sglang.interpreter), "-m", "sglang.launch_server", "--model-path", str(sglang.model)]
    assert list(baseline.command.argv) == [*start, "--host", "127.0.0.1", "--port", "30000"]
    assert baseline.measurement is not None
    assert baseline.measurement.actual.buffers_mib["CUDA0"] > 16000
    assert len(searched) == 9
    assert {outcome(record) for record in confirmed} == {Outcome.OK}

    found = best(sglang)
    assert isinstance(found["gain"], float)
    assert found["gain"] > 1.4, "the rig's decoding gains that much from its MTP layer"
    words = shlex.split(str(found["command_line"]))
    assert words[: len(start)] == start
    assert words[words.index("--speculative-algorithm") + 1] == "NEXTN"
    steps = int(words[words.index("--speculative-num-steps") + 1])
    if words[words.index("--speculative-eagle-topk") + 1] == "1":
        assert words[words.index("--speculative-num-draft-tokens") + 1] == str(steps + 1)
    assert str(found["command_line"]) in said.out
    sglang.assert_nothing_left()

    drafts = {r.number: r.configuration.values.get("speculative_algorithm", "unset") != "unset" for r in confirmed}
    drafting = [r.measurement.cells[0] for r in confirmed if r.measurement and drafts[r.number]]
    assert drafting
    # Of eight tokens, with one step or several.
    assert all(cell.acceptance_rate and 0.5 < cell.acceptance_rate <= 1 for cell in drafting)
    assert all(cell.acceptance_length and cell.acceptance_length > 1.2 for cell in drafting)


def test_a_kill_loses_no_more_than_the_running_trial(sglang: SglangBench) -> None:
    sglang.monkeypatch.setenv("FAKE_FAULT", "hang_request?max_running_requests=1")
    process = sglang.start(*sglang.quick("--trials", "5", "--confirm-rounds", "2"))
    sglang.wait_for(lambda: len(sglang.raw_records()) > 1 and len(sglang.engines()) > 0, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = sglang.raw_records()
    sglang.monkeypatch.delenv("FAKE_FAULT")
    said = sglang.tuner("run", "s")
    assert said.code == 0, said.err
    assert sglang.raw_records()[0] == before[0], "the baseline is kept as it was"
    measured = configurations(sglang.records())
    assert len(measured) == len(set(measured))
    assert best(sglang)["command_line"]
    sglang.assert_nothing_left()


def test_too_little_memory_for_the_pool_and_too_much_move_the_search_opposite_ways(sglang: SglangBench) -> None:
    space = sglang.file("shares.toml", SHARES)
    said = sglang.tuner(*sglang.quick("--space", str(space), "--trials", "8", "--confirm-rounds", "2"))
    assert said.code == 0, said.err
    records = {record.note: record for record in sglang.records()}
    little, much = records["little"], records["much"]
    assert (outcome(little), outcome(much)) == (Outcome.OUT_OF_MEMORY, Outcome.OUT_OF_MEMORY)
    for failed, larger in ((little, True), (much, False)):
        repaired = records[f"repair of trial {failed.number}"]
        share = repaired.configuration.values["share"]
        assert isinstance(share, float)
        assert 0.5 < share < 0.99
        assert failed.verdict is not None
        assert failed.verdict.explanation is not None
        (move, *_) = failed.verdict.explanation.moves
        assert move.larger is larger
    for requests in ("unset", 1, 16):
        line = [record for record in sglang.records() if record.configuration.values["requests"] == requests]
        shares = [(record.configuration.values["share"], outcome(record)) for record in line]
        failed_at = [(share, place) for place, (share, ended) in enumerate(shares) if ended is Outcome.OUT_OF_MEMORY]
        for share, place in failed_at:
            later = [other for other, _ in shares[place + 1 :] if isinstance(other, float)]
            beyond = [other for other in later if (other <= share if share < 0.8 else other >= share)]  # type: ignore[operator]
            assert not beyond, "what lies beyond a failure is never launched"


@pytest.mark.parametrize(
    ("fault", "ends", "told"),
    [
        ("killed", Outcome.OUT_OF_MEMORY, "killed from outside"),
        ("crash_load", Outcome.CRASHED, "illegal memory access"),
        ("crash_request", Outcome.CRASHED, "device-side assert"),
        ("watchdog", Outcome.STALLED, "watchdog"),
        ("oom_midprompt@32", Outcome.OUT_OF_MEMORY, "static share leaves"),
        ("no_speculation", Outcome.DEGRADED, "runs without"),
        ("http500", Outcome.START_TIMEOUT, "not ready"),
        ("quiet_rank", Outcome.CRASHED, "died without a word"),
    ],
)
def test_a_failure_is_told_and_the_study_goes_on(
    sglang: SglangBench, monkeypatch: pytest.MonkeyPatch, fault: str, ends: Outcome, told: str
) -> None:
    monkeypatch.setattr(start, "_LEAST_START_S", 10.0)
    monkeypatch.setattr(start, "_TIMES_SLOWER", 1.0)
    monkeypatch.setattr(start, "_QUIET_S", 1.0)
    sglang.monkeypatch.setenv("FAKE_FAULT", f"{fault}?max_running_requests=1")
    space = sglang.file("faulty.toml", FAULTY)
    said = sglang.tuner(*sglang.quick("--space", str(space), "--trials", "2"))
    assert said.code == 0, said.err
    baseline, failed = sglang.records()
    assert outcome(baseline) is Outcome.OK
    assert failed.verdict is not None
    assert failed.verdict.outcome is ends
    assert told in failed.verdict.reason
    assert json.loads(sglang.tuner("status", "s", "--json").out)["outcomes"][ends] == 1
    sglang.assert_nothing_left()


def test_what_an_engine_leaves_behind_is_ended(sglang: SglangBench) -> None:
    sglang.monkeypatch.setenv("FAKE_FAULT", "grandchild")
    said = sglang.tuner(*sglang.quick("--space", str(sglang.file("faulty.toml", FAULTY)), "--trials", "1"))
    assert said.code == 0, said.err
    sglang.assert_nothing_left()
