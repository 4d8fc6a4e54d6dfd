"""A system unit for systemd."""

from __future__ import annotations

from tuner.report.export.exported import Exported, grouped


def systemd_unit(exported: Exported, user: str | None) -> str:
    """The unit, for `/etc/systemd/system/NAME.service`; quoting as systemd.service and systemd.syntax say.

    Args:
        exported: what it starts.
        user: the account that it runs under; None leaves the line out, and it runs as root.
    """
    command = exported.command
    # With a colon in front nothing is taken for a variable, so that a dollar sign is one.
    lines = [
        *(f"# {line}" for line in exported.about()),
        f"# sudo cp FILE /etc/systemd/system/{exported.name}.service && sudo systemctl daemon-reload",
        f"# sudo systemctl enable --now {exported.name}",
        "[Unit]",
        f"Description={_percent(exported.engine.engine)}, tuned for {_percent(exported.profile)}",
        "After=network.target nvidia-persistenced.service",
        "",
        "[Service]",
        "Type=exec",
        *([f"User={_percent(user)}"] if user else []),
        *(f"Environment={_word(f'{name}={value}')}" for name, value in command.env.items()),
        # The plus runs it as root whatever the user.
        *(f"ExecStartPre=+:/bin/sh -c {_word(cap)}" for cap in exported.cap_commands),
        f"ExecStart=:{_program(command.argv[0])} \\",
    ]
    groups = [" ".join(map(_word, group)) for group in grouped(command.argv)]
    lines += [f"  {group} \\" for group in groups[:-1]] + [f"  {group}" for group in groups[-1:]]
    lines += ["Restart=on-failure", "RestartSec=5", "", "[Install]", "WantedBy=multi-user.target"]
    return "\n".join(lines) + "\n"


_BECOME = 'exec "$0" "$@"'


def _program(path: str) -> str:
    """systemd takes no quotes and backslashes in a program's own path."""
    if set("'\"\\") & set(path):
        return f"/bin/sh -c {_word(_BECOME)} {_word(path)}"
    return _word(path)


def _word(word: str) -> str:
    """One word, in double quotes with C escapes."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    plain = "".join(
        letter if ord(letter) >= 32 and ord(letter) != 127 else f"\\x{ord(letter):02x}" for letter in escaped
    )
    return f'"{_percent(plain)}"'


def _percent(text: str) -> str:
    """systemd replaces `%` in every setting."""
    return text.replace("%", "%%")
