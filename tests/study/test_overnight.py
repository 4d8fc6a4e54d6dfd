"""A night without anyone at the keyboard: an end by the clock, pauses, several studies, messages, one run a machine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.bench import ROOT, Bench, configurations
from tuner.cli.running import RunOptions
from tuner.domain.errors import BadInput
from tuner.domain.verdict import Outcome

AT_ONCE = "from tuner.study import settle\nsettle._PAUSE_AFTER_CRASH_S = 0.0\n"


class Receiver:
    """A webhook on this machine."""

    def __init__(self, status: int = 200) -> None:
        received = self.received = []  # type: ignore[var-annotated]

        class Hook(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                received.append((self.headers["Content-Type"], body.decode()))
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/secret-topic"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.mark.parametrize(("hour", "minutes"), [("07:00", 480), ("23:30", 30), ("22:59", 24 * 60 - 1)])
def test_until_is_the_next_time_that_the_clock_shows_the_hour(hour: str, minutes: int) -> None:
    evening = datetime(2026, 3, 1, 23, 0).astimezone()
    assert RunOptions(until=hour).until_epoch(evening) == (evening + timedelta(minutes=minutes)).timestamp()


@pytest.mark.parametrize("wrong", ["7", "25:00", "tomorrow", "07:60"])
def test_an_hour_that_is_none_is_refused_before_anything_is_made(bench: Bench, wrong: str) -> None:
    with pytest.raises(BadInput):
        RunOptions(until=wrong).until_epoch(datetime.now().astimezone())
    said = bench.tuner(*bench.quick("--until", wrong))
    assert said.code == 2
    assert "07:00" in said.err
    assert not bench.study().exists()


def test_a_run_ends_at_its_hour_and_the_study_goes_on_later(bench: Bench) -> None:
    """The hour is a minute away at most, so the test moves the clock's end closer."""
    bench.monkeypatch.setattr(RunOptions, "until_epoch", lambda *_: time.time() + 8)
    started = time.monotonic()
    said = bench.tuner(*bench.quick("--until", "07:00", "--trials", "500"))
    assert said.code == 0, said.err
    assert time.monotonic() - started < 30
    launched = len(bench.records())
    assert 2 <= launched < 500
    assert [record.verdict.outcome for record in bench.records() if record.verdict].count(Outcome.INTERRUPTED) == 0
    bench.assert_nothing_left()
    bench.monkeypatch.setattr(RunOptions, "until_epoch", lambda *_: None)
    assert bench.tuner("run", "s", "--trials", str(launched + 2), "--confirm-rounds", "2").code == 0
    assert len(bench.records()) == launched + 2


def test_a_pause_lets_the_trial_end_and_starts_no_other(bench: Bench) -> None:
    process = bench.start(*bench.quick("--trials", "12", "--confirm-rounds", "2"))
    bench.wait_for(lambda: len(bench.raw_records()) >= 2, of=process)
    assert bench.tuner("pause", "s").code == 0
    bench.wait_for(lambda: "paused, no engine runs" in (bench.study() / "run.log").read_text(), of=process)
    before = bench.raw_records()
    time.sleep(1.5)
    assert bench.engines() == []
    assert bench.raw_records() == before
    assert all(record.verdict is not None for record in bench.records())
    assert "goes on" in bench.tuner("pause", "s", "--end").out
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert len(configurations(bench.records())) == 12
    assert "was not paused" in bench.tuner("pause", "s", "--end").out


def test_resume_continues_what_is_unfinished_and_nothing_else(bench: Bench) -> None:
    words = bench.quick("--trials", "2", "--confirm-rounds", "2")
    for name in ("done", "killed", "broken"):
        words[words.index("--name") + 1] = name
        assert bench.tuner(*words).code == 0
    for name in ("killed", "broken"):
        (bench.studies / name / "done").unlink()
    definition = bench.studies / "killed" / "study.toml"
    definition.write_text(definition.read_text().replace("trials = 2", "trials = 4"))
    (bench.studies / "broken" / "frozen.json").write_text("{")
    said = bench.tuner("resume")
    assert "== killed" in said.out
    assert "== done" not in said.out
    assert said.code == 2, "one could not be continued"
    assert "Could not continue: broken" in said.err
    assert len(bench.records(name="killed")) == 4
    assert len(bench.records(name="done")) == 2
    (bench.studies / "broken" / "done").write_text((bench.studies / "broken" / "study.toml").read_text())
    assert "no unfinished study" in bench.tuner("resume").out


