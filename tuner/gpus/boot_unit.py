"""A power cap is lost when the machine restarts: the systemd unit that sets it again."""

from __future__ import annotations

from collections.abc import Sequence


def boot_unit(commands: Sequence[str], *, description: str = "Power caps of the graphics cards") -> str:
    """The text of a unit, for `/etc/systemd/system/NAME.service` and `systemctl enable --now NAME`.

    Args:
        commands: shell commands, as `Card.cap_command` gives them. On an NVIDIA card without a display
            `nvidia-smi -pm 1` belongs in front: without it the driver is unloaded, and the cap lost, when nobody
            uses the card.
        description: what systemd shows.
    """
    lines = [
        "[Unit]",
        f"Description={_escaped(description)}",
        "After=nvidia-persistenced.service",
        "",
        "[Service]",
        "Type=oneshot",
        "RemainAfterExit=yes",
        *(f'ExecStart=/bin/sh -c "{_quoted(command)}"' for command in commands),
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """systemd replaces `%` in every setting."""
    return text.replace("%", "%%").replace("\n", " ")


def _quoted(command: str) -> str:
    """For double quotes in a command line, where systemd replaces `$` as well (systemd.service, Command lines)."""
    escaped = command.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return _escaped(escaped)
