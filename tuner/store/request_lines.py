"""The raw lines of `requests.jsonl`, for reading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def request_lines(study: Path, trial: str) -> list[dict[str, Any]]:
    """Every request of a trial in order; none where its folder was deleted.

    Args:
        study: the study's folder.
        trial: the trial's folder, relative to it.

    A last line that a kill has cut short is left out.
    """
    try:
        text = (study / trial / "requests.jsonl").read_text(encoding="utf-8")
    except OSError:
        return []
    found = []
    for line in text.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found
