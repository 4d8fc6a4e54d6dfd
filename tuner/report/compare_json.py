"""The machine-readable form of a comparison. Documented in README.md; its version rises when a key changes."""

from __future__ import annotations

from typing import Any

from tuner.report.compare import Arm, ComparedStudy, Comparison, ProfileComparison
from tuner.report.compare_protocol import differences
from tuner.report.compare_rows import Row, rows

SCHEMA_VERSION = 1


def compare_json(comparison: Comparison) -> dict[str, Any]:
    """What `tuner compare --json` prints."""
    return {
        "schema_version": SCHEMA_VERSION,
        "studies": [_study_json(study) for study in comparison.studies],
        "profiles": [_profile_json(compared) for compared in comparison.profiles],
        "left_out": list(comparison.left_out),
        "differences": differences(comparison),
    }


def _study_json(study: ComparedStudy) -> dict[str, Any]:
    frozen = study.frozen
    return {
        "name": study.name,
        "engines": [{"name": facts.engine, "version": facts.version} for facts in frozen.engines],
        "models": [
            {"name": model.name, "quantisation": model.quantisation, "size_bytes": model.size_bytes}
            for model in frozen.models
        ],
        "machine": frozen.machine.host,
        "cards": [card.name for card in frozen.machine.cards] or list(frozen.machine.gpus),
        "tuner_version": frozen.tuner_version,
        "texts": frozen.texts,
    }


def _profile_json(compared: ProfileComparison) -> dict[str, Any]:
    return {
        "name": compared.profile.name,
        "least_context": compared.profile.least_context,
        "depths": list(compared.depths),
        "best": compared.best,
        "winner": compared.winner,
        "no_measurable_difference": list(compared.level),
        "gain_over": {
            name: {"ratio": gained.ratio, "interval": None if gained.low is None else [gained.low, gained.high]}
            for name, gained in compared.over.items()
        },
        "arms": [_arm_json(arm) for arm in compared.arms],
        "rows": [_row_json(row) for row in rows(compared.arms)],
    }


def _arm_json(arm: Arm) -> dict[str, Any]:
    trial = arm.recommendation.trial
    return {
        "study": arm.name,
        "command": None if trial.command is None else {"argv": list(trial.command.argv), "env": trial.command.env},
        "power_cap_commands": list(trial.cap_commands),
        "is_baseline": arm.recommendation.is_baseline,
        "launches": len(arm.launches),
        "is_confirmed": arm.is_confirmed,
        "cannot_win": arm.out,
    }


def _row_json(row: Row) -> dict[str, Any]:
    return {
        "metric": row.metric,
        "unit": row.unit,
        "content": row.content,
        "depth": row.depth,
        "streams": row.streams,
        "predict_tokens": row.how.tokens,
        "sampling": row.how.sampling,
        "texts": row.how.texts,
        "prompts": row.how.prompts,
        "studies": {
            name: {"median": one.median, "range": [one.least, one.most], "launches": one.launches}
            for name, one in row.figures.items()
        },
    }
