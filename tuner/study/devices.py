"""Whether the study still has the machine it was made with."""

from __future__ import annotations

from tuner.domain.errors import DeviceGone
from tuner.study.create import inspect
from tuner.study.kit import Kit


def check_devices(kit: Kit) -> None:
    """Looks after a failed trial whether a device went with it: a driver that gave up, a remote server that died.

    Raises:
        DeviceGone: one is missing. Everything measured is kept, and the failed trial is not launched again.
    """
    for before in kit.frozen.engines:
        now = {device.name for device in inspect(kit.engine, kit.frozen.definition, before.binary).devices}
        gone = [device for device in before.devices if device.name not in now]
        if gone:
            told = ", ".join(f"{device.name} ({device.description})" for device in gone)
            raise DeviceGone(
                f"The study was made with {told}, which is no longer there; the last trial may have brought it down",
                advice="bring it back (restart its server, or the machine), then `tuner run` continues the study",
            )
