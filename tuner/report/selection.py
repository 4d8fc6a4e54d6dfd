"""Which configurations are the best of a search, and which of them are worth confirming."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tuner.domain.frozen import FrozenStudy
from tuner.domain.profile import Profile
from tuner.domain.record import TrialRecord
from tuner.domain.verdict import Outcome


def baseline_of(searched: Sequence[TrialRecord]) -> TrialRecord | None:
    """The measured baseline, if there is one; it need not meet any profile's needs."""
    return next((r for r in searched if r.is_baseline and r.verdict and r.verdict.outcome is Outcome.OK), None)


_NEAR = 0.03
"""A score so little below the best, as a logarithm, may belong to the better configuration: launches differ as much."""

Believed = Mapping[str, Mapping[str, float]]
"""Profile -> fingerprint -> the log score that the search's model believes in."""


def most_finalists(frozen: FrozenStudy) -> int:
    """How many configurations are confirmed: one for each profile, and one that may turn out to be better still."""
    return len(frozen.profiles) + 1


def candidates(
    profile: Profile, frozen: FrozenStudy, searched: Sequence[TrialRecord], believed: Believed | None = None
) -> list[tuple[float, TrialRecord]]:
    """All configurations that may be recommended for a profile, with their log scores, best first.

    Where the search's model has an opinion of one, `believed`, that counts instead of what a single launch showed.
    """
    opinions = (believed or {}).get(profile.name, {})
    scored = [
        (opinions.get(record.configuration.fingerprint, score), record)
        for record in searched
        if record.verdict is not None and record.verdict.feasible and record.measurement is not None
        if not profile.unmet_needs(record.measurement)
        if (score := profile.log_score(record.measurement, frozen.workload.depths)) is not None
    ]
    return sorted(scored, key=lambda pair: -pair[0])


def finalists(
    frozen: FrozenStudy, searched: Sequence[TrialRecord], limit: int, believed: Believed | None = None
) -> list[TrialRecord]:
    """At most `limit` configurations, the baseline not among them, that serve all profiles best together.

    One is taken after the other, each time the one that adds most to the sum of the profiles' best scores. The first
    is taken in any case: one launch of each is no evidence that the baseline is the best. If there is room left, the
    nearest runner-up of any profile is taken too, where it is so near that it may be the better one.
    """
    baseline = baseline_of(searched)
    tables = [
        {
            record.configuration.fingerprint: (score, record)
            for score, record in candidates(profile, frozen, searched, believed)
        }
        for profile in frozen.profiles
    ]
    start = baseline.configuration.fingerprint if baseline else ""
    best = [table[start][0] if start in table else -math.inf for table in tables]
    chosen: list[TrialRecord] = []
    known = {fingerprint: record for table in tables for fingerprint, (_, record) in table.items()}
    known.pop(start, None)
    while known and len(chosen) < limit:
        worth = {
            fingerprint: sum(
                min(table[fingerprint][0] - reached, 10.0) if fingerprint in table else 0.0
                for table, reached in zip(tables, best, strict=True)
                if fingerprint in table and table[fingerprint][0] > reached
            )
            for fingerprint in known
        }
        fingerprint = max(worth, key=lambda candidate: worth[candidate])
        if worth[fingerprint] <= 0:
            if chosen:
                nearest = _runner_up(known, tables)
                return [*chosen, nearest] if nearest is not None else chosen
            fingerprint = max(known, key=lambda one: _overall(one, tables))
        chosen.append(known.pop(fingerprint))
        best = [
            max(reached, table[fingerprint][0]) if fingerprint in table else reached
            for table, reached in zip(tables, best, strict=True)
        ]
    return chosen


def _runner_up(
    known: Mapping[str, TrialRecord], tables: Sequence[Mapping[str, tuple[float, TrialRecord]]]
) -> TrialRecord | None:
    """Of those that were not chosen the one that is nearest to the best of some profile, if it is near enough."""
    gaps = {
        fingerprint: min(max(score for score, _ in t.values()) - t[fingerprint][0] for t in tables if fingerprint in t)
        for fingerprint in known
    }
    nearest = min(gaps, key=lambda one: gaps[one], default=None)
    return known[nearest] if nearest is not None and gaps[nearest] <= _NEAR else None


def _overall(fingerprint: str, tables: Sequence[Mapping[str, tuple[float, TrialRecord]]]) -> tuple[int, float]:
    """How many profiles a configuration serves, and the sum of their scores."""
    scores = [table[fingerprint][0] for table in tables if fingerprint in table]
    return len(scores), sum(scores)
