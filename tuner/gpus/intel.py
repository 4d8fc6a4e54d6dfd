"""Intel cards, from sysfs: the drivers xe and i915. They tell little of memory in use, so it stays unknown.

Sources: the kernel's ABI files sysfs-driver-intel-xe-hwmon and -i915-hwmon, and its pages "Xe GT Frequency
Management" and "Xe GT Throttle".
"""

from __future__ import annotations

import time
from pathlib import Path

from tuner.domain.gpu import CURRENT_LIMIT, POWER_CAP, GpuIdentity, GpuProcess, GpuReading, PowerCap
from tuner.gpus.card import Card
from tuner.gpus.fdinfo import processes_on
from tuner.gpus.sysfs import BYTES_PER_MIB, DrmDevice, drm_devices, on_battery, pci_name, read_int

VENDOR_ID = "0x8086"

_CHANNELS = (1, 2)  # the whole card, else the chip alone: xe shows only the latter on some cards
_MICROJOULES_PER_JOULE = 1_000_000
_THROTTLE_WORDS = {
    "pl1": POWER_CAP,
    "pl2": POWER_CAP,
    "pl4": CURRENT_LIMIT,
    "vr_tdc": CURRENT_LIMIT,
    "iccmax": CURRENT_LIMIT,
    "thermal": "heat",
    "mem_thermal": "heat",
    "vr_thermal": "heat",
    "vr_thermalert": "heat",
    "soc_thermal": "heat",
    "soc_avg_thermal": "heat",
    "ratl": "heat",
    "prochot": "hardware slowdown",
    "pwrbrk": "hardware slowdown",
}


def find_cards(sysfs_root: Path = Path("/sys")) -> list[Card]:
    """The cards with sensors, in PCI order. A graphics unit inside the CPU has none, and is left out."""
    return [IntelCard(device) for device in drm_devices(sysfs_root, VENDOR_ID) if device.hwmon() is not None]


class IntelCard:
    """See `tuner.gpus.card.Card`."""

    def __init__(self, device: DrmDevice) -> None:
        self._device = device
        self._last_energy: tuple[float, float] | None = None  # when (s), how much (J)
        device_id = device.text("device") or "0x0000"
        self.identity = GpuIdentity(
            vendor="Intel",
            name=pci_name(VENDOR_ID, device_id) or f"Intel device {device_id}",
            pci_bus_id=device.pci_bus_id,
            total_mib=_total_mib(device),
            source="sysfs",
        )

    def read(self) -> GpuReading:
        device = self._device
        temperatures = device.hwmon_by_label("temp")
        energy_j = self._energy_j()
        temperature_mc = temperatures.get("pkg", temperatures.get("temp1"))
        core_clock_mhz = _first_int(device, ("tile0/gt0/freq0/act_freq", "../gt/gt0/rps_act_freq_mhz"))
        if energy_j is None and not temperatures and core_clock_mhz is None:
            return GpuReading()  # lost
        vram_mc = temperatures.get("vram")
        return GpuReading(
            power_w=self._mean_power_w(energy_j),
            energy_j=energy_j,
            temperature_c=None if temperature_mc is None else temperature_mc / 1000,
            memory_temperature_c=None if vram_mc is None else vram_mc / 1000,
            core_clock_mhz=core_clock_mhz,
            throttled_by=_throttled_by(device),
            on_battery=on_battery(device.sysfs_root),
        )

    def power_cap(self) -> PowerCap | None:
        channel = self._cap_channel()
        if channel is None:
            return None
        cap_w = self._device.hwmon_watts(f"power{channel}_max")
        rated_w = self._device.hwmon_watts(f"power{channel}_rated_max")
        # 0 is a limit that was switched off. There would be no way to put that back by setting a cap.
        if not cap_w or not rated_w or rated_w <= 1:
            return None
        # No least value is told: the driver takes all above 0, and shows what the card made of it when read back.
        return PowerCap(cap_w=cap_w, min_w=1.0, max_w=rated_w, default_w=rated_w)

    def set_power_cap(self, watts: float) -> None:
        self._device.set_cap(f"power{self._cap_channel() or 1}_max", watts)

    def cap_command(self, watts: float) -> str:
        return self._device.cap_command(f"power{self._cap_channel() or 1}_max", watts)

    def processes(self) -> list[GpuProcess]:
        return processes_on(self._device.pci_bus_id) if self._device.pci_bus_id else []

    def _cap_channel(self) -> int | None:
        known = (channel for channel in _CHANNELS if self._device.hwmon_int(f"power{channel}_max") is not None)
        return next(known, None)

    def _energy_j(self) -> float | None:
        known = (self._device.hwmon_int(f"energy{channel}_input") for channel in _CHANNELS)
        microjoules = next((value for value in known if value is not None), None)
        return None if microjoules is None else microjoules / _MICROJOULES_PER_JOULE

    def _mean_power_w(self, energy_j: float | None) -> float | None:
        """Since the last look: there is a counter of energy only. A counter that fell was reset with the driver."""
        now_s, last = time.monotonic(), self._last_energy
        self._last_energy = None if energy_j is None else (now_s, energy_j)
        if energy_j is None or last is None or energy_j < last[1] or now_s <= last[0]:
            return None
        return (energy_j - last[1]) / (now_s - last[0])


def _first_int(device: DrmDevice, names: tuple[str, ...]) -> int | None:
    known = (read_int(_place(device, name)) for name in names)
    return next((value for value in known if value is not None), None)


def _place(device: DrmDevice, name: str) -> Path:
    """`../` leads to the card's DRM folder. By name: the folder `device` is a link, whose real parent is another."""
    return device.folder.parent / name.removeprefix("../") if name.startswith("../") else device.folder / name


def _total_mib(device: DrmDevice) -> float | None:
    """xe tells the memory of each tile, with the part that is kept for itself; i915 tells it on some kernels."""
    tiles = [
        *device.folder.glob("tile*/physical_vram_size_bytes"),
        *device.folder.glob("tile*/memory/physical_vram_size_bytes"),
    ]
    sizes = [size for size in (read_int(path) for path in tiles) if size is not None]
    total_bytes = sum(sizes) or _first_int(device, ("lmem_total_bytes", "../lmem_total_bytes"))
    return total_bytes / BYTES_PER_MIB if total_bytes else None


def _throttled_by(device: DrmDevice) -> tuple[str, ...] | None:
    """xe: `throttle/reason_pl1`; i915: `throttle_reason_pl1`."""
    files = [
        *_place(device, "tile0/gt0/freq0/throttle").glob("reason_*"),
        *_place(device, "../gt/gt0").glob("throttle_reason_*"),
    ]
    words: set[str] = set()
    told = False
    for path in files:
        value = read_int(path)
        told = told or value is not None
        word = _THROTTLE_WORDS.get(path.name.partition("reason_")[2])
        if value and word:
            words.add(word)
    return tuple(sorted(words)) if told else None
