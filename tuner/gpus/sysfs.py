"""What the Linux kernel tells of graphics cards and of the machine's power supply. Elsewhere nothing is found.

Everything may vanish while it is read: a driver reset takes a card's hwmon folder away and gives it another number,
a sleeping card answers EBUSY. So a read that fails is None, and the hwmon folder is looked up anew each time.

Sources: the kernel's documentation of hwmon, of drm/amdgpu, and the ABI files of power_supply, i915 and xe.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.domain.errors import NotPermitted, PowerCapRefused

BYTES_PER_MIB = 1024 * 1024
MICROWATTS_PER_WATT = 1_000_000
PCI_IDS_FILES = (Path("/usr/share/misc/pci.ids"), Path("/usr/share/hwdata/pci.ids"))

_CARD = re.compile(r"card\d+")  # card0-DP-1 is a connector, renderD128 another door to the same card


def read_text(path: Path) -> str | None:
    """The file's text without outer white space; None where it is empty or cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def read_int(path: Path) -> int | None:
    """The file's decimal number; None where there is none."""
    try:
        return int(read_text(path) or "")
    except ValueError:
        return None


@dataclass(frozen=True)
class DrmDevice:
    """A graphics card as the kernel shows it."""

    folder: Path
    """`class/drm/card0/device`, which leads to the PCI device."""
    sysfs_root: Path
    pci_bus_id: str | None
    """Lower case, with a four-digit domain."""
    driver: str | None
    """`amdgpu`, `i915`, `xe`."""

    def text(self, name: str) -> str | None:
        return read_text(self.folder / name)

    def mib(self, name: str) -> float | None:
        """A file that holds bytes, in MiB."""
        size_bytes = read_int(self.folder / name)
        return None if size_bytes is None else size_bytes / BYTES_PER_MIB

    def hwmon(self) -> Path | None:
        """The folder of the card's sensors, as numbered at this moment."""
        try:
            folders = sorted((self.folder / "hwmon").iterdir())
        except OSError:
            return None
        # i915 has one folder for the card and one for each of its parts.
        own = [folder for folder in folders if read_text(folder / "name") == self.driver]
        return next(iter(own or folders), None)

    def hwmon_int(self, name: str) -> int | None:
        """A sensor's number, in the unit that its file has."""
        folder = self.hwmon()
        return None if folder is None else read_int(folder / name)

    def hwmon_watts(self, name: str) -> float | None:
        """A sensor's file that holds microwatts, in watts."""
        microwatts = self.hwmon_int(name)
        return None if microwatts is None else microwatts / MICROWATTS_PER_WATT

    def hwmon_by_label(self, kind: str) -> dict[str, int]:
        """All sensors of a kind (`temp`, `freq`) by their label, or by the sensor's own name where it has none."""
        folder = self.hwmon()
        if folder is None:
            return {}
        found: dict[str, int] = {}
        for path in sorted(folder.glob(f"{kind}*_input")):
            value = read_int(path)
            if value is not None:
                sensor = path.name.removesuffix("_input")
                found[read_text(folder / f"{sensor}_label") or sensor] = value
        return found

    def set_cap(self, file: str, watts: float) -> None:
        """Writes a power cap into a sensor's file. Raises NotPermitted and PowerCapRefused."""
        who = f"the graphics card {self.pci_bus_id or self.folder}"
        if not watts > 0:  # 0 switches Intel's limit off, and older amdgpu drivers back to their own
            raise PowerCapRefused(f"{who} cannot be held to {watts:g} W", advice="choose a cap above 0 W")
        folder = self.hwmon()
        if folder is None:
            raise PowerCapRefused(f"{who} shows no sensors at the moment, so no power cap can be set")
        path = folder / file
        try:
            descriptor = os.open(path, os.O_WRONLY)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise NotPermitted(
                    f"no right to set a power cap on {who}",
                    where=str(path),
                    advice="sudo " + self.cap_command(file, watts),
                ) from error
            raise PowerCapRefused(f"{who} has no power cap that could be set", where=str(path)) from error
        try:
            os.write(descriptor, str(_microwatts(watts)).encode())
        except OSError as error:  # EINVAL: out of range; EPERM: amid a reset, for root too
            raise PowerCapRefused(
                f"{who} refuses a power cap of {watts:g} W: {error.strerror}", where=str(path)
            ) from error
        finally:
            os.close(descriptor)

    def cap_command(self, file: str, watts: float) -> str:
        """The shell command that writes a power cap. It holds after a reboot too, which renumbers cards and hwmon."""
        folder = self.folder
        if self.pci_bus_id:
            folder = self.sysfs_root / "bus" / "pci" / "devices" / self.pci_bus_id
        # One word for `sudo` to run as a whole; the star stays bare, for the shell to fill in.
        write = f"echo {_microwatts(watts)} | tee {shlex.quote(str(folder))}/hwmon/hwmon*/{file}"
        return f"sh -c {shlex.quote(write)}"


def _microwatts(watts: float) -> int:
    return round(watts * MICROWATTS_PER_WATT)


def drm_devices(sysfs_root: Path, vendor_id: str) -> list[DrmDevice]:
    """The cards of a vendor (`0x1002`) in PCI order."""
    try:
        cards = [entry for entry in (sysfs_root / "class" / "drm").iterdir() if _CARD.fullmatch(entry.name)]
    except OSError:
        return []
    found = []
    for card in cards:
        folder = card / "device"
        if read_text(folder / "vendor") != vendor_id:
            continue
        facts = dict(line.split("=", 1) for line in (read_text(folder / "uevent") or "").splitlines() if "=" in line)
        slot = facts.get("PCI_SLOT_NAME")
        found.append(DrmDevice(folder, sysfs_root, slot.lower() if slot else None, facts.get("DRIVER")))
    return sorted(found, key=lambda device: (device.pci_bus_id or "~", str(device.folder)))


def pci_name(vendor_id: str, device_id: str, files: Sequence[Path] | None = None) -> str | None:
    """What the machine's list of PCI devices calls a device; of "Navi 31 [Radeon RX 7900 XTX]" the part in brackets."""
    vendor, wanted = vendor_id.removeprefix("0x"), device_id.removeprefix("0x")
    for path in PCI_IDS_FILES if files is None else files:
        inside = False
        for line in (read_text(path) or "").splitlines():
            if inside and line.startswith(f"\t{wanted} "):
                name = line.split(maxsplit=1)[1]
                bracketed = re.search(r"\[(.+)\]", name)
                return bracketed.group(1) if bracketed else name
            if not line.startswith(("\t", "#")):
                inside = line.startswith(f"{vendor} ")
    return None


def on_battery(sysfs_root: Path = Path("/sys")) -> bool | None:
    """Whether the machine lives on a battery now. A mouse's battery does not count."""
    try:
        supplies = list((sysfs_root / "class" / "power_supply").iterdir())
    except OSError:
        return None
    types = {supply: read_text(supply / "type") for supply in supplies}
    if any(kind == "Mains" and read_int(supply / "online") == 1 for supply, kind in types.items()):
        return False
    batteries = [s for s, kind in types.items() if kind == "Battery" and read_text(s / "scope") != "Device"]
    if not batteries:
        return False
    states = {read_text(battery / "status") for battery in batteries} - {None, "Unknown"}
    return "Discharging" in states if states else None
