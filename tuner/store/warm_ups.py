"""How many warm-up requests the launches of a study made, as their request lines say."""

from __future__ import annotations

import json
from pathlib import Path

_WARM_UP = "warm-up"
"""The name under which `tuner.workload.measure` logs them."""


def warm_ups(study: Path) -> dict[str, int]:
    """Folder of a launch, relative to the study's -> its warm-up requests; without those whose lines are gone."""
    found = {}
    for path in sorted(study.glob("trials/*/requests.jsonl")):
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
            cells = [json.loads(line).get("cell") for line in lines]
        except (OSError, ValueError, AttributeError):
            continue  # Cut by a kill, or not ours: then it is not known.
        found[path.parent.relative_to(study).as_posix()] = cells.count(_WARM_UP)
    return found
