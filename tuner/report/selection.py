"""Which configurations are worth confirming, and which one is recommended for a profile."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from tuner.domain.configuration import Value
from tuner.domain.frozen import FrozenStudy
from tuner.domain.profile import Profile
from tuner.domain.record import TrialRecord
from tuner.domain.verdict import Outcome
from tuner.report.gain import Gain, gain, is_open


class Recommendation(BaseModel):
    """What is recommended for one profile, with the evidence."""

    model_config = ConfigDict(frozen=True)

    profile: Profile
    trials: tuple[TrialRecord, ...]
    """The launches of the recommended configuration, the latest last; the confirm stage's where it was confirmed."""
    gain: Gain
    """Of the best candidate over the baseline, also when the baseline is recommended because it is not measurable."""
    candidate: TrialRecord
    """The best configuration that the search found for this profile; may be the baseline itself."""
    is_baseline: bool
    differences: dict[str, tuple[Value | None, Value | None]]
    """Parameter -> (baseline's value, recommended value)."""
    tried: int
    """Configurations beside the baseline that the search measured to their end."""
    meets_needs: bool
    """Whether the recommended configuration meets the profile's hard needs."""

    @property
    def trial(self) -> TrialRecord:
        """The launch whose command is recommended."""
        return self.trials[-1]


def baseline_of(searched: Sequence[TrialRecord]) -> TrialRecord | None:
    """The measured baseline, if there is one; it need not meet any profile's needs."""
    return next((r for r in searched if r.is_baseline and r.verdict and r.verdict.outcome is Outcome.OK), None)


def candidates(
    profile: Profile, frozen: FrozenStudy, searched: Sequence[TrialRecord]
) -> list[tuple[float, TrialRecord]]:
    """All configurations that may be recommended for a profile, with their log scores, best first."""
    scored = [
        (score, record)
        for record in searched
        if record.verdict is not None and record.verdict.feasible and record.measurement is not None
        if not profile.unmet_needs(record.measurement)
        if (score := profile.log_score(record.measurement, frozen.workload.depths)) is not None
    ]
    return sorted(scored, key=lambda pair: -pair[0])


