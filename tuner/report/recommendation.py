"""Which configuration is recommended for a profile, with the evidence of the confirm stage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from pydantic import BaseModel, ConfigDict

from tuner.domain.configuration import Value
from tuner.domain.frozen import FrozenStudy
from tuner.domain.profile import Profile
from tuner.domain.record import Stage, TrialRecord
from tuner.domain.verdict import Outcome
from tuner.report.drift import levelled
from tuner.report.gain import Gain, gain, is_open, outlying
from tuner.report.selection import baseline_of, candidates

_SESSION_S = 3600.0
"""A pause of the confirm stage after which the machine counts as another one."""


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
    outliers: tuple[str, ...] = ()
    """The launches that were left out of the gain because they lay far from their configuration's others, in words."""
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


def recommend(
    frozen: FrozenStudy, searched: Sequence[TrialRecord], confirmed: Sequence[TrialRecord]
) -> list[Recommendation]:
    """One recommendation a profile; none before the baseline was measured.

    The candidate of a profile is settled by the search: the best of what was confirmed, or of everything while
    nothing is. Its gain then comes from the confirm stage's launches alone, which had no part in choosing it: what
    the search saw of a winner is inflated by the choice. A gain that is not measurable is no reason to change anything,
    and what failed in one of its launches there is nothing to rely on.
    """
    evidence = _Evidence.of(frozen, searched, confirmed)
    return [] if evidence is None else [_recommend_one(profile, evidence) for profile in frozen.profiles]


def undecided(
    frozen: FrozenStudy, searched: Sequence[TrialRecord], confirmed: Sequence[TrialRecord]
) -> list[TrialRecord]:
    """The candidates of which it is still open whether they gain anything for their profile, each once."""
    evidence = _Evidence.of(frozen, searched, confirmed)
    found: list[TrialRecord] = []
    for profile in frozen.profiles if evidence is not None else ():
        assert evidence is not None
        candidate = evidence.candidate(profile)
        table = evidence.table(profile, candidate)
        if candidate.is_baseline or candidate in found or table is None:
            continue
        if is_open(table.scores, table.ours, table.theirs, sessions=table.sessions, comparisons=evidence.comparisons):
            found.append(candidate)
    return found


@dataclass(frozen=True)
class _Launched:
    """A launch with its log score for one profile."""

    record: TrialRecord
    score: float
    session: int


@dataclass(frozen=True)
class _Table:
    """All launches of the confirm stage as one profile scores them, a row for each configuration."""

    rows: list[list[_Launched]]
    ours: int
    theirs: int

    @property
    def scores(self) -> list[list[float]]:
        return [[launch.score for launch in row] for row in self.rows]

    @property
    def sessions(self) -> list[list[int]]:
        return [[launch.session for launch in row] for row in self.rows]

    def outliers(self) -> list[str]:
        """The launches of the two that are compared which were left out, in words."""
        told = []
        for place, far in enumerate(outlying(self.scores)):
            if place not in (self.ours, self.theirs):
                continue
            for launch in (self.rows[place][one] for one in far):
                away = math.expm1(launch.score - median(other.score for other in self.rows[place]))
                told.append(
                    f"{launch.record.folder}: {abs(away):.0%} {'slower' if away < 0 else 'faster'} than its others"
                )
        return told