def test_more_time_opens_a_finished_study_again(bench: Bench) -> None:
    assert bench.tuner(*bench.quick("--trials", "2", "--confirm-rounds", "2")).code == 0
    assert "no unfinished study" in bench.tuner("resume").out
    definition = bench.study() / "study.toml"
    definition.write_text(definition.read_text().replace("trials = 2", "trials = 3"))
    assert bench.tuner("resume").code == 0
    assert len(bench.records()) == 3


def test_watching_shows_the_run_and_ends_with_it(bench: Bench) -> None:
    process = bench.start(*bench.quick("--trials", "6", "--confirm-rounds", "2"))
    bench.wait_for(lambda: len(bench.raw_records()) >= 1, of=process)
    watching = bench.start("status", "s", "--watch")
    out, err = watching.communicate(timeout=120)
    assert watching.returncode == 0, err
    assert process.wait(timeout=60) == 0
    assert "s: running" in out
    assert "search" in out
    process.communicate()


def test_a_webhook_is_told_and_its_address_stands_nowhere(bench: Bench, receiver: Receiver) -> None:
    said = bench.tuner(*bench.quick("--trials", "6", "--confirm-rounds", "2", "--notify", receiver.url))
    assert said.code == 0, said.err
    told = [body for _, body in receiver.received]
    assert told[0] == "s: the run begins"
    assert told[-1].startswith("s: the run has ended")
    assert any("new best" in text for text in told)
    assert all(kind.startswith("text/plain") for kind, _ in receiver.received)
    for file in bench.study().rglob("*"):
        if file.is_file():
            assert b"secret-topic" not in file.read_bytes(), file
    assert "secret-topic" not in said.out + said.err


def test_trouble_is_told_and_a_deaf_webhook_costs_nothing(bench: Bench, receiver: Receiver) -> None:
    bench.monkeypatch.setenv("FAKE_FAULT", "crash_load")
    assert bench.tuner(*bench.quick("--trials", "2", "--notify", receiver.url)).code == 2
    assert any("stopped. The baseline did not run" in body for _, body in receiver.received)
    bench.monkeypatch.delenv("FAKE_FAULT")
    said = bench.tuner("run", "s", "--notify", "http://127.0.0.1:9/secret-topic")
    assert said.code == 0, said.err
    assert said.out.count("a message could not be sent") == 1
    assert "secret-topic" not in said.out + said.err
    assert bench.tuner("run", "s", "--notify", "ftp://x").code == 2


def test_slack_and_discord_get_their_own_bodies() -> None:
    from tuner.cli.notify import _body

    assert _body("https://hooks.slack.com/services/x", "hello") == {"json": {"text": "hello"}}
    assert _body("https://discord.com/api/webhooks/x", "hello") == {"json": {"content": "hello"}}
    assert _body("https://ntfy.sh/x", "größer")["content"] == "größer".encode()


def test_one_machine_runs_one_study_at_a_time(bench: Bench) -> None:
    process = bench.start(*bench.quick("--trials", "40", "--confirm-rounds", "2"))
    bench.wait_for(lambda: len(bench.raw_records()) >= 1, of=process)
    words = bench.quick("--trials", "1")
    words[words.index("--name") + 1] = "other"
    said = bench.tuner(*words)
    assert said.code == 2
    assert f"process {process.pid}" in said.err
    assert "this machine" in said.err
    assert "--side-by-side" in said.err
    process.send_signal(signal.SIGKILL)
    process.communicate()
    said = bench.tuner(*words)
    assert said.code == 0, "a killed run holds nothing"
    for engine in bench.engines():  # What it left runs until its own study's next start.
        engine.kill()


