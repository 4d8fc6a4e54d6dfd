"""Watching cards while a workload runs."""

from __future__ import annotations

import csv
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from nvml_stub import NvmlStub
from plain_card import PlainCard

from tuner.domain.gpu import CLOCKS_SET, POWER_CAP, GpuIdentity, GpuReading, GpuUse
from tuner.gpus.recorder import GpuRecorder
from tuner.gpus.tally import Tally


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def summed(*readings: GpuReading, idle: GpuReading | None = None) -> GpuUse:
    """The use over readings that are one second apart."""
    tally = Tally(GpuIdentity(vendor="AMD", name="Card", source="a test"), idle or GpuReading())
    for second, reading in enumerate(readings):
        tally.add(1000.0 + second, reading)
    return tally.use()


def powers(*watts: float | None) -> tuple[GpuReading, ...]:
    return tuple(GpuReading(power_w=each, used_mib=1) for each in watts)


def test_peaks_and_means() -> None:
    use = summed(
        GpuReading(used_mib=500, spill_mib=90, temperature_c=60, core_clock_mhz=1800, pcie_rx_mib_s=5),
        GpuReading(used_mib=900, spill_mib=2090, temperature_c=75, core_clock_mhz=1200),
        GpuReading(used_mib=700, spill_mib=1000, temperature_c=70, core_clock_mhz=1500, pcie_rx_mib_s=3),
        idle=GpuReading(used_mib=400, spill_mib=100),
    )
    assert (use.samples, use.memory_idle_mib, use.memory_peak_mib, use.spill_growth_mib) == (3, 400, 900, 1990)
    assert (use.temperature_max_c, use.core_clock_mean_mhz, use.core_clock_min_mhz) == (75, 1500, 1200)
    assert use.pcie_rx_peak_mib_s == 5


def test_what_was_never_told_is_none() -> None:
    for use in (summed(), summed(GpuReading()), summed(GpuReading(), GpuReading())):
        told = use.model_dump(exclude={"key", "name", "samples", "throttled_by"})
        assert set(told.values()) == {None}
        assert (use.samples, use.throttled_by) == (0, ())


def test_spill_is_known_only_beside_an_idle_reading() -> None:
    assert summed(GpuReading(spill_mib=500)).spill_growth_mib is None
    assert summed(GpuReading(spill_mib=50), idle=GpuReading(spill_mib=80)).spill_growth_mib == 0


@pytest.mark.parametrize(
    ("readings", "joules"),
    [
        ([GpuReading(energy_j=100, power_w=1), GpuReading(energy_j=350, power_w=1)], 250),
        (powers(100, 200, 300), 400),
        (powers(100), None),  # No time has passed.
        (powers(None, None), None),
        (powers(100, None, None, 100), None),  # Too little is known.
        ([*powers(*[100] * 20), *powers(None)], 2000),  # Enough is known: 19 s of 20.
        ([GpuReading(energy_j=100), GpuReading(energy_j=200), GpuReading()], None),  # Lost meanwhile.
        ([GpuReading(energy_j=900), GpuReading(energy_j=10), GpuReading(energy_j=20)], None),  # A new driver.
        ([GpuReading(energy_j=e, power_w=50) for e in (900, 10, 20)], 100),  # The same, and the power is known.
    ],
)
def test_energy(readings: list[GpuReading], joules: float | None) -> None:
    assert summed(*readings).energy_j == (None if joules is None else pytest.approx(joules))


def test_mean_power_weighs_by_time() -> None:
    tally = Tally(GpuIdentity(vendor="AMD", name="Card", source="a test"), GpuReading())
    for second, reading in zip((0.0, 9.0, 10.0), powers(100, 100, 300), strict=True):
        tally.add(second, reading)
    assert tally.use().power_mean_w == pytest.approx((900 + 200) / 10)
    assert tally.use().power_peak_w == 300


def test_a_cap_is_no_throttling_and_is_told() -> None:
    use = summed(
        GpuReading(throttled_by=()),
        GpuReading(throttled_by=(POWER_CAP,)),
        GpuReading(throttled_by=(CLOCKS_SET, POWER_CAP)),
        GpuReading(throttled_by=("heat", POWER_CAP)),
        GpuReading(used_mib=1),  # Did not tell: counts for neither.
    )
    assert use.throttled_share == 0.25
    assert set(use.throttled_by) == {POWER_CAP, CLOCKS_SET, "heat"}
    assert summed(GpuReading(used_mib=1)).throttled_share is None


