"""What sets llama-server's flags without standing in its command: variables and files.

Every flag can be set by a variable `LLAMA_ARG_*`. Builds from b10398 on also read `config.ini` in /etc/llama.cpp and in
${XDG_CONFIG_HOME:-~/.config}/llama.cpp (on Windows under %PROGRAMDATA% and %APPDATA%), with the lowest precedence and
no way to switch it off (llama.cpp's pull request 26118).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

SYSTEM_FILE = Path("/etc/llama.cpp/config.ini")
_NOWHERE = os.devnull
"""As a folder of settings: nothing can lie in it."""


def clean_environment(inherited: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The environment without what sets flags unseen, and the names of what was left out."""
    hidden = sorted(name for name in inherited if name.startswith("LLAMA_ARG_") or name == "LLAMA_API_KEY")
    kept = {name: value for name, value in inherited.items() if name not in hidden}
    own = _own_file(inherited)
    if own is not None and sys.platform != "win32" and _settings(own):
        kept["XDG_CONFIG_HOME"] = _NOWHERE
        hidden.append(f"the settings in {own}")
    return kept, hidden


def settings_that_stay(inherited: Mapping[str, str]) -> list[str]:
    """What cannot be left out, in words: the machine's own file, and on Windows the user's too."""
    files = [SYSTEM_FILE]
    if sys.platform == "win32":
        places = [inherited.get(name) for name in ("PROGRAMDATA", "APPDATA")]
        files = [Path(place) / "llama.cpp" / "config.ini" for place in places if place]
    return [
        f"{file} sets {', '.join(settings)} in every launch, where the command does not say otherwise"
        for file in files
        if (settings := _settings(file))
    ]


def _own_file(inherited: Mapping[str, str]) -> Path | None:
    if folder := inherited.get("XDG_CONFIG_HOME"):
        return Path(folder) / "llama.cpp" / "config.ini"
    home = inherited.get("HOME")
    return Path(home) / ".config" / "llama.cpp" / "config.ini" if home else None


def _settings(file: Path) -> list[str]:
    """The lines of a file that set something. Every line counts, whatever section it stands in."""
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return []
    return [line.strip() for line in lines if "=" in line and not line.lstrip().startswith(("#", ";"))]
