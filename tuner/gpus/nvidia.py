"""NVIDIA cards, through NVML as nvidia-ml-py binds it (import name `pynvml`; the package of that name is another).

What an older driver, or a card, does not tell is None.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

import psutil

from tuner.domain.errors import NotPermitted, PowerCapRefused
from tuner.domain.gpu import CLOCKS_SET, POWER_CAP, GpuIdentity, GpuProcess, GpuReading, PowerCap
from tuner.gpus.card import Card, CardsUnreadable
from tuner.gpus.pci import normal_bus_id

T = TypeVar("T")

_MIB = 2**20
_LIBRARY = "libnvidia-ml.so.1"
_PCIE_INTERVAL_S = 0.5
"""NVML counts PCIe traffic for 20 ms while the caller waits: so it is asked this seldom, one direction at a time."""
_HIGHEST_CAP_W = 100_000

_REASONS = {
    0x1: None,  # Idle.
    0x2: CLOCKS_SET,
    0x4: POWER_CAP,
    0x8: "hardware slowdown",
    0x10: CLOCKS_SET,  # Sync boost: the clocks of several cards are kept equal.
    0x20: "heat",  # The driver slows it down.
    0x40: "heat",  # The hardware does, by itself.
    0x80: "power brake",
    0x100: CLOCKS_SET,  # For a display.
    0x200: "board limit",
    0x400: "reliability voltage",
}
"""Bits of `nvmlClocksEventReasons` in NVML's header nvml.h."""


def find_cards() -> list[Card]:
    """All NVIDIA cards, in PCI order; none where there is no driver or no card.

    NVML stays open as long as the process lives: while it is, the driver is not unloaded, and with it a power cap.

    Raises:
        CardsUnreadable: the library is there, but it or a card does not answer.
    """
    if not _library_is_there():
        return []
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError as error:
        raise CardsUnreadable(f"NVIDIA: the package nvidia-ml-py cannot be imported ({error})") from error
    try:
        nvml.nvmlInit()
        count = nvml.nvmlDeviceGetCount()
    except (nvml.NVMLError_LibraryNotFound, nvml.NVMLError_DriverNotLoaded):
        return []
    except nvml.NVMLError_LibRmVersionMismatch as error:
        raise CardsUnreadable(
            "NVIDIA: the driver's kernel module is of another version than its library, as after an update: restart"
        ) from error
    except Exception as error:  # NVMLLibraryMismatchError is no NVMLError.
        raise CardsUnreadable(f"NVIDIA: NVML does not start ({error})") from error
    cards: list[Card] = []
    troubles: list[str] = []
    for index in range(count):
        try:
            cards.append(NvidiaCard(nvml, nvml.nvmlDeviceGetHandleByIndex(index), index))
        except Exception as error:
            troubles.append(f"card {index} ({error})")
    if troubles:
        raise CardsUnreadable(f"NVIDIA: NVML cannot open {', '.join(troubles)}", readable=cards)
    return cards


def _library_is_there() -> bool:
    """A cheap look, so that machines without the driver need not import the binding.

    Raises:
        CardsUnreadable: it is there and cannot be loaded.
    """
    if sys.platform == "win32":
        return True  # Its place has changed over time, and the binding knows it.
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError as error:
        said = str(error)
        if _LIBRARY in said and "no such file" in said.lower():
            return False
        raise CardsUnreadable(f"NVIDIA: the driver's library cannot be loaded ({said})") from error
    return True


