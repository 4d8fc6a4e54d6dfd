"""An AMD card read from sysfs: what the amdgpu driver tells without ROCm, which is how most Vulkan users run."""

from __future__ import annotations

import struct

from tuner.domain.gpu import CURRENT_LIMIT, POWER_CAP, GpuIdentity, GpuProcess, GpuReading, PowerCap
from tuner.gpus.fdinfo import processes_on
from tuner.gpus.sysfs import DrmDevice, on_battery, pci_name, read_text

VENDOR_ID = "0x1002"

CAP_FILE = "power1_cap"

# Where the driver-independent throttle bits lie in `gpu_metrics`, by the table's format and content revision
# (kgd_pp_interface.h of the kernel). 1.3: Radeon RX 5000 and later; 2.2 to 2.4: APUs. Other tables have none.
_THROTTLE_BITS_AT = {(1, 3): 112, (2, 2): 120, (2, 3): 120, (2, 4): 120}
# amdgpu_smu.h. Bit 57 (FIT, the reliable upper end of the clocks) is left out: a card at its best has it set.
_THROTTLE_WORDS = (
    (range(8), POWER_CAP),
    (range(16, 24), CURRENT_LIMIT),
    (range(32, 46), "heat"),
    (range(46, 48), "hardware slowdown"),
    (range(56, 57), POWER_CAP),
)
_UNKNOWN_U64 = 2**64 - 1


class AmdSysfsCard:
    """See `tuner.gpus.card.Card`."""

    def __init__(self, device: DrmDevice) -> None:
        self._device = device
        self._shares_host_memory = shares_host_memory(device)
        self.identity = identity(device, total_mib=self._memory_mib("total"), source="sysfs")

    def read(self) -> GpuReading:
        device = self._device
        temperatures = device.hwmon_by_label("temp")
        clocks = device.hwmon_by_label("freq")
        used_mib = self._memory_mib("used")
        power_w = device.hwmon_watts("power1_average")  # newer cards have only the momentary figure
        if power_w is None:
            power_w = device.hwmon_watts("power1_input")
        if used_mib is None and power_w is None and not temperatures:
            return GpuReading()  # lost
        return GpuReading(
            used_mib=used_mib,
            spill_mib=None if self._shares_host_memory else device.mib("mem_info_gtt_used"),
            power_w=power_w,
            temperature_c=_scaled(temperatures.get("edge", temperatures.get("junction")), 1000),
            memory_temperature_c=_scaled(temperatures.get("mem"), 1000),
            core_clock_mhz=_scaled(clocks.get("sclk"), 1_000_000) or _chosen_mhz(device.text("pp_dpm_sclk")),
            memory_clock_mhz=_scaled(clocks.get("mclk"), 1_000_000) or _chosen_mhz(device.text("pp_dpm_mclk")),
            throttled_by=throttled_by(device),
            on_battery=on_battery(device.sysfs_root),
        )

    def power_cap(self) -> PowerCap | None:
        device = self._device
        cap_w, min_w, max_w = (device.hwmon_watts(CAP_FILE + end) for end in ("", "_min", "_max"))
        if cap_w is None or min_w is None or max_w is None or min_w >= max_w:
            return None
        return PowerCap(cap_w=cap_w, min_w=min_w, max_w=max_w, default_w=device.hwmon_watts(CAP_FILE + "_default"))

    def set_power_cap(self, watts: float) -> None:
        self._device.set_cap(CAP_FILE, watts)

    def cap_command(self, watts: float) -> str:
        return self._device.cap_command(CAP_FILE, watts)

    def processes(self) -> list[GpuProcess]:
        return processes_on(self._device.pci_bus_id) if self._device.pci_bus_id else []

    def _memory_mib(self, what: str) -> float | None:
        own_mib = self._device.mib(f"mem_info_vram_{what}")
        lent_mib = self._device.mib(f"mem_info_gtt_{what}") if self._shares_host_memory else 0.0
        return None if own_mib is None or lent_mib is None else own_mib + lent_mib


def shares_host_memory(device: DrmDevice) -> bool:
    """Whether it is a graphics unit beside the CPU (APU): they alone have a sensor called `vddnb`.

    What the firmware set aside for it and what the driver lends it from the host (GTT) are one memory, equally fast:
    the latter is no spill.
    """
    folder = device.hwmon()
    return folder is not None and read_text(folder / "in1_label") == "vddnb"


def identity(device: DrmDevice, *, total_mib: float | None, source: str, name: str | None = None) -> GpuIdentity:
    """Which card it is. The same key whoever reads it, so that a study outlives the installation of ROCm."""
    device_id = device.text("device") or "0x0000"
    unique_id = device.text("unique_id")
    return GpuIdentity(
        vendor="AMD",
        name=name or device.text("product_name") or pci_name(VENDOR_ID, device_id) or f"AMD device {device_id}",
        pci_bus_id=device.pci_bus_id,
        uuid=f"GPU-{unique_id}" if unique_id else None,  # as ROCR_VISIBLE_DEVICES takes it
        total_mib=total_mib,
        driver=read_text(device.sysfs_root / "module" / "amdgpu" / "version"),  # only where it came with ROCm
        source=source,
    )


def throttled_by(device: DrmDevice) -> tuple[str, ...] | None:
    """Why the clocks are held down at this moment; None where the card's table does not tell."""
    try:
        table = (device.folder / "gpu_metrics").read_bytes()
        _, format_revision, content_revision = struct.unpack_from("<HBB", table)
        (bits,) = struct.unpack_from("<Q", table, _THROTTLE_BITS_AT[format_revision, content_revision])
    except (OSError, struct.error, KeyError):
        return None
    if bits == _UNKNOWN_U64:
        return None
    words = [word for places, word in _THROTTLE_WORDS if any(bits >> place & 1 for place in places)]
    return tuple(dict.fromkeys(words))


def _scaled(value: int | None, per_unit: int) -> float | None:
    return None if value is None else value / per_unit


def _chosen_mhz(table: str | None) -> float | None:
    """The line with the star of a `pp_dpm_*` file: `1: 2482Mhz *`."""
    for line in (table or "").splitlines():
        if line.endswith("*"):
            digits = line.partition(":")[2].lower().partition("mhz")[0].strip()
            return float(digits) if digits.isdecimal() else None
    return None
