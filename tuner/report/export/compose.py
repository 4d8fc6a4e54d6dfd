"""A file for Docker Compose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

from tuner.domain.errors import BadInput
from tuner.domain.facts import Device
from tuner.report.export.containers import Backend, Dialect
from tuner.report.export.exported import Exported
from tuner.report.export.yaml_text import scalar


def compose_file(
    exported: Exported, dialect: Dialect, devices: Sequence[Device], is_file: Callable[[str], bool]
) -> str:
    """The file: the engine's own image with the measured arguments, and the folders of the files that they name.

    Args:
        exported: what it starts.
        dialect: how the engine is told its address, and its images.
        devices: what the engine computed on.
        is_file: whether a path names a file of this machine.

    Raises:
        BadInput: there is no image for it, or the study's machine has other paths than a container.
    """
    if exported.system.startswith("Windows"):
        raise BadInput("Paths of Windows mean nothing in a container", advice="export it as bat, ps1 or llama-swap")
    backend = dialect.backend(devices)
    port = dialect.port_of(exported)
    arguments = dialect.reachable(exported)[1:]
    folders = sorted({str(PurePosixPath(word).parent) for word in arguments if word.startswith("/") and is_file(word)})
    lines = [f"# {line}" for line in exported.about()]
    lines += [
        f"# Image: {backend.about}. Its build may be another one than the one that was measured; `tuner verify`",
        "# tells whether the gain still holds with another build.",
        f"name: {scalar(exported.name)}",
        "services:",
    ]
    image = dialect.image(backend, exported.engine)
    if exported.cap_commands:
        lines += _cap_service(exported.cap_commands, image, backend)
    lines += ["  engine:", f"    image: {_text(image)}"]
    if exported.cap_commands:
        lines += ["    depends_on:", "      power-cap:", "        condition: service_completed_successfully"]
    lines += ["    command:", *(f"      - {_text(word)}" for word in arguments)]
    if exported.command.env:
        lines.append("    environment:")
        lines += [f"      {scalar(name)}: {_text(value)}" for name, value in exported.command.env.items()]
    if folders:
        lines.append("    volumes:")
        for folder in folders:
            lines += ["      - type: bind", f"        source: {_text(folder)}", f"        target: {_text(folder)}"]
            lines.append("        read_only: true")
    lines += ["    ports:", f'      - "127.0.0.1:{port}:{port}"', "    restart: unless-stopped", *_devices(backend)]
    return "\n".join(lines) + "\n"


def _cap_service(commands: Sequence[str], image: str, backend: Backend) -> list[str]:
    """A container that runs once, before the engine, with the right to set the caps."""
    return [
        "  power-cap:",
        f"    image: {_text(image)}",
        "    privileged: true",
        '    restart: "no"',
        '    entrypoint: ["/bin/sh", "-c"]',
        "    command:",
        f"      - {_text(' && '.join(commands))}",
        *_devices(backend),
    ]


def _devices(backend: Backend) -> list[str]:
    if backend.nvidia:
        return [
            "    deploy:",
            "      resources:",
            "        reservations:",
            "          devices:",
            "            - driver: nvidia",
            "              count: all",
            "              capabilities: [gpu]",
        ]
    return ["    devices:", *(f"      - {_text(path)}" for path in backend.devices)] if backend.devices else []


def _text(text: str) -> str:
    """A scalar in which a dollar sign is one: Compose would replace variables."""
    return scalar(text.replace("$", "$$"))
