from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from families import Families, wait_for

from tuner.domain.errors import EngineNotFound, NotPermitted, TunerError
from tuner.process.engine_process import EngineProcess


def shell(families: Families, script: str, **env: str) -> EngineProcess:
    return EngineProcess(["/bin/sh", "-c", script], env=env, log_path=families.log, marker=families.marker)


def test_child_gets_exactly_the_given_environment_and_the_marker(families: Families) -> None:
    with shell(families, "env", COLOUR="blue") as engine:
        wait_for(lambda: not engine.is_running())
    told = dict(line.split("=", 1) for line in families.log.read_text().splitlines())
    assert {name: told.get(name) for name in ("COLOUR", "TUNER_MARKER")} == {
        "COLOUR": "blue",
        "TUNER_MARKER": families.marker,
    }
    assert not set(told) - {"COLOUR", "TUNER_MARKER", "SPT_NOENV", "PWD", "OLDPWD", "SHLVL", "_"}


def test_setproctitle_is_told_to_keep_the_environment_readable_unless_the_user_decided_otherwise(
    families: Families,
) -> None:
    for env in ({}, {"SPT_NOENV": ""}):
        with shell(families, 'echo "<$SPT_NOENV>"', **env) as engine:
            wait_for(lambda engine=engine: not engine.is_running())
    assert families.log.read_text().split() == ["<1>", "<>"]


def test_output_is_appended_to_the_log_and_input_is_empty(families: Families) -> None:
    families.log.write_text("before\n")
    with shell(families, "cat; echo out; echo err >&2") as engine:
        wait_for(lambda: not engine.is_running())
    assert families.log.read_text().splitlines() == ["before", "out", "err"]


def test_working_directory(families: Families, tmp_path: Path) -> None:
    engine = EngineProcess(["/bin/pwd"], env={}, log_path=families.log, marker=families.marker, cwd=tmp_path.resolve())
    with engine:
        wait_for(lambda: not engine.is_running())
    assert families.log.read_text().strip() == str(tmp_path.resolve())


def test_engine_has_a_session_and_group_of_its_own(families: Families) -> None:
    with families.engine("server") as engine:
        assert os.getsid(engine.pid) == os.getpgid(engine.pid) == engine.pid


def test_exit_code_is_none_while_running_then_stays(families: Families) -> None:
    with families.engine("server") as engine:
        assert engine.is_running()
        assert engine.returncode is None
        os.kill(engine.pid, signal.SIGKILL)
        wait_for(lambda: not engine.is_running())
        assert (engine.returncode, engine.returncode) == (-signal.SIGKILL, -signal.SIGKILL)
    assert engine.returncode == -signal.SIGKILL
    assert not engine.is_running()


def test_exit_code_of_a_program_that_ended_itself(families: Families) -> None:
    with families.engine("server:exits") as engine:
        wait_for(lambda: not engine.is_running())
        assert engine.returncode == 3
    assert engine.returncode == 3


def test_pid_is_not_given_to_others_before_stop(families: Families) -> None:
    """The number of the group that stop() kills must be the engine's, also long after its first process ended."""
    with families.engine("server:exits") as engine:
        wait_for(lambda: not engine.is_running())
        assert Path(f"/proc/{engine.pid}").exists()
    assert not Path(f"/proc/{engine.pid}").exists()


@pytest.mark.parametrize(
    "members",
    [
        ["server"],
        ["server:ignores-term"],
        ["server:exits"],
        ["server:first-thread-ends"],
        ["launcher", "worker", "worker2"],
        ["launcher", "worker:ignores-term"],
        ["launcher", "worker:ignores-term,own-session"],
        ["launcher", "worker:own-session,no-environment"],
        ["launcher", "worker:hides-environment", "worker2:own-session,hides-environment"],
        ["launcher:exits", "worker"],
        ["launcher:exits", "worker:ignores-term,own-session"],
        ["launcher:exits", "worker:hides-environment"],
        ["launcher", "middle:exits", "worker:hides-environment"],
        ["launcher:exits", "worker:no-environment", "worker2:own-session,no-environment"],
        ["launcher", "zombie:exits"],
        ["launcher", "middle:exits", "orphan:own-session,ignores-term"],
    ],
    ids=" ".join,
)
def test_nothing_of_the_engine_is_left(families: Families, members: list[str]) -> None:
    grace_s = 0.3 if "ignores-term" in " ".join(members) else 20
    with families.engine(*members, grace_s=grace_s) as engine:
        families.wait_until_ready(*members)
        assert len(families.living()) == sum("exits" not in member for member in members)
        began = time.monotonic()
    assert families.living() == []
    assert not engine.is_running()
    # A family in which nobody ignores the request does not wait for the grace time to pass.
    assert time.monotonic() - began < 5


