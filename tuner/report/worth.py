"""What each flag of a winner is worth: the winner beside itself with that flag as in the baseline."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from tuner.domain.configuration import Value
from tuner.domain.frozen import FrozenStudy
from tuner.domain.profile import Profile
from tuner.domain.record import TrialRecord
from tuner.domain.verdict import Outcome
from tuner.report.evidence import Evidence
from tuner.report.gain import Gain, gain

_LITTLE = 1.01
"""A flag that seems to be worth less than this, and measurably nothing, is no reason to keep it."""


class FlagWorth(BaseModel):
    """A flag of a winner, and how much faster the winner is with it than without it."""

    model_config = ConfigDict(frozen=True)

    name: str
    before: Value | None
    """The baseline's value."""
    now: Value | None
    """The winner's."""
    gain: Gain | None = None
    """Of the winner over itself without the flag; None where it cannot do without."""
    needed: str | None = None
    """Why it cannot do without: how the launch without it ended, or which need it missed."""

    @property
    def pays(self) -> bool:
        """Whether there is a reason to keep it."""
        return self.gain is None or self.gain.is_measurable or self.gain.ratio >= _LITTLE

    def told(self) -> str:
        """For a person: `+12 % (+9 to +15 %)`."""
        if self.gain is None:
            return f"needed: {self.needed}"
        if self.gain.low is None or self.gain.high is None:
            return f"{self.gain.ratio - 1:+.1%}, launched once"
        ends = f"{self.gain.low - 1:+.1%} to {self.gain.high - 1:+.1%}"
        if self.gain.low <= 1 <= self.gain.high:
            kept = ", kept for it" if self.pays else ""
            return f"no measurable difference: {self.gain.ratio - 1:+.1%} ({ends}){kept}"
        return f"{self.gain.ratio - 1:+.1%} ({ends})"


def flag_worths(profile: Profile, evidence: Evidence, winner: TrialRecord) -> tuple[FlagWorth, ...]:
    """The flags that were measured, in the order of what they are worth; what the winner cannot do without first."""
    found = []
    for launch in _first_of_each(evidence, winner):
        if len(launch.put_back) != 1:
            continue
        (name,) = launch.put_back
        now = winner.configuration.values.get(name)
        before = evidence.baseline.configuration.values.get(name)
        compared, needed = _compared(profile, evidence, winner, launch)
        if compared is not None or needed is not None:
            found.append(FlagWorth(name=name, before=before, now=now, gain=compared, needed=needed))
    return tuple(sorted(found, key=lambda worth: -(worth.gain.ratio if worth.gain is not None else 100.0)))


def droppable(worths: Sequence[FlagWorth]) -> tuple[str, ...]:
    """The flags that may all be left out, by what each is worth alone; sorted."""
    return tuple(sorted(worth.name for worth in worths if not worth.pays))


def trimmed(
    profile: Profile, evidence: Evidence, winner: TrialRecord, worths: Sequence[FlagWorth]
) -> TrialRecord | None:
    """The launch of the winner without the flags that do not pay, if it does as well; None where it does not.

    Flags that are worth nothing alone can be worth something together: what counts is the launches without all of them.
    """
    without = droppable(worths)
    for launch in _first_of_each(evidence, winner) if without else ():
        compared, needed = _compared(profile, evidence, winner, launch)
        if tuple(sorted(launch.put_back)) == without and needed is None and compared is not None:
            repeated = compared.low is not None
            return launch if repeated and not compared.is_measurable and compared.ratio < _LITTLE else None
    return None


def differences(
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


def _first_of_each(evidence: Evidence, winner: TrialRecord) -> list[TrialRecord]:
    """One launch of each of the winner's trims: one that failed, where any did."""
    found: dict[tuple[str, ...], TrialRecord] = {}
    for record in evidence.trims:
        if record.note == f"trial {winner.number}" and (record.put_back not in found or not _runs(record)):
            found[record.put_back] = record
    return list(found.values())


def _compared(
    profile: Profile, evidence: Evidence, winner: TrialRecord, launch: TrialRecord
) -> tuple[Gain | None, str | None]:
    """The winner over one of its trims, or why that is no alternative; neither where it says nothing."""
    verdict, measurement = launch.verdict, launch.measurement
    if verdict is None or verdict.outcome is Outcome.INTERRUPTED:
        return None, None
    if not _runs(launch) or measurement is None:
        return None, f"without it {verdict.outcome.value}"
    missed = profile.unmet_needs(measurement)
    if missed:
        return None, f"without it too little {', '.join(missed)}"
    table = evidence.table(profile, winner, launch)
    if table is None:
        return None, None
    return gain(table.scores, table.ours, table.theirs, sessions=table.sessions), None


def _runs(record: TrialRecord) -> bool:
    return record.verdict is not None and record.verdict.feasible
