"""An AMD card read through ROCm's library amdsmi.

Units differ from function to function and from release to release; each is turned into the project's at the place
where it is read. Source: amdsmi.h and amd_smi.cc of ROCm/amdsmi.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from tuner.domain.errors import NotPermitted, PowerCapRefused
from tuner.domain.gpu import GpuProcess, GpuReading, PowerCap
from tuner.gpus.amd_sysfs import CAP_FILE, identity, throttled_by
from tuner.gpus.sysfs import BYTES_PER_MIB, MICROWATTS_PER_WATT, DrmDevice, on_battery

_NO_PERMISSION = 10  # AMDSMI_STATUS_NO_PERM
_PACKAGE_SENSOR = 0
# "Not available" where the binding itself does not say so: the greatest number of 16, 32 and 64 bits.
_NOT_AVAILABLE = (2**16 - 1, 2**32 - 1, 2**64 - 1)
# No card takes 10 kW, and none is content with 10 mW.
_LEAST_MICROWATTS = 10_000
# From ROCm 7.2 on `amd-smi set --power-cap` wants `ppt0 WATTS`, later `WATTS ppt0`.
_OLD_COMMAND_BEFORE = (26, 2)


def handles_by_bus_id(binding: ModuleType) -> dict[str, Any]:
    """PCI bus id to the library's handle."""
    handles = _ask(binding.amdsmi_get_processor_handles) or []
    by_bus_id = {_ask(binding.amdsmi_get_gpu_device_bdf, handle): handle for handle in handles}
    return {str(bus_id).lower(): handle for bus_id, handle in by_bus_id.items() if bus_id}


class AmdSmiCard:
    """See `tuner.gpus.card.Card`."""

    def __init__(self, binding: Any, handle: Any, device: DrmDevice) -> None:
        self._smi = binding
        self._handle = handle
        self._device = device
        version = _ask(binding.amdsmi_get_lib_version) or {}
        self._old_command = (version.get("major", 0), version.get("minor", 0)) < _OLD_COMMAND_BEFORE
        name = (self._get("amdsmi_get_gpu_asic_info") or {}).get("market_name", "")
        self.identity = identity(
            device,
            total_mib=_mib(self._get("amdsmi_get_gpu_memory_total", binding.AmdSmiMemoryType.VRAM)),
            source="amdsmi",
            name=None if name in ("", "N/A") or name.startswith("0x") else name,
        )

    def read(self) -> GpuReading:
        smi = self._smi
        used_mib = _mib(self._get("amdsmi_get_gpu_memory_usage", smi.AmdSmiMemoryType.VRAM))
        power_w = self._power_w()
        temperature_c = self._temperature_c("EDGE", "HOTSPOT")
        if used_mib is None and power_w is None and temperature_c is None:
            return GpuReading()  # lost
        return GpuReading(
            used_mib=used_mib,
            spill_mib=_mib(self._get("amdsmi_get_gpu_memory_usage", smi.AmdSmiMemoryType.GTT)),
            power_w=power_w,
            energy_j=self._energy_j(),
            temperature_c=temperature_c,
            memory_temperature_c=self._temperature_c("VRAM"),
            core_clock_mhz=self._clock_mhz("GFX"),
            memory_clock_mhz=self._clock_mhz("MEM"),
            # amdsmi_get_violation_status waits 100 ms, and answers for data-centre cards only.
            throttled_by=throttled_by(self._device),
            on_battery=on_battery(self._device.sysfs_root),
        )

    def power_cap(self) -> PowerCap | None:
        info = self._get("amdsmi_get_power_cap_info", failed={})
        cap_w, min_w, max_w = (_cap_w(info.get(name)) for name in ("power_cap", "min_power_cap", "max_power_cap"))
        if cap_w is None or min_w is None or max_w is None or min_w >= max_w:
            return None
        return PowerCap(cap_w=cap_w, min_w=min_w, max_w=max_w, default_w=_cap_w(info.get("default_power_cap")))

    def set_power_cap(self, watts: float) -> None:
        who = f"the graphics card {self._device.pci_bus_id}"
        if not watts > 0:
            raise PowerCapRefused(f"{who} cannot be held to {watts:g} W", advice="choose a cap above 0 W")
        try:
            # In microwatts in every release, also in those that read it out in watts.
            self._smi.amdsmi_set_power_cap(self._handle, _PACKAGE_SENSOR, round(watts * MICROWATTS_PER_WATT))
        except Exception as error:
            if getattr(error, "err_code", None) == _NO_PERMISSION:
                raise NotPermitted(
                    f"no right to set a power cap on {who}", advice="sudo " + self.cap_command(watts)
                ) from error
            words = getattr(error, "err_info", None) or str(error)
            raise PowerCapRefused(f"{who} refuses a power cap of {watts:g} W: {words}") from error

    def cap_command(self, watts: float) -> str:
        if self._old_command:
            return f"amd-smi set --power-cap {round(watts)} --gpu {self._device.pci_bus_id}"
        return self._device.cap_command(CAP_FILE, watts)

    def processes(self) -> list[GpuProcess]:
        found = self._get("amdsmi_get_gpu_process_list", failed=[])
        return [
            GpuProcess(
                pid=process["pid"],
                used_mib=_mib(process.get("memory_usage", {}).get("vram_mem", process.get("mem"))),
                name=None if process.get("name") == "N/A" else process.get("name"),
            )
            for process in found
        ]

    def _get(self, function: str, *arguments: Any, failed: Any = None) -> Any:
        answer = _ask(getattr(self._smi, function, None), self._handle, *arguments)
        return failed if answer is None else answer

    def _power_w(self) -> float | None:
        info = self._get("amdsmi_get_power_info", failed={})
        # The first is whichever of the others the card has; releases before 7 lack it.
        known = (_number(info.get(name)) for name in ("socket_power", "current_socket_power", "average_socket_power"))
        return next((watts for watts in known if watts is not None), None)

    def _energy_j(self) -> float | None:
        counter = self._get("amdsmi_get_energy_count", failed={})
        ticks, microjoules = _number(counter.get("energy_accumulator")), _number(counter.get("counter_resolution"))
        return ticks * microjoules / 1e6 if ticks and microjoules else None  # cards without a counter stay at 0

    def _temperature_c(self, *sensors: str) -> float | None:
        current = self._smi.AmdSmiTemperatureMetric.CURRENT
        places = (getattr(self._smi.AmdSmiTemperatureType, sensor) for sensor in sensors)
        known = (_number(self._get("amdsmi_get_temp_metric", place, current)) for place in places)
        return next((degrees for degrees in known if degrees is not None), None)

    def _clock_mhz(self, kind: str) -> float | None:
        return _number(self._get("amdsmi_get_clock_info", getattr(self._smi.AmdSmiClkType, kind), failed={}).get("clk"))


def _ask(function: Any, *arguments: Any) -> Any:
    """The answer; None for every failure, of which a lost card has many kinds, and where the release lacks it."""
    try:
        return function(*arguments)
    except Exception:
        return None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value in _NOT_AVAILABLE:
        return None
    return float(value)


def _mib(size_bytes: object) -> float | None:
    number = _number(size_bytes)
    return None if number is None else number / BYTES_PER_MIB


def _cap_w(microwatts_or_watts: object) -> float | None:
    """Microwatts by the header; releases around ROCm 6.0 give some or all of the figures in watts."""
    number = _number(microwatts_or_watts)
    if number is None:
        return None
    return number / MICROWATTS_PER_WATT if number >= _LEAST_MICROWATTS else number
