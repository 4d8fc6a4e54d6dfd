"""What makes a system continue a study after a restart, as text: a systemd unit, a launchd agent, a Windows task.

Each starts the tuner's own `run NAME`, and again some time after it came to a bad end; a run that ends
in order, or that a person must mend something for, is left alone.
"""

from __future__ import annotations

import plistlib
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

_PAUSE_S = 120
"""Before it is started again: whatever went wrong may need a moment, and a person the chance to step in."""


def systemd_unit(argv: Sequence[str], folder: Path, env: Mapping[str, str], study: str) -> str:
    """A user unit, see systemd.service(5). Exit code 2 is what a person must mend: starting again would not help."""
    lines = [
        "[Unit]",
        f"Description=Tuning study {_percent(study)}",
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=exec",
        f"WorkingDirectory={_percent(str(folder))}",
        *(f"Environment={_systemd_word(f'{name}={value}')}" for name, value in env.items()),
        f"ExecStart={' '.join(_systemd_word(word) for word in argv)}",
        "Restart=on-failure",
        "RestartPreventExitStatus=2",
        f"RestartSec={_PAUSE_S}",
        "KillSignal=SIGINT",
        "TimeoutStopSec=90",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    return "\n".join(lines) + "\n"


def launchd_agent(argv: Sequence[str], folder: Path, env: Mapping[str, str], label: str, log: Path) -> str:
    """A property list for ~/Library/LaunchAgents (launchd.plist(5)). It starts when its user logs in."""
    content = {
        "Label": label,
        "ProgramArguments": list(argv),
        "WorkingDirectory": str(folder),
        "EnvironmentVariables": dict(env),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": _PAUSE_S,
        "StandardOutPath": str(log),
        "StandardErrorPath": str(log),
    }
    return plistlib.dumps(content).decode("utf-8")


def windows_task(argv: Sequence[str], folder: Path, study: str) -> str:
    """A task for the Task Scheduler, which starts when its user logs on and again three times after a failure."""
    program, *arguments = argv
    return f"""<?xml version="1.0" encoding="UTF-16"?>
<Task version="1.2" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo><Description>Tuning study {escape(study)}</Description></RegistrationInfo>
  <Triggers><LogonTrigger><Enabled>true</Enabled><Delay>PT1M</Delay></LogonTrigger></Triggers>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <RestartOnFailure><Interval>PT10M</Interval><Count>3</Count></RestartOnFailure>
  </Settings>
  <Actions>
    <Exec>
      <Command>{escape(program)}</Command>
      <Arguments>{escape(subprocess.list2cmdline(arguments))}</Arguments>
      <WorkingDirectory>{escape(str(folder))}</WorkingDirectory>
    </Exec>
  </Actions>
</Task>
"""


def _systemd_word(word: str) -> str:
    """One word of a command line, quoted as systemd.service says (Command lines)."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{_percent(escaped)}"'


def _percent(text: str) -> str:
    """systemd replaces `%` in every setting."""
    return text.replace("%", "%%")
