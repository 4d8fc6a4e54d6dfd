"""Help comes at once, for every command; readers do not get in the way of a run."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from tests.bench import ROOT, Bench
from tuner import __version__

COMMANDS = [
    "quickstart", "run", "init", "best", "report", "status", "doctor", "restore-power", "resume", "pause", "service",
]  # fmt: skip
HEAVY = {
    "optuna",
    "numpy",
    "pandas",
    "httpx",
    "scipy",
    "sqlalchemy",
    "psutil",
    "gguf",
    "matplotlib",
    "pynvml",
    "amdsmi",
}

PROBE = """
import sys
from tuner.cli.app import main
try:
    main(sys.argv[1:])
finally:
    print("LOADED", *sorted({name.split(".")[0] for name in sys.modules}), file=sys.stderr)
"""


def ask(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", PROBE, *words], cwd=ROOT, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["run", "--help"], []])
def test_help_imports_nothing_that_takes_time(words: list[str]) -> None:
    done = ask(*words)
    loaded = set(done.stderr.rpartition("LOADED")[2].split())
    assert "tuner" in loaded
    assert not loaded & HEAVY


def test_help_comes_within_half_a_second() -> None:
    times = []
    for _ in range(3):
        started = time.monotonic()
        subprocess.run([sys.executable, "-c", PROBE, "--help"], cwd=ROOT, capture_output=True, check=True)
        times.append(time.monotonic() - started)
    assert min(times) < 0.5


def test_every_command_explains_itself() -> None:
    overview = ask("--help").stdout
    for command in COMMANDS:
        assert f"  {command} " in overview
        done = ask(command, "--help")
        assert done.returncode == 0
        assert "Usage: tuner " + command in done.stdout
        options = [line.strip() for line in done.stdout.splitlines() if line.strip().startswith("--")]
        assert options
    listed = [line.split()[0] for line in overview.partition("Commands:")[2].splitlines() if line.strip()]
    assert sorted(listed) == sorted(COMMANDS), "a new command belongs into this list"


def test_every_option_has_a_word_of_help() -> None:
    import typer

    from tuner.cli.app import app

    group = typer.main.get_command(app)
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        assert command.help, name
        for parameter in command.params:
            assert getattr(parameter, "help", None), f"{name} {parameter.name}"


def test_the_version() -> None:
    done = ask("--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"tuner {__version__}")


def test_reading_does_not_hold_up_a_run(bench: Bench) -> None:
    """While a study is measured readers are answered, and the run ends as ever."""
    process = bench.start(*bench.quick("--trials", "2", "--confirm-rounds", "2"))
    bench.wait_for(lambda: (bench.study() / "frozen.json").is_file() and bench.raw_records(), process)
    for _ in range(3):
        assert bench.tuner("status", "s", "--json").code == 0
        assert bench.tuner("best", "s").code in (0, 2)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert "see again: tuner best s" in out