def test_samples_are_written_as_they_come(tmp_path: Path) -> None:
    card, other = PlainCard("GPU-1"), PlainCard("GPU-2")
    card.reading = GpuReading(used_mib=1024.5, throttled_by=("a", "b"), on_battery=False)
    other.reading = GpuReading(throttled_by=())
    path = tmp_path / "gpus.csv"
    with GpuRecorder([card, other], path, interval_s=0.01) as recorder:
        wait_for(lambda: len(path.read_text().splitlines()) > 6)
        assert recorder.memory_peaks_mib() == (1024.5, None)
        assert recorder.uses()[0].samples > 0
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["unix_s", "card", *GpuReading.model_fields]
    first = next(row for row in rows if row["card"] == "GPU-1")
    second = next(row for row in rows if row["card"] == "GPU-2")
    assert (first["used_mib"], first["throttled_by"], first["on_battery"], first["power_w"]) == (
        "1024.5",
        "a+b",
        "0",
        "",
    )
    assert (second["used_mib"], second["throttled_by"]) == ("", "none")
    assert abs(float(first["unix_s"]) - time.time()) < 60
    assert sum(use.samples for use in recorder.uses()) == len(rows)


def test_a_second_recording_goes_on_in_the_file(tmp_path: Path) -> None:
    for _ in range(2):
        with GpuRecorder([PlainCard()], tmp_path / "gpus.csv"):
            pass
    lines = (tmp_path / "gpus.csv").read_text().splitlines()
    assert [line.startswith("unix_s") for line in lines] == [True] + [False] * (len(lines) - 1)
    assert len(lines) >= 3, "each recording takes a look at least"


def test_a_reading_at_the_very_end(tmp_path: Path) -> None:
    """The peak of a short workload may be seen only then."""
    card = PlainCard()
    with GpuRecorder([card], tmp_path / "gpus.csv", interval_s=60) as recorder:
        wait_for(lambda: recorder.read_s > 0)
        card.reading = GpuReading(used_mib=77)
    assert recorder.memory_peaks_mib() == (77,)


def test_a_cap_that_stayed_is_told(tmp_path: Path) -> None:
    steady, changed, none = PlainCard("1"), PlainCard("2"), PlainCard("3", cap_w=None)
    with GpuRecorder([steady, changed, none], tmp_path / "gpus.csv", interval_s=0.01) as recorder:
        wait_for(lambda: all(line in (tmp_path / "gpus.csv").read_text() for line in (",1,", ",2,", ",3,")))
        changed.cap_w = 200
    assert [use.power_cap_w for use in recorder.uses()] == [300, None, None]


def test_a_card_that_fails_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    broken, sound = PlainCard("1", name="Broken"), PlainCard("2")
    sound.reading = GpuReading(used_mib=5)
    with GpuRecorder([broken, sound], tmp_path / "gpus.csv", interval_s=0.01) as recorder:
        broken.read_raises = True
        wait_for(lambda: bool(recorder.notes))
        seen = recorder.uses()[1].samples
        wait_for(lambda: recorder.uses()[1].samples > seen + 2)
    assert len(recorder.notes) == 1
    assert "Broken" in recorder.notes[0]


def test_a_driver_that_hangs_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.gpus.recorder._PATIENCE_S", 0.1)
    release = threading.Event()

    class Hanging(PlainCard):
        def read(self) -> GpuReading:
            if self.readings:
                return super().read()
            release.wait(20)
            return GpuReading()

    hanging, sound = Hanging("1", name="Hanging"), PlainCard("2")
    hanging.readings = list(powers(100, 100, 100))
    sound.readings = list(powers(100, 100))
    sound.reading = sound.readings[0]
    began = time.monotonic()
    with GpuRecorder([hanging, sound], tmp_path / "gpus.csv", interval_s=0.01) as recorder:
        wait_for(lambda: min(use.samples for use in recorder.uses()) >= 3)
    assert time.monotonic() - began < 5
    hung, other = recorder.uses()
    assert (hung.power_peak_w, hung.energy_j) == (100, None), "a part of the energy is not all of it"
    assert other.energy_j is not None
    assert ["Hanging" in note for note in recorder.notes] == [True]
    release.set()


