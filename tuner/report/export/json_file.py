"""An export for scripts."""

from __future__ import annotations

import json

from tuner.report.export.exported import MARK, Exported

SCHEMA_VERSION = 1


def export_json(exported: Exported) -> str:
    """One object; README.md names its keys."""
    recommendation = exported.recommendation
    gain = recommendation.gain
    form = {
        "schema_version": SCHEMA_VERSION,
        "about": MARK,
        "study": exported.study,
        "profile": exported.profile,
        "argv": list(exported.command.argv),
        "env": exported.command.env,
        "power_cap_commands": list(exported.cap_commands),
        "is_baseline": recommendation.is_baseline,
        "gain": 1.0 if recommendation.is_baseline else gain.ratio,
        "gain_interval": None if recommendation.is_baseline or gain.low is None else [gain.low, gain.high],
        "engine": exported.engine.engine,
        "engine_version": exported.engine.version,
    }
    return json.dumps(form, indent=2, ensure_ascii=False) + "\n"
