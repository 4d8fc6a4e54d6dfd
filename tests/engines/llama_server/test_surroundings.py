"""Files and variables that set flags unseen are left out of every launch, or told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tuner.engines.llama_server import surroundings
from tuner.engines.llama_server.surroundings import clean_environment, settings_that_stay

posix = pytest.mark.skipif(sys.platform == "win32", reason="on Windows the folder cannot be moved by a variable")


def settings(folder: Path, text: str = "# mine\n[*]\nbatch-size = 64\n; off\n") -> Path:
    file = folder / "llama.cpp" / "config.ini"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return file


@posix
@pytest.mark.parametrize("by", ["HOME", "XDG_CONFIG_HOME"])
def test_the_users_file_is_out_of_sight(tmp_path: Path, by: str) -> None:
    file = settings(tmp_path / ".config" if by == "HOME" else tmp_path)
    kept, hidden = clean_environment({by: str(tmp_path), "PATH": "/bin"})
    assert hidden == [f"the settings in {file}"]
    assert kept["PATH"] == "/bin"
    seen = subprocess.run(
        ["/bin/sh", "-c", 'cat "${XDG_CONFIG_HOME:-$HOME/.config}/llama.cpp/config.ini"'],
        env=kept,
        capture_output=True,
        check=False,
    )
    assert seen.returncode != 0, "the engine would still find the file"


@posix
@pytest.mark.parametrize("text", [None, "", "# batch-size = 64\n"], ids=["no file", "empty", "comments"])
def test_where_nothing_is_set_nothing_is_changed(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        settings(tmp_path, text)
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert clean_environment(environment) == (environment, [])


def test_variables_are_left_out() -> None:
    kept, hidden = clean_environment({"LLAMA_ARG_UBATCH": "64", "LLAMA_API_KEY": "x", "LLAMA_CACHE": "/c"})
    assert hidden == ["LLAMA_API_KEY", "LLAMA_ARG_UBATCH"]
    assert kept == {"LLAMA_CACHE": "/c"}


def test_the_machines_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = settings(tmp_path)
    monkeypatch.setattr(surroundings, "SYSTEM_FILE", file)
    monkeypatch.setattr(sys, "platform", "linux")
    (told,) = settings_that_stay({})
    assert str(file) in told
    assert "batch-size = 64" in told
    assert "off" not in told
    file.write_text("")
    assert settings_that_stay({}) == []
