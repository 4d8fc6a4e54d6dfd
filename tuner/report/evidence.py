"""What is known of a study, sorted by what it says: what the search found, and what was launched again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tuner.domain.frozen import FrozenStudy
from tuner.domain.profile import Profile
from tuner.domain.record import Stage, TrialRecord
from tuner.domain.verdict import Outcome
from tuner.report.drift import Drift, levelled
from tuner.report.gain import gain, outlying
from tuner.report.selection import baseline_of, candidates

_AS_GOOD = 0.995
"""Of two that do not differ measurably the simpler one is preferred, unless it seems to be slower than this."""
_SESSION_S = 3600.0
"""A pause of the confirm stage after which the machine counts as another one."""


@dataclass(frozen=True)
class Launched:
    """A launch with its log score for one profile."""

    record: TrialRecord
    score: float
    session: int


@dataclass(frozen=True)
class Table:
    """All launches of the confirm stage as one profile scores them, a row for each configuration."""

    rows: list[list[Launched]]
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
class Evidence:
    """What is known of a study, sorted by what it says."""

    frozen: FrozenStudy
    searched: list[TrialRecord]
    """Of the search, without what failed when it was launched again."""
    level: list[TrialRecord]
    """The same, as they compare."""
    baseline: TrialRecord
    measured: list[TrialRecord]
    """The confirm stage's launches that ran well, trims among them."""
    trims: list[TrialRecord]
    """The launches of winners without some of their flags, however they ended."""
    sessions: dict[int, int]
    """Number of a launch of the confirm stage -> its session."""
    levels: Drift
    """What several machines differ by; nothing where there is one, which is compared as it measured."""

    @classmethod
    def of(
        cls, frozen: FrozenStudy, searched: Sequence[TrialRecord], confirmed: Sequence[TrialRecord]
    ) -> Evidence | None:
        """None before the baseline was measured."""
        baseline = baseline_of(searched)
        if baseline is None:
            return None
        unsound = {r.configuration.fingerprint for r in confirmed if _failed(r) and not r.is_baseline}
        sound = [r for r in searched if r.is_baseline or r.configuration.fingerprint not in unsound]
        launches = [r for r in confirmed if r.stage in (Stage.CONFIRM, Stage.TRIM)]
        measured = [r for r in launches if r.verdict and r.verdict.feasible and r.measurement]
        trims = [r for r in launches if r.stage is Stage.TRIM and r.verdict is not None]
        level = levelled(sound, confirmed)
        hosts = {record.owner.host for record in (*searched, *confirmed)}
        levels = Drift.of(searched, confirmed) if len(hosts) > 1 else Drift([])
        return cls(frozen, sound, level, baseline, measured, trims, _sessions(searched, launches), levels)

    @property
    def comparisons(self) -> int:
        """How many gains are told: one for each profile that has a candidate beside the baseline."""
        return sum(1 for profile in self.frozen.profiles if not self.candidate(profile).is_baseline)

    def candidate(self, profile: Profile) -> TrialRecord:
        """The best of what was confirmed, or of everything while nothing is; the baseline where there is nothing.

        The search's ranking stands unless the confirm stage says otherwise.
        """
        ranked = [record for _, record in candidates(profile, self.frozen, self.level)]
        chosen = [r for r in self.measured if r.stage is Stage.CONFIRM and not r.is_baseline]
        confirmed = {record.configuration.fingerprint for record in chosen}
        if confirmed:
            ranked = [record for record in ranked if record.configuration.fingerprint in confirmed]
        if not ranked:
            return self.baseline
        best = ranked[0]
        for other in ranked[1:] if confirmed else ():
            if self._is_preferred(profile, other, best):
                best = other
        return next(record for record in self.searched if record.number == best.number)

    def _is_preferred(self, profile: Profile, other: TrialRecord, best: TrialRecord) -> bool:
        """Whether the confirm stage found another one measurably better, or as good and nearer to the baseline."""
        table = self.table(profile, other, best)
        if table is None or other.is_baseline:
            return False
        compared = gain(table.scores, table.ours, table.theirs, sessions=table.sessions)
        if compared.low is None or compared.high is None or compared.is_measurable or compared.high < 1:
            return compared.is_measurable
        base = self.baseline.configuration.values
        simpler = len(other.configuration.differences_from(base)) < len(best.configuration.differences_from(base))
        return simpler and compared.ratio > _AS_GOOD

    def launches(self, record: TrialRecord) -> list[TrialRecord]:
        """Its launches in the confirm stage. The baseline is told by its note: its command is its own."""
        if record.is_baseline:
            return [r for r in self.measured if r.is_baseline]
        return [r for r in self.measured if not r.is_baseline and r.configuration == record.configuration]

    def table(self, profile: Profile, candidate: TrialRecord, other: TrialRecord | None = None) -> Table | None:
        """A candidate beside another configuration, without one the baseline.

        None where one of them has no score; the search's launches while nothing is confirmed.
        """
        other = other or self.baseline
        groups: dict[str, list[TrialRecord]] = {}
        for record in self.measured:
            groups.setdefault(name_of(record), []).append(record)
        ours, theirs = name_of(candidate), name_of(other)
        rows = {name: self._scored(profile, records) for name, records in groups.items()}
        if not rows.get(ours) or not rows.get(theirs):
            rows = {theirs: self._scored(profile, [other]), ours: self._scored(profile, [candidate])}
        if not rows[ours] or not rows[theirs]:
            return None
        names = list(rows)
        return Table(list(rows.values()), names.index(ours), names.index(theirs))

    def _scored(self, profile: Profile, records: Sequence[TrialRecord]) -> list[Launched]:
        depths = self.frozen.workload.depths
        return [
            Launched(record, score, self._session(record))
            for record in records
            if (measurement := self.levels.corrected(record).measurement) is not None
            and (score := profile.log_score(measurement, depths)) is not None
        ]

    def _session(self, record: TrialRecord) -> int:
        return self.sessions.get(record.number, 0) if record.stage in (Stage.CONFIRM, Stage.TRIM) else 0


def _sessions(searched: Sequence[TrialRecord], launches: Sequence[TrialRecord]) -> dict[int, int]:
    """Number of each launch -> the session it belongs to: a search or a long pause in between begins another one.

    Every machine has sessions of its own: what all launches on it have in common is taken out of the comparison.
    """
    found: dict[int, int] = {}
    session, before = 0, None
    for record in sorted(launches, key=lambda one: (one.owner.host, one.started_at)):
        if before is not None and (
            record.owner.host != before.owner.host
            or record.started_at - (before.finished_at or before.started_at) > _SESSION_S
            or any(
                one.owner.host == record.owner.host and before.started_at < one.started_at < record.started_at
                for one in searched
            )
        ):
            session += 1
        found[record.number] = session
        before = record
    return found


def name_of(record: TrialRecord) -> str:
    """What tells a configuration's launches from all others': the baseline's command is its own."""
    return "baseline" if record.is_baseline else record.configuration.fingerprint


def _failed(record: TrialRecord) -> bool:
    """Whether a launch came to an end that speaks against its configuration."""
    verdict = record.verdict
    return verdict is not None and verdict.outcome is not Outcome.INTERRUPTED and not verdict.feasible
