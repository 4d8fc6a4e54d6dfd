"""Which configuration is recommended for a profile, with the evidence of the confirm stage."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from tuner.domain.configuration import Value
from tuner.domain.frozen import FrozenStudy
from tuner.domain.profile import Profile
from tuner.domain.record import TrialRecord
from tuner.domain.verdict import Outcome
from tuner.report.evidence import Evidence
from tuner.report.gain import Gain, gain, is_open
from tuner.report.worth import FlagWorth, differences, flag_worths, trimmed


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
    worths: tuple[FlagWorth, ...] = ()
    """What each flag of the candidate is worth, where it was measured without it."""
    put_back: tuple[str, ...] = ()
    """Flags of the candidate that the recommended command has no more, since they were worth nothing measurable."""
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
    evidence = Evidence.of(frozen, searched, confirmed)
    return [] if evidence is None else [_recommend_one(profile, evidence) for profile in frozen.profiles]


def undecided(
    frozen: FrozenStudy, searched: Sequence[TrialRecord], confirmed: Sequence[TrialRecord]
) -> list[TrialRecord]:
    """The candidates of which it is still open whether they gain anything for their profile, each once."""
    evidence = Evidence.of(frozen, searched, confirmed)
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


def _recommend_one(profile: Profile, evidence: Evidence) -> Recommendation:
    frozen, baseline = evidence.frozen, evidence.baseline
    candidate = evidence.candidate(profile)
    worths = flag_worths(profile, evidence, candidate)
    shorter = trimmed(profile, evidence, candidate, worths)
    best = shorter or candidate
    launches = evidence.launches(best) or [candidate]
    table = evidence.table(profile, best)
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
        worths=worths,
        put_back=shorter.put_back if shorter is not None and not chosen[-1].is_baseline else (),
        differences={} if chosen[-1].is_baseline else differences(frozen, best, baseline),
        tried=sum(1 for r in evidence.searched if not r.is_baseline and r.verdict and r.verdict.outcome is Outcome.OK),
        meets_needs=measurement is not None and not profile.unmet_needs(measurement),
    )