@dataclass(frozen=True)
class _Evidence:
    """What is known of a study, sorted by what it says."""

    frozen: FrozenStudy
    searched: list[TrialRecord]
    """Of the search, without what failed when it was launched again."""
    level: list[TrialRecord]
    """The same, as they compare."""
    baseline: TrialRecord
    measured: list[TrialRecord]
    """The confirm stage's launches that ran well."""
    sessions: dict[int, int]
    """Number of a launch of the confirm stage -> its session."""

    @classmethod
    def of(
        cls, frozen: FrozenStudy, searched: Sequence[TrialRecord], confirmed: Sequence[TrialRecord]
    ) -> _Evidence | None:
        """None before the baseline was measured."""
        baseline = baseline_of(searched)
        if baseline is None:
            return None
        unsound = {r.configuration.fingerprint for r in confirmed if _failed(r) and not r.is_baseline}
        sound = [r for r in searched if r.is_baseline or r.configuration.fingerprint not in unsound]
        launches = [r for r in confirmed if r.stage is Stage.CONFIRM]
        measured = [r for r in launches if r.verdict and r.verdict.feasible and r.measurement]
        return cls(frozen, sound, levelled(sound, confirmed), baseline, measured, _sessions(searched, launches))

    @property
    def comparisons(self) -> int:
        """How many gains are told: one for each profile that has a candidate beside the baseline."""
        return sum(1 for profile in self.frozen.profiles if not self.candidate(profile).is_baseline)

    def candidate(self, profile: Profile) -> TrialRecord:
        """The best of what was confirmed, or of everything while nothing is; the baseline where there is nothing."""
        ranked = [record for _, record in candidates(profile, self.frozen, self.level)]
        confirmed = {r.configuration.fingerprint for r in self.measured if not r.is_baseline}
        if confirmed:
            ranked = [record for record in ranked if record.configuration.fingerprint in confirmed]
        if not ranked:
            return self.baseline
        return next(record for record in self.searched if record.number == ranked[0].number)

    def launches(self, record: TrialRecord) -> list[TrialRecord]:
        """Its launches in the confirm stage. The baseline is told by its note: its command is its own."""
        if record.is_baseline:
            return [r for r in self.measured if r.is_baseline]
        return [r for r in self.measured if not r.is_baseline and r.configuration == record.configuration]

    def table(self, profile: Profile, candidate: TrialRecord) -> _Table | None:
        """None where the candidate or the baseline has no score; the search's launches while nothing is confirmed."""
        groups: dict[str, list[TrialRecord]] = {}
        for record in self.measured:
            groups.setdefault(_name(record), []).append(record)
        ours, theirs = _name(candidate), _name(self.baseline)
        rows = {name: self._scored(profile, records) for name, records in groups.items()}
        if not rows.get(ours) or not rows.get(theirs):
            rows = {theirs: self._scored(profile, [self.baseline]), ours: self._scored(profile, [candidate])}
        if not rows[ours] or not rows[theirs]:
            return None
        names = list(rows)
        return _Table(list(rows.values()), names.index(ours), names.index(theirs))

    def _scored(self, profile: Profile, records: Sequence[TrialRecord]) -> list[_Launched]:
        depths = self.frozen.workload.depths
        return [
            _Launched(record, score, self.sessions.get(record.number, 0) if record.stage is Stage.CONFIRM else 0)
            for record in records
            if record.measurement is not None and (score := profile.log_score(record.measurement, depths)) is not None
        ]


def _recommend_one(profile: Profile, evidence: _Evidence) -> Recommendation:
    frozen, baseline = evidence.frozen, evidence.baseline
    candidate = evidence.candidate(profile)
    launches = evidence.launches(candidate) or [candidate]
    table = evidence.table(profile, candidate)
    compared = Gain(ratio=1.0)
    if table is not None:
        compared = gain(
            table.scores, table.ours, table.theirs, sessions=table.sessions, comparisons=evidence.comparisons
        )
    unmet = baseline.measurement is not None and bool(profile.unmet_needs(baseline.measurement))
    # What the baseline cannot do at all needs no proof of being faster; while nothing is confirmed, the best seen
    # so far is shown for what it is.
    keep = compared.is_measurable or compared.low is None or unmet
    chosen = launches if keep else (evidence.launches(baseline) or [baseline])
    measurement = chosen[-1].measurement
    return Recommendation(
        profile=profile,
        trials=tuple(chosen),
        gain=compared,
        candidate=candidate,
        outliers=tuple(table.outliers()) if table is not None else (),
        is_baseline=chosen[-1].is_baseline,
        differences={} if chosen[-1].is_baseline else _differences(frozen, candidate, baseline),
        tried=sum(1 for r in evidence.searched if not r.is_baseline and r.verdict and r.verdict.outcome is Outcome.OK),
        meets_needs=measurement is not None and not profile.unmet_needs(measurement),
    )


def _sessions(searched: Sequence[TrialRecord], launches: Sequence[TrialRecord]) -> dict[int, int]:
    """Number of each launch -> the session it belongs to: a search or a long pause in between begins another one."""
    found: dict[int, int] = {}
    session, before = 0, None
    for record in sorted(launches, key=lambda one: one.started_at):
        if before is not None and (
            record.started_at - (before.finished_at or before.started_at) > _SESSION_S
            or any(before.started_at < one.started_at < record.started_at for one in searched)
        ):
            session += 1
        found[record.number] = session
        before = record
    return found


def _name(record: TrialRecord) -> str:
    return "baseline" if record.is_baseline else record.configuration.fingerprint


def _failed(record: TrialRecord) -> bool:
    """Whether a launch came to an end that speaks against its configuration."""
    verdict = record.verdict
    return verdict is not None and verdict.outcome is not Outcome.INTERRUPTED and not verdict.feasible


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
