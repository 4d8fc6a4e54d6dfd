"""Whole studies on a machine with graphics cards: stand-ins for a driver's library and for the kernel's files.

The engine is the fake one, the tuner a program of its own, so that it loads the stand-ins as it would the real ones.
"""

from __future__ import annotations

import csv
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.bench import FAKE, RIGS, Bench
from tests.gpus.nvml_stub import NvmlStub, built_library
from tests.gpus.sysfs_tree import SysfsTree
from tuner.domain.record import TrialRecord
from tuner.domain.verdict import Outcome

RADEON_BUS_ID = "0000:0c:00.0"
SPACE = """
schema_version = 1
engine = "llama_server"
[parameters.ubatch_size]
flag = "--ubatch-size"
choices = [256, 512, 1024]
default = 512
about = "Chunks."
[parameters.power_cap]
kind = "power_cap"
unit = "W"
about = "Watts."
"""


class Machine:
    """A GeForce behind the stand-in for NVIDIA's library, a Radeon behind the kernel's files, and an engine on both."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self.bench = bench
        self.nvml = NvmlStub(folder, built_library())
        self.nvml.add_card(used_mib=100)
        self.sysfs = SysfsTree(folder / "sys")
        self.radeon = self.sysfs.amd_card(number=1, bus_id=RADEON_BUS_ID)
        (self.radeon / "mem_info_vram_used").write_text(f"{100 * 2**20}\n")
        rig = (RIGS / "two_gpus.toml").read_text()
        for before, after in {
            '"CUDA1"': '"ROCm0"', "NVIDIA Fake Big": "NVIDIA GeForce RTX 3090",
            "NVIDIA Fake Small": "AMD Radeon RX 7900 XTX", "total_mib = 12288": "total_mib = 24576",
            "speed = 1.0": 'speed = 1.0\nbus_id = "0000:03:00.0"',
            "speed = 0.45": f'speed = 0.45\nbus_id = "{RADEON_BUS_ID}"',
        }.items():  # fmt: skip
            assert before in rig
            rig = rig.replace(before, after)
        self.rig = bench.file("rig.toml", rig)
        self.state = folder / "state"
        self.space = bench.file("space.toml", SPACE)

    @property
    def env(self) -> dict[str, str]:
        return {
            **self.nvml.env, "TUNER_SYSFS": str(self.sysfs.root), "TUNER_STATE": str(self.state),
            "FAKE_RIG": str(self.rig),
        }  # fmt: skip

    def start(self, *words: str, prelude: str = "") -> subprocess.Popen[str]:
        return self.bench.start(*words, prelude=prelude, **self.env)

    def tuner(self, *words: str, code: int = 0, prelude: str = "") -> str:
        process = self.start(*words, prelude=prelude)
        out, err = process.communicate(timeout=120)
        assert process.returncode == code, f"{out}\n{err}"
        return out + err

    def study(self, *more: str) -> list[str]:
        words = self.bench.quick("--space", str(self.space), "--confirm-rounds", "2", *more)
        return words if "--trials" in more else [*words, "--trials", "3"]

    @property
    def nvidia_cap_w(self) -> float:
        return float(self.nvml.get(0, "cap_mw")) / 1000

    @property
    def radeon_cap(self) -> Path:
        (file,) = self.radeon.glob("hwmon/hwmon*/power1_cap")
        return file

    @property
    def radeon_cap_w(self) -> float:
        return int(self.radeon_cap.read_text()) / 1e6


@pytest.fixture
def machine(bench: Bench, tmp_path: Path) -> Machine:
    return Machine(bench, tmp_path)


def uses(record: TrialRecord) -> Mapping[str | None, float | None]:
    assert record.measurement is not None
    return {use.device: use.memory_peak_mib for use in record.measurement.gpus}


def test_each_trial_holds_both_cards_rightly_named(machine: Machine) -> None:
    machine.tuner(*machine.study())
    for record in machine.bench.records():
        assert uses(record).keys() == {"CUDA0", "ROCm0"}
        assert record.measurement is not None
        by_device = {use.device: use.name for use in record.measurement.gpus}
        assert by_device["CUDA0"] == "NVIDIA GeForce RTX 3090"
        assert by_device["ROCm0"].startswith("AMD")
        with (machine.bench.study() / record.folder / "gpu.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert len({row["card"] for row in rows}) == 2
        assert all(float(row["used_mib"]) == 100 for row in rows)
    found = json.loads(machine.tuner("best", "s", "--json"))["profiles"][0]
    assert {gpu["device"] for gpu in found["metrics"]["gpus"]} == {"CUDA0", "ROCm0"}
    shown = machine.tuner("doctor", "s")
    assert "0000:03:00.0" in shown
    assert RADEON_BUS_ID in shown
    assert "350 W (100 to 366)" in shown
    assert "339 W (200 to 390)" in shown
    assert "off unless --power-cap allows it" in shown
    assert re.search(r"CUDA0 .*is the card at 0000:03:00.0", shown)


def test_caps_are_searched_on_one_launch_and_given_back(machine: Machine) -> None:
    machine.tuner(*machine.study("--power-cap", "--trials", "6"))
    records = machine.bench.records()
    caps = {tuple(v for k, v in record.configuration.values.items() if "power" in k) for record in records}
    assert len(caps) > 2
    launches = {record.launched.argv for record in records if record.launched}
    assert len(launches) < len(records), "several caps were measured on one launch"
    for record in records:
        assert record.measurement is not None
        asked = {k: v for k, v in record.configuration.values.items() if "power" in k}
        held = {use.device: use.power_cap_w for use in record.measurement.gpus}
        assert sorted(asked.values()) == sorted(held.values()), "what was asked for was in force"  # type: ignore[type-var]
        for command in record.cap_commands:
            assert "nvidia-smi" in command or "power1_cap" in command or "amd-smi" in command
    assert (machine.nvidia_cap_w, machine.radeon_cap_w) == (350, 339)
    assert not (machine.state / "power-caps.json").exists()


def test_a_kill_while_a_cap_is_lowered_is_mended_by_the_next_start(machine: Machine) -> None:
    process = machine.start(*machine.study("--power-cap", "--trials", "40"))
    machine.bench.wait_for(lambda: machine.nvidia_cap_w < 350 or machine.radeon_cap_w < 339, of=process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert (machine.state / "power-caps.json").exists()
    told = machine.tuner("restore-power")
    assert "restored" in told
    assert (machine.nvidia_cap_w, machine.radeon_cap_w) == (350, 339)
    assert "no run has left" in machine.tuner("restore-power")
    machine.tuner("run", "s", "--trials", "4")
    assert (machine.nvidia_cap_w, machine.radeon_cap_w) == (350, 339)


def test_the_next_run_restores_what_a_kill_left_before_it_measures(machine: Machine) -> None:
    process = machine.start(*machine.study("--power-cap", "--trials", "40"))
    machine.bench.wait_for(lambda: machine.radeon_cap_w < 339, of=process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    told = machine.tuner("run", "s", "--trials", "3")
    assert "restored" in told
    assert (machine.nvidia_cap_w, machine.radeon_cap_w) == (350, 339)


def test_ctrl_c_gives_the_caps_back(machine: Machine) -> None:
    process = machine.start(*machine.study("--power-cap", "--trials", "40"))
    machine.bench.wait_for(lambda: machine.nvidia_cap_w < 350, of=process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert (machine.nvidia_cap_w, machine.radeon_cap_w) == (350, 339)
    machine.bench.assert_nothing_left()


def test_without_the_right_to_it_is_said_and_tuned_without(machine: Machine) -> None:
    machine.nvml.set(0, error__nvmlDeviceSetPowerManagementLimit=4)
    machine.tuner(*machine.study("--power-cap"))
    shown = machine.tuner("doctor", "s")
    tuned, _, left = shown.partition("Will not be tuned:")
    assert "power_cap" in tuned, "the Radeon's cap can be set"
    names = {name for record in machine.bench.records() for name in record.configuration.values}
    assert "power_cap" in names
    assert "339" in tuned
    assert machine.nvidia_cap_w == 350
    assert left


def test_memory_that_does_not_come_back_pauses_and_then_ends_the_run(machine: Machine) -> None:
    """A driver that keeps what an engine held: measured there, the next launch would be another machine's."""
    hurry = "from tuner.study import machine_state\nmachine_state._DRAIN_S = 0.3\nmachine_state._PAUSE_S = 1.0\n"
    program = machine.bench.file(
        "leaky",
        f"""#!{sys.executable}
import os, sys
if "--alias" in sys.argv and "dry-run" not in sys.argv:
    with open({str(machine.nvml.state)!r}, "a") as file:
        file.write("0.used_mib 9000\\n")
os.execv({sys.executable!r}, [{sys.executable!r}, {str(FAKE)!r}, *sys.argv[1:]])
""",
    )
    program.chmod(0o755)
    words = machine.study()
    words[words.index(str(FAKE))] = str(program)
    said = machine.tuner(*words, code=2, prelude=hurry)
    assert "paused: memory of the last launch has not come back" in said
    assert "8900 MiB more than before" in said
    assert len(machine.bench.records()) == 1
    machine.nvml.set(0, used_mib=100)
    started = time.monotonic()
    process = machine.start("run", "s", "--trials", "1", prelude=hurry)
    process.communicate()
    assert time.monotonic() - started < 60


