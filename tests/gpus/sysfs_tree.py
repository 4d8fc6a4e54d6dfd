"""Builds the parts of sysfs that tell of graphics cards and power supplies, with the kernel's links and units."""

from __future__ import annotations

import itertools
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path

GIB = 1024**3
_hwmon_numbers = itertools.count(3)


class SysfsTree:
    def __init__(self, root: Path) -> None:
        self.root = root

    def card(
        self,
        number: int,
        bus_id: str,
        *,
        vendor: str,
        driver: str,
        files: Mapping[str, str | int],
        sensors: Mapping[str, str | int] | None,
    ) -> Path:
        """A card; answers with its device folder. `sensors` None: it has no hwmon folder."""
        device = self.root / "devices" / "pci0000:00" / bus_id
        write(device, {"vendor": vendor, "uevent": f"DRIVER={driver}\nPCI_ID=X\nPCI_SLOT_NAME={bus_id}", **files})
        link(self.root / "bus" / "pci" / "devices" / bus_id, device)
        link(self.root / "class" / "drm" / f"card{number}" / "device", device)
        # The card's connectors and its render node lie beside it, and lead to the card, or to the device, too.
        link(self.root / "class" / "drm" / f"card{number}-DP-1" / "device", device)
        link(self.root / "class" / "drm" / f"renderD{128 + number}" / "device", device)
        if sensors is not None:
            self.add_sensors(bus_id, driver, sensors)
        return device

    def add_sensors(self, bus_id: str, driver: str, sensors: Mapping[str, str | int]) -> Path:
        """A hwmon folder under a number that was not used before."""
        folder = self.root / "devices" / "pci0000:00" / bus_id / "hwmon" / f"hwmon{next(_hwmon_numbers)}"
        write(folder, {"name": driver, **sensors})
        return folder

    def remove_sensors(self, bus_id: str) -> None:
        shutil.rmtree(self.root / "devices" / "pci0000:00" / bus_id / "hwmon")

    def amd_card(self, number: int = 0, bus_id: str = "0000:03:00.0", **sensors: str | int) -> Path:
        """A Radeon RX 7900 XTX, 6 GiB of its 24 in use, drawing 210 of the 339 W that it is allowed."""
        files = {
            "device": "0x744c",
            "unique_id": f"abcdef000000000{number}",
            "mem_info_vram_total": 24 * GIB,
            "mem_info_vram_used": 6 * GIB,
            "mem_info_gtt_total": 32 * GIB,
            "mem_info_gtt_used": GIB // 2,
        }
        return self.card(
            number, bus_id, vendor="0x1002", driver="amdgpu", files=files, sensors={**AMD_SENSORS, **sensors}
        )

    def amd_apu(self, number: int = 2, bus_id: str = "0000:0c:00.0") -> Path:
        """A graphics unit beside the CPU: 512 MiB set aside for it, 48 GiB lent; no cap, no unique id."""
        files = {
            "device": "0x150e",
            "mem_info_vram_total": GIB // 2,
            "mem_info_vram_used": GIB // 4,
            "mem_info_gtt_total": 48 * GIB,
            "mem_info_gtt_used": 10 * GIB,
        }
        sensors = {
            "in1_label": "vddnb",
            "power1_input": 21_000_000,
            "temp1_input": 55_000,
            "temp1_label": "edge",
            "freq1_input": 2_700_000_000,
            "freq1_label": "sclk",
        }
        return self.card(number, bus_id, vendor="0x1002", driver="amdgpu", files=files, sensors=sensors)

    def intel_card(self, number: int = 1, bus_id: str = "0000:05:00.0") -> Path:
        """An Arc B580 with the driver xe."""
        sensors = {
            "power1_max": 190_000_000,
            "power1_rated_max": 190_000_000,
            "energy1_input": 5_000_000_000,
            "temp2_input": 61_000,
            "temp2_label": "pkg",
            "temp3_input": 70_000,
            "temp3_label": "vram",
        }
        files = {"device": "0xe20b", "tile0/gt0/freq0/act_freq": 2850, "tile0/physical_vram_size_bytes": 12 * GIB}
        return self.card(number, bus_id, vendor="0x8086", driver="xe", files=files, sensors=sensors)

    def power_supply(self, name: str, **files: str | int) -> None:
        write(self.root / "class" / "power_supply" / name, files)


AMD_SENSORS: Mapping[str, str | int] = {
    "power1_average": 210_000_000,
    "power1_cap": 339_000_000,
    "power1_cap_default": 339_000_000,
    "power1_cap_min": 200_000_000,
    "power1_cap_max": 390_000_000,
    "temp1_input": 62_000,
    "temp1_label": "edge",
    "temp2_input": 78_000,
    "temp2_label": "junction",
    "temp3_input": 84_000,
    "temp3_label": "mem",
    "freq1_input": 2_482_000_000,
    "freq1_label": "sclk",
    "freq2_input": 1_249_000_000,
    "freq2_label": "mclk",
}


def gpu_metrics(throttle_bits: int, revision: tuple[int, int] = (1, 3)) -> bytes:
    """A table as the amdgpu driver writes it, all unknown but for the header and the bits at its end."""
    size = {(1, 3): 120, (2, 2): 128}.get(revision, 264)
    header = struct.pack("<HBB", size, *revision)
    body = b"\xff" * (size - len(header) - 8)
    return header + body + struct.pack("<Q", throttle_bits)


def write(folder: Path, files: Mapping[str, str | int]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{content}\n", encoding="utf-8")


def link(path: Path, target: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
