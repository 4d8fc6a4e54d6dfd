"""A card that is a plain object: it reads what a test says."""

from __future__ import annotations

import time

from tuner.domain.errors import NotPermitted, PowerCapRefused
from tuner.domain.gpu import GpuIdentity, GpuProcess, GpuReading, PowerCap


class PlainCard:
    """Fits `tuner.gpus.card.Card`, but for what a test lets go wrong."""

    def __init__(self, uuid: str | None = "GPU-1", *, name: str = "Card", cap_w: float | None = 300.0) -> None:
        self.identity = GpuIdentity(vendor="NVIDIA", name=name, uuid=uuid, source="a test")
        self.reading = GpuReading()
        self.readings: list[GpuReading] = []
        """Given in turn before `reading`."""
        self.read_takes_s = 0.0
        self.read_raises = False
        self.cap_w = cap_w
        self.tells_cap = True
        self.lowest_w, self.highest_w = 100.0, 400.0
        self.clamps_at_w = 0.0
        self.ignores_caps = False
        self.permitted = True
        self.caps_set: list[float] = []
        self.held_by: list[GpuProcess] = []

    def read(self) -> GpuReading:
        time.sleep(self.read_takes_s)
        if self.read_raises:
            raise RuntimeError("the driver broke")
        return self.readings.pop(0) if self.readings else self.reading

    def power_cap(self) -> PowerCap | None:
        if self.cap_w is None or not self.tells_cap:
            return None
        return PowerCap(cap_w=self.cap_w, min_w=self.lowest_w, max_w=self.highest_w, default_w=300.0)

    def set_power_cap(self, watts: float) -> None:
        self.caps_set.append(watts)
        if not self.permitted:
            raise NotPermitted("Only root may", advice=self.cap_command(watts))
        if not self.lowest_w <= watts <= self.highest_w:
            raise PowerCapRefused("out of range")
        if not self.ignores_caps:
            self.cap_w = max(watts, self.clamps_at_w)

    def cap_command(self, watts: float) -> str:
        return f"set-cap {self.identity.key} {watts:g}"

    def processes(self) -> list[GpuProcess]:
        return self.held_by
