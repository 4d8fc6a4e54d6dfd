"""NVIDIA cards: the real pynvml, in a Python of its own, on a stand-in for the driver's library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from nvml_stub import NvmlStub

from tuner.domain.gpu import CLOCKS_SET, POWER_CAP

LOOK = """
import json
from tuner.gpus.nvidia import find_cards
for card in find_cards():
    cap = card.power_cap()
    print(json.dumps({
        "identity": card.identity.model_dump(), "reading": card.read().model_dump(),
        "cap": cap and cap.model_dump(), "processes": [process.model_dump() for process in card.processes()],
    }))
"""


def look(stub: NvmlStub) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stub.output(LOOK).splitlines()]


def test_everything_that_a_card_tells(nvml: NvmlStub) -> None:
    nvml.add_card(Compute=f"{os.getpid()}:2048 999999999:", Graphics=f"{os.getpid()}: 1:30")
    (card,) = look(nvml)
    assert card["identity"] == {
        "vendor": "NVIDIA",
        "name": "NVIDIA GeForce RTX 3090",
        "pci_bus_id": "0000:03:00.0",
        "uuid": "GPU-11111111-2222-3333-4444-555555555555",
        "total_mib": 24576,
        "driver": "570.00",
        "source": "NVML",
    }
    assert card["reading"] == {
        "used_mib": 600,
        "reserved_mib": 320,
        "spill_mib": None,
        "power_w": 112.5,
        "energy_j": 5000,
        "temperature_c": 61,
        "memory_temperature_c": 84,
        "core_clock_mhz": 1725,
        "memory_clock_mhz": 9501,
        "throttled_by": [],
        "pcie_rx_mib_s": 2,
        "pcie_tx_mib_s": None,
        "on_battery": False,
    }
    assert card["cap"] == {"cap_w": 350, "min_w": 100, "max_w": 366, "default_w": 350}
    mine, first, unknown = (
        next(process for process in card["processes"] if process["pid"] == pid) for pid in (os.getpid(), 1, 999999999)
    )
    assert len(card["processes"]) == 3
    assert mine["used_mib"] == 2048, "one that computes and draws is told once, by what is known"
    assert "py" in mine["name"]
    assert first["used_mib"] == 30
    assert (unknown["used_mib"], unknown["name"]) == (None, None)


def test_an_old_driver_is_asked_by_its_own_calls(nvml_of_an_old_driver: NvmlStub) -> None:
    nvml_of_an_old_driver.add_card(reasons=0x4, Compute="1:2048")
    (card,) = look(nvml_of_an_old_driver)
    reading = card["reading"]
    assert (reading["used_mib"], reading["reserved_mib"]) == (920, None), "the driver's own is not told apart"
    assert (reading["temperature_c"], reading["throttled_by"], reading["on_battery"]) == (61, [POWER_CAP], None)
    assert [process["used_mib"] for process in card["processes"]] == [2048]


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0x1, []),
        (0x4 | 0x1, [POWER_CAP]),
        (0x2 | 0x10 | 0x100, [CLOCKS_SET]),
        (0x8 | 0x40, ["hardware slowdown", "heat"]),
        (0x40 | 0x20, ["heat"]),
        (0x80 | 0x20, ["heat", "power brake"]),
        (1 << 40, ["reason 0x10000000000"]),
    ],
)
def test_why_clocks_are_held_down_is_told_in_words(nvml: NvmlStub, bits: int, words: list[str]) -> None:
    nvml.add_card(reasons=bits)
    assert look(nvml)[0]["reading"]["throttled_by"] == words


def test_what_a_card_does_not_support_is_none(nvml: NvmlStub) -> None:
    told = ("power_mw", "energy_mj", "temperature", "memory_temperature", "core_mhz", "memory_mhz", "reasons", "rx_kb")
    nvml.add_card(uuid=None, bus_id=None, cap_mw=None, power_source=None, **dict.fromkeys(told))
    (card,) = look(nvml)
    reading = card["reading"]
    assert {name for name, value in reading.items() if value is not None} == {"used_mib", "reserved_mib"}
    assert card["cap"] is None
    assert (card["identity"]["uuid"], card["identity"]["pci_bus_id"]) == (None, None)


@pytest.mark.parametrize(
    ("changes", "cap"),
    [
        ({"min_cap_mw": 175000, "max_cap_mw": 175000}, None),  # A laptop: nothing to choose.
        ({"min_cap_mw": None}, None),
        ({"default_cap_mw": None}, {"cap_w": 350, "min_w": 100, "max_w": 366, "default_w": None}),
    ],
)
def test_a_cap_is_one_only_where_it_could_be_set(nvml: NvmlStub, changes: Any, cap: Any) -> None:
    nvml.add_card(**changes)
    assert look(nvml)[0]["cap"] == cap


def test_memory_sensor_that_is_not_there_says_zero(nvml: NvmlStub) -> None:
    nvml.add_card(memory_temperature=0, temperature=0, power_source=1)
    reading = look(nvml)[0]["reading"]
    assert (reading["memory_temperature_c"], reading["temperature_c"], reading["on_battery"]) == (None, 0, True)


def test_a_lost_card_tells_nothing_and_the_other_goes_on(nvml: NvmlStub) -> None:
    nvml.add_card()
    nvml.add_card(uuid="GPU-2", bus_id="00000000:41:00.0")
    code = """
import sys
from tuner.domain.errors import PowerCapRefused
from tuner.domain.gpu import GpuReading
from tuner.gpus.nvidia import find_cards
first, second = find_cards()
assert first.read().used_mib == 600
with open(sys.argv[1], "a") as state:
    state.write("0.error 15\\n")