def test_heat_is_waited_for_and_marked(machine: Machine) -> None:
    """The card is held down by heat from the second launch on: measured again after cooling, and marked."""
    hurry = "from tuner.study import machine_state as state\nstate._COOLING_S = state._COOLING_STEP_S = 0.1\n"
    machine.tuner(*machine.study("--trials", "1"), prelude=hurry)
    machine.nvml.set(0, reasons=0x20)
    said = machine.tuner("run", "s", "--trials", "2", prelude=hurry)
    assert "measured again after cooling: NVIDIA GeForce RTX 3090 was held down for 100% of the time" in said
    hot = machine.bench.records()[1]
    assert hot.measurement is not None
    assert any("held down" in told for told in hot.measurement.observations)
    assert hot.verdict is not None
    assert hot.verdict.outcome is Outcome.OK


def test_spill_into_host_memory_is_a_collapse(machine: Machine) -> None:
    machine.tuner(*machine.study("--trials", "1"))
    gtt = machine.radeon / "mem_info_gtt_used"
    idle = int(gtt.read_text())
    process = machine.start("run", "s", "--trials", "2")
    # As soon as the second engine is up, its driver moves a gigabyte to the host.
    machine.bench.wait_for(lambda: len(machine.bench.raw_records()) == 2 and machine.bench.engines(), of=process)
    gtt.write_text(f"{idle + 2**30}\n")
    machine.bench.wait_for(lambda: machine.bench.records()[1].verdict is not None, of=None)
    gtt.write_text(f"{idle}\n")
    process.communicate(timeout=60)
    verdict = machine.bench.records()[1].verdict
    assert verdict is not None
    assert verdict.outcome is Outcome.DEGRADED
    assert "ROCm0 ran short: its driver put 1024 MiB into host memory" in verdict.reason


def test_without_any_card_nothing_of_this_is_in_the_way(bench: Bench, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    bench.monkeypatch.setenv("TUNER_SYSFS", str(empty))
    said = bench.tuner(*bench.quick("--trials", "1"))
    assert said.code == 0
    assert not re.search(r"^ +(card|power) |warning", said.out, re.MULTILINE)
    assert not list(bench.study().glob("trials/*/gpu.csv"))