def finalists(frozen: FrozenStudy, searched: Sequence[TrialRecord], limit: int) -> list[TrialRecord]:
    """At most `limit` configurations, the baseline not among them, that serve all profiles best together.

    One is taken after the other, each time the one that adds most to the sum of the profiles' best scores. The first
    is taken in any case: one launch of each is no evidence that the baseline is the best.
    """
    baseline = baseline_of(searched)
    tables = [
        {record.configuration.fingerprint: (score, record) for score, record in candidates(profile, frozen, searched)}
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
                break
            fingerprint = max(known, key=lambda one: _overall(one, tables))
        chosen.append(known.pop(fingerprint))
        best = [
            max(reached, table[fingerprint][0]) if fingerprint in table else reached
            for table, reached in zip(tables, best, strict=True)
        ]
    return chosen


def _overall(fingerprint: str, tables: Sequence[Mapping[str, tuple[float, TrialRecord]]]) -> tuple[int, float]:
    """How many profiles a configuration serves, and the sum of their scores."""
    scores = [table[fingerprint][0] for table in tables if fingerprint in table]
    return len(scores), sum(scores)


def recommend(
    frozen: FrozenStudy, searched: Sequence[TrialRecord], confirmed: Sequence[TrialRecord]
) -> list[Recommendation]:
    """One recommendation a profile; none before the baseline was measured.

    The candidate of a profile is settled by the search: the best of what was confirmed, or of everything while
    nothing is. Its gain then comes from the confirm stage's launches alone, which had no part in choosing it: what
    the search saw of a winner is inflated by the choice. A gain that is not measurable is no reason to change anything,
    and what failed in one of its launches there is nothing to rely on.
    """
    baseline = baseline_of(searched)
    if baseline is None:
        return []
    unsound = {record.configuration.fingerprint for record in confirmed if _failed(record) and not record.is_baseline}
    searched = [r for r in searched if r.is_baseline or r.configuration.fingerprint not in unsound]
    measured = [record for record in confirmed if record.verdict and record.verdict.feasible and record.measurement]
    confirmed_ones = {r.configuration.fingerprint for r in measured if not r.is_baseline}
    return [
        _recommend_one(profile, frozen, searched, baseline, measured, confirmed_ones) for profile in frozen.profiles
    ]


def undecided(
    frozen: FrozenStudy, searched: Sequence[TrialRecord], confirmed: Sequence[TrialRecord]
) -> list[TrialRecord]:
    """The candidates of which it is still open whether they gain anything for their profile, each once."""
    baseline = baseline_of(searched)
    found: list[TrialRecord] = []
    measured = [record for record in confirmed if record.verdict and record.verdict.feasible and record.measurement]
    for recommendation in recommend(frozen, searched, confirmed):
        candidate = recommendation.candidate
        if baseline is None or candidate.is_baseline or candidate in found:
            continue
        table, ours = _score_table(recommendation.profile, frozen, candidate, baseline, measured)
        names = list(table)
        if all(table.values()) and is_open([table[name] for name in names], names.index(ours), names.index("baseline")):
            found.append(candidate)
    return found


def _failed(record: TrialRecord) -> bool:
    """Whether a launch came to an end that speaks against its configuration."""
    verdict = record.verdict
    return verdict is not None and verdict.outcome is not Outcome.INTERRUPTED and not verdict.feasible


def _recommend_one(
    profile: Profile,
    frozen: FrozenStudy,
    searched: Sequence[TrialRecord],
    baseline: TrialRecord,
    measured: Sequence[TrialRecord],
    confirmed_ones: set[str],
) -> Recommendation:
    ranked = candidates(profile, frozen, searched)
    if confirmed_ones:
        ranked = [pair for pair in ranked if pair[1].configuration.fingerprint in confirmed_ones]
    candidate = ranked[0][1] if ranked else baseline
    launches = _launches(candidate, measured) or [candidate]
    compared = _gain(profile, frozen, candidate, baseline, measured)
    unmet = baseline.measurement is not None and bool(profile.unmet_needs(baseline.measurement))
    # What the baseline cannot do at all needs no proof of being faster; while nothing is confirmed, the best seen
    # so far is shown for what it is.
    keep = compared.is_measurable or compared.low is None or unmet
    chosen = launches if keep else (_launches(baseline, measured) or [baseline])
    measurement = chosen[-1].measurement
    return Recommendation(
        profile=profile,
        trials=tuple(chosen),
        gain=compared,
        candidate=candidate,
        is_baseline=chosen[-1].is_baseline,
        differences={} if chosen[-1].is_baseline else _differences(frozen, candidate, baseline),
        tried=sum(1 for r in searched if not r.is_baseline and r.verdict and r.verdict.outcome is Outcome.OK),
        meets_needs=measurement is not None and not profile.unmet_needs(measurement),
    )


def _differences(
    frozen: FrozenStudy, candidate: TrialRecord, baseline: TrialRecord
) -> dict[str, tuple[Value | None, Value | None]]:
    """What a user would change. A parameter that merely came into being at the engine's default is no change."""
    changed: dict[str, tuple[Value | None, Value | None]] = {}
    for name, (before, now) in candidate.configuration.differences_from(baseline.configuration.values).items():
        came = before is None and now == frozen.space.by_name[name].default
        went = now is None and name not in frozen.baseline
        if not came and not went:
            changed[name] = (before, now)
    return changed


def _launches(record: TrialRecord, measured: Sequence[TrialRecord]) -> list[TrialRecord]:
    """The confirm stage's launches of a configuration. The baseline is told by its note: its command is its own."""
    if record.is_baseline:
        return [r for r in measured if r.is_baseline]
    return [r for r in measured if not r.is_baseline and r.configuration == record.configuration]


def _gain(
    profile: Profile,
    frozen: FrozenStudy,
    candidate: TrialRecord,
    baseline: TrialRecord,
    measured: Sequence[TrialRecord],
) -> Gain:
    table, ours = _score_table(profile, frozen, candidate, baseline, measured)
    names = list(table)
    if not table[ours] or not table["baseline"]:
        return Gain(ratio=1.0)
    return gain([table[name] for name in names], names.index(ours), names.index("baseline"))


def _score_table(
    profile: Profile,
    frozen: FrozenStudy,
    candidate: TrialRecord,
    baseline: TrialRecord,
    measured: Sequence[TrialRecord],
) -> tuple[dict[str, list[float]], str]:
    """Configuration -> log scores of its launches, and the candidate's name in it."""
    depths = frozen.workload.depths

    def scores(records: Sequence[TrialRecord]) -> list[float]:
        found = [profile.log_score(r.measurement, depths) for r in records if r.measurement is not None]
        return [score for score in found if score is not None]

    groups: dict[str, list[TrialRecord]] = {}
    for record in measured:
        groups.setdefault("baseline" if record.is_baseline else record.configuration.fingerprint, []).append(record)
    ours = "baseline" if candidate.is_baseline else candidate.configuration.fingerprint
    table = {name: scores(records) for name, records in groups.items()}
    if not table.get(ours) or not table.get("baseline"):
        table = {"baseline": scores([baseline]), ours: scores([candidate])}
    return table, ours
