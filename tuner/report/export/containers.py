"""How engines are told their address, and which container images they come in: read from engines.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from importlib.resources import files
from itertools import pairwise

from pydantic import BaseModel, ConfigDict, Field

from tuner.domain.errors import BadInput
from tuner.domain.facts import Device, EngineFacts
from tuner.report.export.exported import Exported


class Backend(BaseModel):
    """One of an engine's images."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    device: str
    """What the names of the engine's devices begin with; empty for the processor."""
    image: str
    about: str
    nvidia: bool = False
    """Whether the container gets NVIDIA's cards, through NVIDIA's container toolkit."""
    devices: tuple[str, ...] = ()
    """Device files that the container gets."""


class Dialect(BaseModel):
    """What an export must know of an engine beside the measured command."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    port_flag: str
    host_flag: str
    default_port: int
    health: str
    """The path that answers once the engine is ready."""
    build_tag: str | None = None
    """What follows an image's tag for a certain build, with `{build}` in it."""
    backends: tuple[Backend, ...] = Field(min_length=1)

    def backend(self, devices: Sequence[Device]) -> Backend:
        """The image for the devices that were measured."""
        first = devices[0].name if devices else ""
        found = [one for one in self.backends if one.device and first.startswith(one.device)]
        plain = [one for one in self.backends if not one.device]
        if not found and (devices or not plain):
            raise BadInput(f"No container image is known for the device {first}", advice="export it as systemd or sh")
        nvidia = any("nvidia" in device.description.lower() for device in devices)
        one = (found or plain)[0]
        # Through Vulkan a card of NVIDIA's is reached as with CUDA: its driver comes with the toolkit.
        return one.model_copy(update={"nvidia": True, "devices": ()}) if nvidia and found else one

    def image(self, backend: Backend, engine: EngineFacts) -> str:
        """The image, of the very build that was measured where its number is known."""
        build = re.match(r"(?:version: )?b?(\d{4,})\b", engine.version)
        return backend.image + (self.build_tag.format(build=build[1]) if self.build_tag and build else "")

    def port_of(self, exported: Exported) -> int:
        """The port that the command names, or the engine's own."""
        found = [value for flag, value in _pairs(exported) if self._is(exported, flag, self.port_flag)]
        return int(found[-1]) if found and found[-1].isdigit() else self.default_port

    def without_port(self, exported: Exported) -> list[str]:
        """The command without its port."""
        return self._without(exported, self.port_flag)

    def reachable(self, exported: Exported) -> list[str]:
        """The command, listening on every address of its container."""
        return [*self._without(exported, self.host_flag), self.host_flag, "0.0.0.0"]

    def _without(self, exported: Exported, flag: str) -> list[str]:
        argv, kept, skip = exported.command.argv, [], False
        for word in argv:
            if skip:
                skip = False
            elif self._is(exported, word, flag):
                skip = True
            else:
                kept.append(word)
        return kept

    @staticmethod
    def _is(exported: Exported, word: str, flag: str) -> bool:
        entry = exported.engine.flags.find(flag)
        return word == flag or (entry is not None and word in entry.names)


def dialect_of(engine: str) -> Dialect:
    """What is known of an engine. Raises BadInput for one of which nothing is."""
    known = tomllib.loads((files(__package__) / "engines.toml").read_text(encoding="utf-8"))
    if engine not in known:
        raise BadInput(f"This format is not known for {engine}", advice="export it as sh, systemd or json")
    return Dialect.model_validate(known[engine])


def _pairs(exported: Exported) -> list[tuple[str, str]]:
    return list(pairwise(exported.command.argv))