def test_studies_on_different_cards_run_side_by_side_when_told(bench: Bench) -> None:
    bench.rig("two_gpus")

    def study(name: str, device: str) -> list[str]:
        words = bench.quick("--trials", "3", "--confirm-rounds", "2", "--side-by-side", "--fixed", f"--device {device}")
        words[words.index("--name") + 1] = name
        return words

    first = bench.start(*[word if word != "3" else "60" for word in study("first", "CUDA0")])
    bench.wait_for(lambda: len(bench.raw_records(name="first")) >= 1, of=first)
    assert bench.tuner(*study("second", "CUDA1")).code == 0
    same = bench.tuner(*study("third", "CUDA0"))
    assert same.code == 2
    assert "CUDA0" in same.err
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=60)
    assert json.loads(bench.tuner("status", "second", "--json").out)["trials"] >= 3


def test_after_a_reboot_the_services_own_command_goes_on(bench: Bench) -> None:
    """Tuner and engine are gone at one stroke, and the boot id is another: as after a power cut."""
    bench.monkeypatch.setenv("XDG_CONFIG_HOME", str(bench.folder / "config"))
    # Nothing of this machine is changed.
    for name in ("systemctl", "loginctl"):
        program = bench.folder / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    bench.monkeypatch.setenv("PATH", os.pathsep.join([str(bench.folder / "bin"), os.environ["PATH"]]))
    process = bench.start(*bench.quick("--trials", "8", "--confirm-rounds", "2"), TUNER_BOOT_ID="before")
    bench.wait_for(lambda: len(bench.raw_records()) >= 3 and bench.engines(), of=process)
    said = bench.tuner("service", "install", "s")
    assert said.code == 0, said.err
    process.send_signal(signal.SIGKILL)
    process.communicate()
    for engine in bench.engines():
        engine.kill()
    (unit,) = (bench.folder / "config").rglob("*.service")
    command = re.search(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
    folder = re.search(r"^WorkingDirectory=(.*)$", unit.read_text(), re.MULTILINE)
    assert command is not None
    assert folder is not None
    done = subprocess.run(
        ["sh", "-c", command[1]],
        cwd=folder[1],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TUNER_BOOT_ID": "after"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outcomes = [record.verdict.outcome for record in bench.records() if record.verdict]
    assert len(outcomes) == len(bench.records())
    assert outcomes.count(Outcome.HOST_CRASH) <= 1
    assert Outcome.INTERRUPTED not in outcomes, "another boot is no mere interruption"
    assert f"installed {unit}" in bench.tuner("service", "status", "s").out
    assert bench.tuner("service", "remove", "s").code == 0
    assert not unit.exists()
    assert bench.tuner("service", "remove", "s").code == 2
    bench.assert_nothing_left()


def test_a_machine_that_goes_down_twice_in_a_row_is_left_to_a_person(bench: Bench) -> None:
    assert bench.tuner(*bench.quick("--trials", "1", "--confirm-rounds", "2")).code == 0
    bench.monkeypatch.setenv("FAKE_FAULT", "hang_request")
    for boot in ("first", "second"):
        process = bench.start("run", "s", "--trials", "6", prelude=AT_ONCE, TUNER_BOOT_ID=boot)
        count = len(bench.raw_records())
        bench.wait_for(lambda count=count: len(bench.raw_records()) > count and bench.engines(), of=process)  # type: ignore[misc]
        process.send_signal(signal.SIGKILL)
        process.communicate()
        for engine in bench.engines():
            engine.kill()
    bench.monkeypatch.setenv("TUNER_BOOT_ID", "third")
    bench.monkeypatch.delenv("FAKE_FAULT")
    said = bench.tuner("run", "s")
    assert said.code == 2
    assert "went down in two launches in a row" in said.err
    assert "--after-crashes" in said.err
    again = bench.tuner("run", "s", "--after-crashes", "--trials", "4")
    assert again.code == 0, again.err
    assert [r.verdict.outcome for r in bench.records() if r.verdict].count(Outcome.HOST_CRASH) == 2
