"""A device that disappears while a study runs stops the study: what followed would be another machine's figures."""

from __future__ import annotations

import sys

from tests.bench import FAKE, RIGS, Bench
from tuner.domain.verdict import Outcome

LAST_GOOD_LAUNCH = 2


def test_a_device_that_is_gone_ends_the_run_and_the_study_continues_when_it_is_back(bench: Bench) -> None:
    bench.rig("two_gpus")
    count = bench.file("launches.txt", "")
    program = bench.file(
        "failing-server",
        f"""#!{sys.executable}
import os, sys
argv = sys.argv[1:]
gone = os.path.exists({str(bench.folder / "gone")!r})
if "--alias" in argv and "dry-run" not in argv:
    with open({str(count)!r}, "a+") as file:
        file.write("x")
        file.seek(0)
        if len(file.read()) > {LAST_GOOD_LAUNCH} and not os.path.exists({str(bench.folder / "back")!r}):
            open({str(bench.folder / "gone")!r}, "w").close()
            sys.exit("device lost on CUDA1")
if gone and not os.path.exists({str(bench.folder / "back")!r}):
    os.environ["FAKE_RIG"] = {str(RIGS / "default.toml")!r}
os.execv({sys.executable!r}, [{sys.executable!r}, {str(FAKE)!r}, *argv])
""",
    )
    program.chmod(0o755)
    words = bench.quick("--trials", "6", "--confirm-rounds", "2")
    words[words.index(str(FAKE))] = str(program)
    said = bench.tuner(*words)
    assert said.code == 2
    assert "CUDA1" in said.err
    assert "continues" in said.err
    records = bench.records()
    assert len(records) == LAST_GOOD_LAUNCH + 1
    verdict = records[-1].verdict
    assert verdict is not None
    assert verdict.outcome is not Outcome.OK

    bench.file("back", "")
    assert bench.tuner("run", "s").code == 0
    again = [record.configuration for record in bench.records()[LAST_GOOD_LAUNCH + 1 :]]
    assert records[-1].configuration not in again
    bench.assert_nothing_left()
