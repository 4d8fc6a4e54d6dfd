"""What continues a study after a restart: its texts are what the systems understand, and it can be undone."""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tuner.process.service import Service

ODD = 'night 50% "off" $HOME \\ ü'
ARGV = [sys.executable, "-m", "tuner", "run", ODD, "--studies", "/a folder/studies"]


def service(system: str, tmp_path: Path, argv: list[str] | None = None) -> Service:
    return Service.of("night", argv or ARGV, tmp_path, {"NAME": "a value"}, tmp_path / "log", system)


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins for systemd's commands, which note how they were called."""
    calls = tmp_path / "calls"
    for name in ("systemctl", "loginctl"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> {calls}\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return calls


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    made = service("linux", tmp_path)
    unit = tmp_path / "night.service"
    unit.write_text(made.text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", str(unit)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert str(unit) not in done.stderr, "a warning about the unit"


def test_the_units_command_is_the_one_that_was_meant(tmp_path: Path) -> None:
    """Read back by the rules of systemd.service: double quotes, backslashes, `$$` and `%%`."""
    (line,) = [line for line in service("linux", tmp_path).text.splitlines() if line.startswith("ExecStart=")]
    words, word, inside, text = [], "", False, line.removeprefix("ExecStart=")
    place = 0
    while place < len(text):
        character = text[place]
        if character == "\\":
            place += 1
            word += text[place]
        elif character == '"':
            inside = not inside
            if not inside:
                words.append(word)
                word = ""
        elif inside:
            word += character
        place += 1
    assert [found.replace("$$", "$").replace("%%", "%") for found in words] == ARGV


def test_a_launchd_agent_parses_and_says_the_same(tmp_path: Path) -> None:
    content = plistlib.loads(service("darwin", tmp_path).text.encode())
    assert content["ProgramArguments"] == ARGV
    assert content["WorkingDirectory"] == str(tmp_path)
    assert content["KeepAlive"] == {"SuccessfulExit": False}, "a study that is done is left alone"


def test_a_windows_task_parses_and_says_the_same(tmp_path: Path) -> None:
    made = service("win32", tmp_path)
    root = ET.fromstring(made.text.partition("?>")[2])
    place = "{http://schemas.microsoft.com/windows/2004/02/mit/task}"
    assert root.findtext(f".//{place}Command") == sys.executable
    assert root.findtext(f".//{place}Arguments") == subprocess.list2cmdline(ARGV[1:])
    assert made.encoding == "utf-16"


def test_it_is_installed_for_the_user_and_can_be_undone(tmp_path: Path, systemd: Path) -> None:
    made = service("linux", tmp_path)
    assert made.install() == []
    assert made.file == tmp_path / "config" / "systemd" / "user" / "llm-tuner-night.service"
    assert made.file.read_text() == made.text
    assert systemd.read_text().splitlines() == [
        "systemctl --user daemon-reload",
        "systemctl --user enable llm-tuner-night",
        "loginctl enable-linger",
    ]
    assert made.remove() == []
    assert not made.file.exists()
    assert systemd.read_text().splitlines()[-1] == "systemctl --user disable llm-tuner-night"


def test_what_does_not_work_here_is_left_to_the_user(tmp_path: Path, systemd: Path) -> None:
    (tmp_path / "bin" / "loginctl").write_text("#!/bin/sh\nexit 1\n")
    assert service("linux", tmp_path).install() == ["loginctl enable-linger"]
    assert systemd.exists()
