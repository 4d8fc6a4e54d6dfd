"""`tuner verify` after an update: what changed, what holds, what to tune again; the old study stays as it was."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench import FAKE, RIGS, Bench, bench_in
from tuner.domain.record import Stage, TrialRecord

SPACE = """
schema_version = 1
engine = "llama_server"
[parameters.ubatch_size]
flag = "--ubatch-size"
choices = [128, 512, 1024]
default = 512
about = "Chunks."
[parameters.spec_type]
flag = "--spec-type"
choices = ["none", "draft-mtp"]
default = "none"
about = "Speculation."
[[seeds]]
name = "MTP"
because = "it is fast here"
values = { spec_type = "draft-mtp" }
"""


class Updated:
    """A study of an engine that can be updated: a wrapper of the fake one that names its own build."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.engine = bench.folder / "engine"
        self.install("10068 (aaa)")
        words = bench.quick(
            "--trials",
            "4",
            "--confirm-rounds",
            "3",
            "--space",
            str(bench.file("space.toml", SPACE)),
            "--fixed",
            "-c 16384",
        )
        words[words.index("--binary") + 1] = str(self.engine)
        said = bench.tuner(*words)
        assert said.code == 0, said.err
        self.before = self.stored()
        self.seen = 0

    def install(self, version: str, first: str = "", path: Path | None = None) -> None:
        program = path or self.engine
        lines = ["#!/bin/sh", f'case "$1" in --version) echo "version: {version}" >&2; exit ;; esac', first]
        program.write_text("\n".join([*lines, f'exec {FAKE} "$@"', ""]))
        program.chmod(0o755)

    def stored(self) -> list[object]:
        """Everything of the old study: records and what is frozen."""
        frozen = (self.bench.study() / "frozen.json").read_text()
        return [self.bench.raw_records("search"), self.bench.raw_records("confirm"), frozen]

    def launches(self) -> list[TrialRecord]:
        """What was launched since the test began."""
        return self.bench.records("verify")[self.seen :]

    def verify(self, *more: str) -> dict[str, object]:
        said = self.bench.tuner("verify", "s", "--json", *more)
        assert said.code == 0, said.err
        assert self.stored() == self.before, "the old study was touched"
        told: dict[str, object] = json.loads(said.out)
        return told


@pytest.fixture(scope="module")
def one_study(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Iterator[Updated]:
    """Made once: a verification leaves the study as it was, which every test holds it to."""
    with pytest.MonkeyPatch.context() as patch, bench_in(tmp_path_factory.mktemp("verify"), tiny_model, patch) as made:
        yield Updated(made)


@pytest.fixture
def updated(one_study: Updated) -> Updated:
    one_study.seen = len(one_study.bench.records("verify"))
    one_study.install("10068 (aaa)")
    return one_study


def profile(told: dict[str, object]) -> dict[str, object]:
    (one,) = told["profiles"]  # type: ignore[misc]
    return one  # type: ignore[no-any-return]


def test_after_an_update_a_gain_that_holds_is_told_so(updated: Updated) -> None:
    best = updated.bench.tuner("best", "s", "--json").out
    updated.install("10100 (bbb)")
    told = updated.verify()
    (difference,) = told["differences"]  # type: ignore[misc]
    assert re.search(r"was .*10068 \(aaa\).*, is .*10100 \(bbb\)", difference)
    one = profile(told)
    assert one["standing"] == "holds"
    assert one["now"]["ratio"] == pytest.approx(one["before"]["ratio"], rel=0.1)  # type: ignore[index]
    assert told["tune_again"] == []
    assert told["launches"] == 6
    for configuration in told["configurations"]:  # type: ignore[attr-defined]
        assert configuration["decode"]["ratio"] == pytest.approx(1, abs=0.1)
    records = updated.launches()
    assert {record.stage for record in records} == {Stage.VERIFY}
    assert [record.is_baseline for record in records] == [True, False, False, True, False, True]
    assert all(record.folder.startswith("trials/verify-") for record in records)
    assert all((updated.bench.study() / record.folder / "requests.jsonl").is_file() for record in records)
    assert updated.bench.tuner("best", "s", "--json").out == best
    # The run itself still refuses the other build, and the report for a person says the same.
    assert updated.bench.tuner("run", "s").code == 2
    shown = updated.bench.tuner("verify", "s", "--rounds", "2")
    assert "quick  holds: " in shown.out
    assert "everything holds" in shown.out
    assert len(updated.launches()) == 10
    updated.bench.assert_nothing_left()


def test_a_winner_that_the_new_build_refuses_is_to_be_tuned_again_and_not_launched_thrice(updated: Updated) -> None:
    # A winner names its flags, the baseline does not.
    refuses = 'case "$*" in *--ubatch-size*) echo "error: invalid argument: --ubatch-size" >&2; exit 1;; esac'
    updated.install("10100 (bbb)", refuses)
    told = updated.verify()
    one = profile(told)
    assert (one["standing"], one["now"]) == ("fails", None)
    assert told["tune_again"] == ["quick"]
    assert [record.is_baseline for record in updated.launches()].count(False) == 1


def test_a_gain_that_is_gone_and_speeds_that_changed(updated: Updated) -> None:
    rig = (RIGS / "default.toml").read_text()
    slower = updated.bench.file("slower.toml", rig.replace("tps = 58.0", "tps = 15.0"))
    fast = f'case "$*" in *--ubatch-size*) FAKE_RIG={slower}; export FAKE_RIG;; esac'
    updated.install("10100 (bbb)", fast)
    told = updated.verify()
    one = profile(told)
    assert one["standing"] == "slower"
    assert told["tune_again"] == ["quick"]
    changed = {c["name"]: c["decode"]["ratio"] for c in told["configurations"]}  # type: ignore[attr-defined]
    assert changed.pop("baseline") == pytest.approx(1, abs=0.1)
    (winner,) = changed.values()
    assert winner == pytest.approx(15 / 58, abs=0.1)


def test_another_program_can_be_verified_beside_the_studys_own(updated: Updated) -> None:
    other = updated.bench.folder / "other engine"
    updated.install("10200 (ccc)", path=other)
    told = updated.verify("--binary", str(other), "--rounds", "2")
    assert profile(told)["standing"] == "holds"
    assert all(r.launched and r.launched.argv[0] == str(other) for r in updated.launches())


def test_another_machine_or_model_is_no_update(updated: Updated) -> None:
    path = updated.bench.study() / "frozen.json"
    frozen = json.loads(path.read_text())
    frozen["machine"]["cpu"] = "Abacus 3000"
    path.write_text(json.dumps(frozen))
    said = updated.bench.tuner("verify", "s")
    assert (said.code, "Abacus 3000" in said.err) == (2, True)
    assert updated.launches() == []
    path.write_text(str(updated.before[2]))


def test_a_baseline_that_does_not_run_any_more_is_told(updated: Updated) -> None:
    updated.install("10100 (bbb)", 'case "$*" in *--port*) echo "error: boom" >&2; exit 1;; esac')
    said = updated.bench.tuner("verify", "s")
    assert (said.code, "The baseline does not run any more" in said.err) == (2, True)
