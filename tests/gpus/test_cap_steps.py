"""Caps worth trying, and the unit that sets one at boot."""

from __future__ import annotations

import configparser
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.domain.gpu import PowerCap
from tuner.gpus.boot_unit import boot_unit
from tuner.gpus.cap_steps import cap_steps


@pytest.mark.parametrize(
    ("lowest", "highest", "default", "steps"),
    [
        (100, 450, 450, [100, 150, 200, 250, 300, 350, 400, 450]),
        (400, 600, 575, [400, 425, 450, 475, 500, 525, 550, 575, 600]),
        (125.5, 366, 350, [126, 200, 250, 300, 350, 366]),
        (5, 80, 80, [5, 10, 20, 30, 40, 50, 60, 70, 80]),
        (290, 290, 290, [290]),
        (100, 115.5, 115.5, [100, 102, 104, 106, 108, 110, 112, 114, 115.5]),
    ],
)
def test_steps(lowest: float, highest: float, default: float, steps: list[float]) -> None:
    assert list(cap_steps(PowerCap(cap_w=default, min_w=lowest, max_w=highest, default_w=default))) == steps


@given(st.floats(1, 1500), st.floats(0, 1500), st.floats(0, 1), st.booleans())
def test_steps_of_any_card(lowest: float, span: float, place: float, default_told: bool) -> None:
    highest = lowest + span
    usual = min(highest, lowest + place * span)
    cap = PowerCap(cap_w=usual, min_w=lowest, max_w=highest, default_w=usual if default_told else None)
    steps = cap_steps(cap)
    assert usual in steps
    assert list(steps) == sorted(set(steps))
    assert all(lowest <= step <= highest for step in steps), "the driver would refuse it"
    assert all(step == usual or step.is_integer() for step in steps)
    assert len(steps) <= 12
    assert steps[0] - lowest < 2
    assert highest - steps[-1] < 2


AWKWARD = r"""echo "100%" '$HOME' \n > /sys/x && nvidia-smi -i 0000:03:00.0 -pl 300"""


def test_the_unit_runs_the_commands_as_they_are() -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[method-assign,assignment]
    unit.read_string(boot_unit([AWKWARD]))
    program, option, command = shlex.split(unit["Service"]["ExecStart"])
    assert (program, option) == ("/bin/sh", "-c")
    # What systemd itself replaces (systemd.unit, Specifiers; systemd.service, Command lines).
    assert "100%%" in command
    assert "$$HOME" in command
    assert command.replace("%%", "%").replace("$$", "$") == AWKWARD
    assert unit["Service"]["Type"] == "oneshot"


def test_each_command_is_a_line_of_the_unit() -> None:
    unit = boot_unit(["nvidia-smi -pm 1", "nvidia-smi -i 0000:03:00.0 -pl 300"], description="100 % quiet")
    starts = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    assert ["-pm 1" in starts[0], "-pl 300" in starts[1]] == [True, True]
    assert "Description=100 %% quiet" in unit


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    path = tmp_path / "caps.service"
    path.write_text(boot_unit([AWKWARD]))
    done = subprocess.run(["systemd-analyze", "verify", str(path)], capture_output=True, text=True, timeout=60)
    assert "caps.service" not in done.stderr
    path.write_text(boot_unit([AWKWARD]).replace("Type=", "Tüpe=").replace("%%", "%"))
    done = subprocess.run(["systemd-analyze", "verify", str(path)], capture_output=True, text=True, timeout=60)
    assert "caps.service" in done.stderr, "it would say so"