def test_engine_may_take_its_time_and_is_asked_only_once(families: Families) -> None:
    with families.engine("server:ends-slowly", grace_s=20) as engine:
        families.wait_until_ready("server")
    assert (families.folder / "server.ended").exists()
    assert engine.returncode == 0


def test_engine_that_ignores_the_request_is_killed_after_the_grace_time(families: Families) -> None:
    engine = families.engine("server:ignores-term", grace_s=0.5)
    with engine:
        families.wait_until_ready("server")
        began = time.monotonic()
        engine.stop()
        assert 0.5 <= time.monotonic() - began < 5
    assert (families.folder / "server.asked").read_text() == "asked\n"
    assert engine.returncode == -signal.SIGKILL


def test_stop_is_harmless_before_the_start_and_when_repeated(families: Families) -> None:
    engine = families.engine("server")
    engine.stop()
    assert not engine.is_running()
    engine.start()
    engine.stop()
    engine.stop()
    assert not engine.is_running()


def test_an_object_starts_once(families: Families) -> None:
    engine = families.engine("server")
    with pytest.raises(RuntimeError):
        _ = engine.pid
    with engine, pytest.raises(RuntimeError):
        engine.start()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_engine_is_stopped_when_the_block_fails(families: Families, error: type[BaseException]) -> None:
    with pytest.raises(error), families.engine("launcher", "worker:ignores-term"):  # noqa: PT012
        families.wait_until_ready("launcher", "worker")
        raise error
    assert families.living() == []


def test_ctrl_c_during_the_start_leaves_nothing(families: Families, monkeypatch: pytest.MonkeyPatch) -> None:
    real_popen = subprocess.Popen

    def interrupted_popen(*args: Any, **kwargs: Any) -> subprocess.Popen[bytes]:
        process = real_popen(*args, **kwargs)
        families.wait_until_ready("launcher", "worker")
        signal.raise_signal(signal.SIGINT)
        return process

    monkeypatch.setattr(subprocess, "Popen", interrupted_popen)
    engine = families.engine("launcher", "worker:own-session", grace_s=60)
    with pytest.raises(KeyboardInterrupt), engine:
        pytest.fail("the block was entered")
    assert families.living() == []
    assert not engine.is_running()


def test_resident_memory_covers_the_tree(families: Families) -> None:
    engine = families.engine("launcher", "worker:own-session", "worker2:fat")
    assert engine.rss_mib() is None
    with engine:
        families.wait_until_ready("launcher")
        rss_mib = engine.rss_mib()
        assert rss_mib is not None
        assert 64 < rss_mib < 200
    assert engine.rss_mib() is None


def test_resident_memory_of_an_ended_engine_is_unknown(families: Families) -> None:
    with families.engine("server:exits") as engine:
        wait_for(lambda: not engine.is_running())
        assert engine.rss_mib() is None


def not_a_program(folder: Path) -> Path:
    path = folder / "program"
    path.write_bytes(b"\x7fELF of some other machine")
    path.chmod(0o755)
    return path


def script_without_interpreter(folder: Path) -> Path:
    path = folder / "script"
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(0o755)
    return path


def not_executable(folder: Path) -> Path:
    path = folder / "model.gguf"
    path.touch(0o644)
    return path


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda folder: folder / "absent", EngineNotFound),
        (lambda _: Path("no-such-engine-in-path"), EngineNotFound),
        (not_a_program, EngineNotFound),
        (script_without_interpreter, EngineNotFound),
        (not_executable, NotPermitted),
        (lambda folder: folder, NotPermitted),
    ],
    ids=["absent", "not in PATH", "not a program", "script without interpreter", "not executable", "a folder"],
)
def test_program_that_cannot_be_started(
    families: Families, tmp_path: Path, make: Callable[[Path], Path], error: type[TunerError]
) -> None:
    program = str(make(tmp_path))
    with (
        pytest.raises(error) as raised,
        EngineProcess([program], env=os.environ, log_path=families.log, marker=families.marker),
    ):
        pytest.fail("it started")
    assert raised.value.where == program
    assert raised.value.advice


@pytest.mark.parametrize(("cwd", "log"), [("absent", "engine.log"), (".", "absent/engine.log")])
def test_folder_that_is_not_there_is_named(families: Families, tmp_path: Path, cwd: str, log: str) -> None:
    engine = EngineProcess(
        families.argv("server"), env={}, log_path=tmp_path / log, marker=families.marker, cwd=tmp_path / cwd
    )
    with pytest.raises(TunerError) as raised:
        engine.start()
    assert "absent" in str(raised.value.where)