class NvidiaCard:
    """One card. See `tuner.gpus.card.Card` for what the methods keep."""

    def __init__(self, nvml: Any, handle: Any, index: int) -> None:
        self._nvml = nvml
        self._handle = handle
        self._pcie_at = float("-inf")
        self._pcie_receives = False
        pci = self._ask(lambda: nvml.nvmlDeviceGetPciInfo(handle).busId)
        memory = self._memory()
        self.identity = GpuIdentity(
            vendor="NVIDIA",
            name=self._ask(lambda: nvml.nvmlDeviceGetName(handle)) or "NVIDIA card",
            pci_bus_id=normal_bus_id(pci) if pci else None,
            uuid=self._ask(lambda: nvml.nvmlDeviceGetUUID(handle)),
            total_mib=memory.total / _MIB if memory else None,
            driver=self._ask(nvml.nvmlSystemGetDriverVersion),
            source="NVML",
        )
        self._selector = self.identity.pci_bus_id or self.identity.uuid or str(index)
        """What `nvidia-smi -i` takes."""

    def read(self) -> GpuReading:
        """One look: about a millisecond, and 20 more twice a second for the PCIe traffic."""
        nvml, handle = self._nvml, self._handle
        memory = self._memory()
        reserved = getattr(memory, "reserved", None)
        source = self._ask(lambda: nvml.nvmlDeviceGetPowerSource(handle))
        receives, pcie = self._pcie_traffic()
        return GpuReading(
            used_mib=memory.used / _MIB if memory else None,
            reserved_mib=None if reserved is None else reserved / _MIB,
            power_w=_per_thousand(self._ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle))),
            energy_j=_per_thousand(self._ask(lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle))),
            temperature_c=self._temperature(),
            memory_temperature_c=self._memory_temperature(),
            core_clock_mhz=self._ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_GRAPHICS)),
            memory_clock_mhz=self._ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)),
            throttled_by=self._throttled_by(),
            pcie_rx_mib_s=pcie if receives else None,
            pcie_tx_mib_s=None if receives else pcie,
            on_battery=None if source is None else source == nvml.NVML_POWER_SOURCE_BATTERY,
        )

    def power_cap(self) -> PowerCap | None:
        """The limit that was set, not the one in force: that one other limiters may lower for a while."""
        nvml, handle = self._nvml, self._handle
        cap = self._ask(lambda: nvml.nvmlDeviceGetPowerManagementLimit(handle))
        limits = self._ask(lambda: nvml.nvmlDeviceGetPowerManagementLimitConstraints(handle))
        if cap is None or limits is None or limits[0] >= limits[1]:
            return None
        return PowerCap(
            cap_w=cap / 1000,
            min_w=limits[0] / 1000,
            max_w=limits[1] / 1000,
            default_w=_per_thousand(self._ask(lambda: nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle))),
        )

    def set_power_cap(self, watts: float) -> None:
        """Asks for a cap. The newer `_v2` call of the binding drops the driver's answer, so it is not used."""
        nvml, name = self._nvml, self.identity.name
        if not 0 < watts < _HIGHEST_CAP_W:
            raise PowerCapRefused(f"{watts:g} W is no power cap", where=name)
        try:
            nvml.nvmlDeviceSetPowerManagementLimit(self._handle, round(watts * 1000))
        except nvml.NVMLError_NoPermission as error:
            raise NotPermitted(
                "Only root may set a power cap", where=name, advice=f"sudo {self.cap_command(watts)}"
            ) from error
        except Exception as error:
            cap = self.power_cap()
            raise PowerCapRefused(
                f"The driver refuses a power cap of {watts:g} W ({error})",
                where=name,
                advice=f"it takes {cap.min_w:g} to {cap.max_w:g} W" if cap else "leave the power cap out of the search",
            ) from error

    def cap_command(self, watts: float) -> str:
        """Of NVIDIA's own tool, which comes with the driver."""
        return f"nvidia-smi -i {self._selector} -pl {watts:g}"

    def processes(self) -> list[GpuProcess]:
        """Those that compute and those that draw. Inside a container the driver may tell pids of the host."""
        held: dict[int, int | None] = {}
        for kind in ("Compute", "Graphics"):
            for process in self._running(kind):
                # One that does both is in both lists, with the same memory. Under Windows none is told.
                if held.get(process.pid) is None:
                    held[process.pid] = process.usedGpuMemory
        return [
            GpuProcess(pid=pid, used_mib=None if used is None else used / _MIB, name=_process_name(pid))
            for pid, used in sorted(held.items())
        ]

    def _ask(self, call: Callable[[], T]) -> T | None:
        """What the driver answers; None whatever hinders it.

        That may be an NVMLError, an NVMLLibraryMismatchError (which is none), or an AttributeError of a binding that
        is older than the call.
        """
        try:
            return call()
        except Exception:
            return None

    def _either(self, newer: Callable[[], T], older: Callable[[], T]) -> T | None:
        answer = self._ask(newer)
        return self._ask(older) if answer is None else answer

    def _memory(self) -> Any:
        """Of the second version, where what the driver keeps for itself is not counted as used, if there is one."""
        nvml, handle = self._nvml, self._handle
        return self._either(
            lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2),
            lambda: nvml.nvmlDeviceGetMemoryInfo(handle),
        )

    def _temperature(self) -> int | None:
        nvml, handle = self._nvml, self._handle
        return self._either(
            lambda: int(nvml.nvmlDeviceGetTemperatureV(handle, nvml.NVML_TEMPERATURE_GPU)),
            lambda: int(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
        )

    def _memory_temperature(self) -> int | None:
        nvml = self._nvml
        fields = self._ask(lambda: nvml.nvmlDeviceGetFieldValues(self._handle, [nvml.NVML_FI_DEV_MEMORY_TEMP]))
        if fields is None or fields[0].nvmlReturn != nvml.NVML_SUCCESS:
            return None
        return int(fields[0].value.uiVal) or None  # Cards without the sensor have been seen to say 0.

    def _throttled_by(self) -> tuple[str, ...] | None:
        nvml, handle = self._nvml, self._handle
        bits = self._either(
            lambda: int(nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)),
            lambda: int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)),
        )
        if bits is None:
            return None
        single = [1 << place for place in range(bits.bit_length()) if bits >> place & 1]
        words = [_REASONS.get(bit, f"reason {bit:#x}") for bit in single]
        return tuple(dict.fromkeys(word for word in words if word is not None))

    def _pcie_traffic(self) -> tuple[bool, float | None]:
        """Whether the figure is what the card receives (else what it sends), and the figure, in MiB/s."""
        now = time.monotonic()
        if now - self._pcie_at < _PCIE_INTERVAL_S:
            return self._pcie_receives, None
        self._pcie_at = now
        self._pcie_receives = not self._pcie_receives
        nvml = self._nvml
        counter = nvml.NVML_PCIE_UTIL_RX_BYTES if self._pcie_receives else nvml.NVML_PCIE_UTIL_TX_BYTES
        told = self._ask(lambda: nvml.nvmlDeviceGetPcieThroughput(self._handle, counter))
        return self._pcie_receives, None if told is None else told / 1024

    def _running(self, kind: str) -> list[Any]:
        nvml, handle, name = self._nvml, self._handle, f"nvmlDeviceGet{kind}RunningProcesses"
        found = self._either(lambda: getattr(nvml, name)(handle), lambda: getattr(nvml, f"{name}_v2")(handle))
        return list(found or ())


def _per_thousand(value: int | None) -> float | None:
    """Watts of milliwatts, joules of millijoules."""
    return None if value is None else value / 1000


def _process_name(pid: int) -> str | None:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return None