def test_a_driver_that_hangs_does_not_keep_the_tuner_from_ending(tmp_path: Path) -> None:
    code = """
import sys, time
from pathlib import Path
import tuner.gpus.recorder
from plain_card import PlainCard
tuner.gpus.recorder._PATIENCE_S = 0.05
card = PlainCard()
card.read_takes_s = 60
with tuner.gpus.recorder.GpuRecorder([card], Path(sys.argv[1])):
    pass
"""
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "gpus.csv")],
        env={"PYTHONPATH": ":".join(filter(None, sys.path))},
        check=True,
        timeout=20,
    )


def test_a_file_that_cannot_be_written_costs_the_samples_only(tmp_path: Path) -> None:
    card = PlainCard()
    card.reading = GpuReading(used_mib=5)
    with GpuRecorder([card], tmp_path / "missing" / "gpus.csv") as recorder:
        pass
    assert recorder.memory_peaks_mib() == (5,)
    assert any("not written" in note for note in recorder.notes)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")
def test_a_full_disk_costs_the_samples_only() -> None:
    card = PlainCard()
    card.reading = GpuReading(used_mib=5)
    with GpuRecorder([card], Path("/dev/full"), interval_s=0.01) as recorder:
        wait_for(lambda: recorder.uses()[0].samples > 2)
    assert any("not written" in note for note in recorder.notes)


def test_the_cost_is_measured_and_a_slow_driver_asked_less_often(tmp_path: Path) -> None:
    card = PlainCard()
    card.read_takes_s = 0.05
    with GpuRecorder([card], tmp_path / "gpus.csv", interval_s=0.001) as recorder:
        began = time.monotonic()
        time.sleep(0.5)
        passed_s = time.monotonic() - began
    # The one at the end is taken at once, whatever the last one took.
    assert 0.05 <= recorder.read_s <= 0.3 * passed_s + 0.1
    assert 0 < recorder.cpu_s < recorder.read_s


def test_nothing_is_made_without_a_card(tmp_path: Path) -> None:
    before = threading.active_count()
    with GpuRecorder([], tmp_path / "gpus.csv") as recorder:
        assert threading.active_count() == before
    assert (recorder.uses(), recorder.notes, recorder.read_s, list(tmp_path.iterdir())) == ((), (), 0, [])


def test_a_kill_loses_no_sample(tmp_path: Path) -> None:
    code = """
import sys, time
from pathlib import Path
from plain_card import PlainCard
from tuner.domain.gpu import GpuReading
from tuner.gpus.recorder import GpuRecorder
card = PlainCard()
card.reading = GpuReading(used_mib=1234)
with GpuRecorder([card], Path(sys.argv[1]), interval_s=0.01) as recorder:
    while recorder.uses()[0].samples < 5: time.sleep(0.01)
    seen = recorder.uses()[0].samples
    print(seen, flush=True)
    time.sleep(60)
"""
    path = tmp_path / "gpus.csv"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        env={"PYTHONPATH": ":".join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    seen = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=10)
    rows = path.read_text().splitlines()[1:]
    # A sample counts as seen a moment before it is written.
    assert len(rows) >= seen - 1
    assert all(row.split(",")[2] == "1234" for row in rows[:-1])


def test_on_the_real_binding(nvml: NvmlStub, tmp_path: Path) -> None:
    """A workload that fills the card, and the card that is lost in the end."""
    number = nvml.add_card(reasons=0x4)
    code = """
import sys, time
from pathlib import Path
from tuner.gpus.idle import idle_readings
from tuner.gpus.nvidia import find_cards
from tuner.gpus.recorder import GpuRecorder

state = open(sys.argv[2], "a")
def say(line):
    print(line, file=state, flush=True)
    time.sleep(0.1)

cards = find_cards()
with GpuRecorder(cards, Path(sys.argv[1]), idle_readings(cards), interval_s=0.02) as recorder:
    time.sleep(0.1)
    say("0.used_mib 20600")
    say("0.energy_mj 5009000")
full = recorder.uses()[0]
with GpuRecorder(cards, Path(sys.argv[1]), interval_s=0.02) as recorder:
    time.sleep(0.1)
    say("0.error 15")
lost = recorder.uses()[0]
assert recorder.notes == ()
print(full.memory_idle_mib, full.memory_peak_mib, full.energy_j, full.throttled_share, *full.throttled_by, sep="|")
print(full.power_cap_w, lost.power_cap_w, lost.memory_peak_mib, lost.energy_j, sep="|")
"""
    out = nvml.output(code, str(tmp_path / "gpus.csv"), str(nvml.state)).splitlines()
    assert number == 0
    assert out == ["600.0|20600.0|9.0|0.0|power cap", "350.0|None|20600.0|None"]
