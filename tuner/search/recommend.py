"""What the model believes of the measured configurations: the best one seen is partly luck, which a mean corrects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuner.domain.profile import Profile
from tuner.domain.record import TrialRecord
from tuner.domain.space import SearchSpace
from tuner.domain.workload import Workload
from tuner.search.canonical import CanonicalSpace
from tuner.search.features import Features
from tuner.search.learned import Learned


@dataclass(frozen=True)
class Believed:
    """A log score as the model sees it: comparable with `Profile.log_score`."""

    mean: float
    deviation: float


def believed_scores(
    space: SearchSpace, profiles: Sequence[Profile], workload: Workload, records: Sequence[TrialRecord]
) -> dict[str, dict[str, Believed]]:
    """Profile -> fingerprint -> what the model believes, of the feasible configurations that meet its needs.

    Where there is too little to fit a model to, the measured scores themselves, with a deviation of nought.
    """
    try:
        canonical = CanonicalSpace(space)
        learned = Learned.of(canonical, Features(canonical), profiles, workload, records)
    except np.linalg.LinAlgError:
        learned = None
    result: dict[str, dict[str, Believed]] = {}
    for place, profile in enumerate(profiles):
        eligible = _eligible(profile, workload, records)
        if learned is None:
            result[profile.name] = {
                record.configuration.fingerprint: Believed(score, 0.0) for record, score in eligible
            }
            continue
        as_run = dict(zip((r.number for r in learned.evidence.measured), learned.evidence.configurations, strict=True))
        found = learned.predict([as_run[record.number] for record, _ in eligible], learned.aims[place], place)
        result[profile.name] = {
            record.configuration.fingerprint: Believed(float(mean), float(deviation))
            for (record, _), mean, deviation in zip(eligible, found.mean, found.deviation, strict=True)
        }
    return result


def _eligible(profile: Profile, workload: Workload, records: Sequence[TrialRecord]) -> list[tuple[TrialRecord, float]]:
    """The trials that may be recommended for a profile, with their measured log scores."""
    return [
        (record, score)
        for record in records
        if record.verdict is not None and record.verdict.feasible and record.measurement is not None
        if not profile.unmet_needs(record.measurement)
        if (score := profile.log_score(record.measurement, workload.depths)) is not None
    ]