assert first.read() == GpuReading() and first.power_cap() is None and first.processes() == []
try:
    first.set_power_cap(200)
except PowerCapRefused as error:
    print(error)
assert second.read().used_mib == 600
assert second.identity.pci_bus_id == "0000:41:00.0"
"""
    assert "GPU is lost" in nvml.output(code, str(nvml.state))


SET = """
import sys
from tuner.domain.errors import TunerError
from tuner.gpus.nvidia import find_cards
card = find_cards()[0]
try:
    card.set_power_cap(float(sys.argv[1]))
except TunerError as error:
    print(type(error).__name__, error, sep=": ")
"""


@pytest.mark.parametrize("watts", ["250", "212.5"])
def test_a_cap_is_set_in_milliwatts(nvml: NvmlStub, watts: str) -> None:
    nvml.add_card()
    assert nvml.output(SET, watts) == ""
    assert float(nvml.get(0, "cap_mw")) == float(watts) * 1000


def test_without_the_right_the_command_that_has_it_is_told(nvml: NvmlStub) -> None:
    nvml.add_card(error__nvmlDeviceSetPowerManagementLimit=4)
    told = nvml.output(SET, "250")
    assert told.startswith("NotPermitted")
    assert "sudo nvidia-smi -i 0000:03:00.0 -pl 250" in told


@pytest.mark.parametrize(
    ("changes", "watts", "words"),
    [
        ({}, "50", "it takes 100 to 366 W"),
        ({}, "-5", "no power cap"),
        ({}, "nan", "no power cap"),
        ({"error__nvmlDeviceSetPowerManagementLimit": 3, "cap_mw": None}, "250", "leave the power cap out"),
    ],
)
def test_a_refused_cap_says_why(nvml: NvmlStub, changes: Any, watts: str, words: str) -> None:
    nvml.add_card(**changes)
    told = nvml.output(SET, watts)
    assert told.startswith("PowerCapRefused")
    assert words in told


def test_pcie_traffic_is_asked_seldom_and_in_turn(nvml: NvmlStub) -> None:
    """It blocks for 20 ms: ten looks in a row must not."""
    nvml.add_card()
    code = """
import time
from tuner.gpus.nvidia import find_cards
card = find_cards()[0]
card.read()
times = []
for _ in range(10):
    began = time.monotonic(); reading = card.read(); times.append(time.monotonic() - began)
    assert reading.pcie_rx_mib_s is None and reading.pcie_tx_mib_s is None
assert sorted(times)[5] < 0.015, times
time.sleep(0.5)
reading = card.read()
assert (reading.pcie_rx_mib_s, reading.pcie_tx_mib_s) == (None, 1), reading
"""
    nvml.output(code)


FIND = """
from tuner.gpus.find import find_cards
found = find_cards()
print(sum(card.identity.vendor == "NVIDIA" for card in found.cards))
print(*(note for note in found.notes if note.startswith("NVIDIA")), sep="\\n")
"""


@pytest.mark.parametrize(
    ("state", "cards", "note"),
    [
        ({"driver_error": 9}, 0, ""),  # The library without a driver, as in a container.
        ({"count": 0}, 0, ""),
        ({"driver_error": 18}, 0, "restart"),
        ({"driver_error": 999}, 0, "does not start"),
    ],
)
def test_a_driver_in_trouble_is_a_note_and_none_at_all_is_nothing(
    nvml: NvmlStub, state: dict[str, int], cards: int, note: str
) -> None:
    nvml.add_card()
    nvml.set(**state)
    count, told = nvml.output(FIND).split("\n", 1)
    assert int(count) == cards
    assert note in told
    assert bool(told.strip()) == bool(note)


def test_a_card_that_cannot_be_opened_is_told_beside_the_others(nvml: NvmlStub) -> None:
    nvml.add_card(error__nvmlDeviceGetHandleByIndex_v2=15)
    nvml.add_card(uuid="GPU-2")
    count, told = nvml.output(FIND).split("\n", 1)
    assert count == "1"
    assert "card 0 (GPU is lost)" in told


def test_a_library_that_cannot_be_loaded_is_told(nvml: NvmlStub, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "libnvidia-ml.so.1").write_text("not a library at all, but long enough to be taken for one" * 10)
    out, errors = nvml.python(FIND, LD_LIBRARY_PATH=str(broken)).communicate(timeout=30)
    count, told = out.split("\n", 1)
    assert (count, errors) == ("0", "")
    assert "cannot be loaded" in told


def test_without_a_library_the_binding_is_not_even_imported() -> None:
    code = """
import sys
from tuner.gpus import nvidia
assert nvidia.find_cards() == []
assert "pynvml" not in sys.modules
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "LD_LIBRARY_PATH": ""}
    if subprocess.run([sys.executable, "-c", "import ctypes; ctypes.CDLL('libnvidia-ml.so.1')"], env=env,
                      capture_output=True).returncode == 0:  # fmt: skip
        pytest.skip("this machine has NVIDIA's driver")
    subprocess.run([sys.executable, "-c", code], env=env, check=True)


def test_no_vendor_library_is_imported_with_the_program() -> None:
    code = """
import sys
import tuner.cli.app, tuner.gpus.find, tuner.gpus.recorder, tuner.gpus.idle, tuner.gpus.caps, tuner.gpus.nvidia
assert not {"pynvml", "amdsmi"} & set(sys.modules)
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", code], env=env, check=True)
