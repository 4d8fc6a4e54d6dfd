"""The machine-readable form of status and best. Documented in README.md; its version rises when a key changes."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from tuner.domain.frozen import FrozenStudy
from tuner.domain.record import Stage, TrialRecord
from tuner.report.drift import levelled
from tuner.report.quality import quality_json
from tuner.report.recommendation import Recommendation
from tuner.report.requests_told import acceptance_by_content, ttft_by_depth
from tuner.report.selection import baseline_of, candidates
from tuner.report.tables import decode_by_content, prefill_by_depth

SCHEMA_VERSION = 1


def best_json(name: str, frozen: FrozenStudy, recommendations: list[Recommendation]) -> dict[str, Any]:
    """What `tuner best --json` prints."""
    return {
        "schema_version": SCHEMA_VERSION,
        "study": name,
        "sampling": frozen.workload.sampling.given(),
        "profiles": [_profile_json(frozen, recommendation) for recommendation in recommendations],
    }


def _profile_json(frozen: FrozenStudy, recommendation: Recommendation) -> dict[str, Any]:
    trial, gain = recommendation.trial, recommendation.gain
    measurement = trial.measurement
    assert trial.command is not None
    return {
        "name": recommendation.profile.name,
        "command": {"argv": list(trial.command.argv), "env": trial.command.env},
        "command_line": trial.command.posix_line(),
        "power_cap_commands": list(trial.cap_commands),
        "is_baseline": recommendation.is_baseline,
        "meets_needs": recommendation.meets_needs,
        "gain": 1.0 if recommendation.is_baseline else gain.ratio,
        "gain_interval": None if recommendation.is_baseline or gain.low is None else [gain.low, gain.high],
        "candidate_gain": gain.ratio,
        "candidate_gain_interval": None if gain.low is None else [gain.low, gain.high],
        "is_measurable": gain.is_measurable,
        "launches": len(recommendation.trials),
        "outlying_launches": list(recommendation.outliers),
        "worths": [
            {
                "parameter": worth.name,
                "ratio": None if worth.gain is None else worth.gain.ratio,
                "interval": None if worth.gain is None or worth.gain.low is None else [worth.gain.low, worth.gain.high],
                "needed": worth.needed,
                "dropped": worth.name in recommendation.put_back,
            }
            for worth in recommendation.worths
        ],
        "metrics": {
            "prefill_tps": {str(d): s for d, s in prefill_by_depth(recommendation.trials, frozen.workload).items()},
            "decode_tps": {
                content: {str(depth): speed for depth, speed in at.items()}
                for content, at in decode_by_content(recommendation.trials, frozen.workload).items()
            },
            "quality": quality_json(recommendation.trials),
            "ttft_ms": {str(d): told for d, told in ttft_by_depth(recommendation.trials, frozen.workload).items()},
            "acceptance": {
                content: {str(depth): told for depth, told in at.items()}
                for content, at in acceptance_by_content(recommendation.trials, frozen.workload).items()
            },
            "cells": [{"name": r.cell.name, **r.model_dump(mode="json")} for r in measurement.cells]
            if measurement
            else [],
            "context_tokens": measurement.actual.context_per_slot if measurement else None,
            "proven_context_tokens": measurement.proven_context if measurement else None,
            "buffers_mib": measurement.actual.buffers_mib if measurement else {},
            "host_rss_peak_mib": measurement.host_rss_peak_mib if measurement else None,
            "gpus": [use.model_dump() for use in measurement.gpus] if measurement else [],
        },
        "differences_from_baseline": {
            name: {"baseline": before, "best": now} for name, (before, now) in recommendation.differences.items()
        },
    }


def status_json(
    name: str,
    frozen: FrozenStudy | None,
    searched: list[TrialRecord],
    confirmed: list[TrialRecord],
    *,
    running: bool,
    used_s: float,
    left_s: float | None,
) -> dict[str, Any]:
    """What `tuner status --json` prints."""
    confirming = [record for record in confirmed if record.stage is Stage.CONFIRM]
    trims = [record for record in confirmed if record.stage is Stage.TRIM]
    return {
        "schema_version": SCHEMA_VERSION,
        "study": name,
        "running": running,
        "trials": len(searched),
        "confirm_trials": len(confirming),
        "anchors": sum(1 for record in confirmed if record.stage is Stage.ANCHOR),
        "outcomes": outcomes(searched),
        "confirm_outcomes": outcomes(confirming),
        "trim_outcomes": outcomes(trims),
        "best": best_so_far(frozen, levelled(searched, confirmed)) if frozen else {},
        "used_s": used_s,
        "left_s": left_s,
    }


def outcomes(records: list[TrialRecord]) -> dict[str, int]:
    """Outcome -> number of trials; `OPEN` for trials without a verdict."""
    counts = Counter("OPEN" if record.verdict is None else record.verdict.outcome.value for record in records)
    return dict(sorted(counts.items()))


def best_so_far(frozen: FrozenStudy, searched: list[TrialRecord]) -> dict[str, dict[str, Any]]:
    """Profile -> the best trial of the search and its gain, from one launch, not confirmed."""
    baseline = baseline_of(searched)
    best: dict[str, dict[str, Any]] = {}
    if baseline is None or baseline.measurement is None:
        return best
    for profile in frozen.profiles:
        reference = profile.log_score(baseline.measurement, frozen.workload.depths)
        ranked = candidates(profile, frozen, searched)
        if ranked and reference is not None:
            score, record = ranked[0]
            best[profile.name] = {"trial": record.number, "gain": math.exp(score - reference)}
    return best
