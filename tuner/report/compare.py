"""Studies side by side: what each recommends for a profile, and which of them serves it best.

Studies of other engines, weights and machines are compared by what was measured alike: the same kinds of text, depths,
streams, answer lengths, sampling and texts. What was not measured alike is left out, and named.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from tuner.domain.frozen import FrozenStudy
from tuner.domain.profile import Profile
from tuner.domain.record import Stage, TrialRecord
from tuner.report.compare_alike import How, how_scored
from tuner.report.gain import Gain, gain
from tuner.report.recommendation import Recommendation, recommend
from tuner.report.selection import baseline_of


@dataclass(frozen=True)
class ComparedStudy:
    """One study of a comparison, read to its end."""

    name: str
    """Unique in the comparison."""
    frozen: FrozenStudy
    searched: Sequence[TrialRecord]
    confirmed: Sequence[TrialRecord]
    warm_ups: Mapping[str, int]
    """Folder of a launch -> how many warm-up requests it made, where its request lines are still there."""


@dataclass(frozen=True)
class Arm:
    """What one study recommends for one profile."""

    study: ComparedStudy
    recommendation: Recommendation
    scores: tuple[float, ...] = ()
    """Log score of each launch over the depths that all arms have; empty where it cannot be scored."""
    drift: float = 0.0
    """Standard deviation of the log score by which the machine wandered while the study ran, beyond launch noise."""
    out: str | None = None
    """Why it cannot win, in words; None where it can."""
    misses_needs: bool = False
    """Whether that is because it does not do what the profile needs at all."""

    @property
    def name(self) -> str:
        return self.study.name

    @property
    def launches(self) -> tuple[TrialRecord, ...]:
        return self.recommendation.trials

    @property
    def is_confirmed(self) -> bool:
        """Whether its launches were made to be compared, and more than one: a single one of a search is luck."""
        return len(self.scores) > 1 and all(trial.stage is Stage.CONFIRM for trial in self.launches)


@dataclass(frozen=True)
class ProfileComparison:
    """The studies as one profile sees them."""

    profile: Profile
    """With the strictest needs of all the studies: only what meets them can win."""
    arms: tuple[Arm, ...]
    depths: tuple[int, ...]
    """Depths that the scores cover."""
    best: str | None
    """The study with the best score, sure or not; None where there is nothing to compare."""
    over: Mapping[str, Gain]
    """Every other study that could win -> what the best gains over it; without an interval where not confirmed."""

    @property
    def winner(self) -> str | None:
        """The study that is certainly the best: beyond every interval, or alone in meeting the needs."""
        return self.best if all(gained.is_measurable for gained in self.over.values()) else None

    @property
    def level(self) -> tuple[str, ...]:
        """The studies at the top that nobody can tell apart, the best first; empty where the best is apart from all."""
        inside = [name for name, gained in self.over.items() if gained.low is not None and not gained.is_measurable]
        return (self.best, *inside) if self.best is not None and inside else ()


@dataclass(frozen=True)
class Comparison:
    """Everything that `tuner compare` tells."""

    studies: tuple[ComparedStudy, ...]
    profiles: tuple[ProfileComparison, ...]
    left_out: tuple[str, ...]
    """What is not set side by side, and why."""


def compare(studies: Sequence[ComparedStudy], profiles: Sequence[str] = ()) -> Comparison:
    """Compares the recommendations of studies; each needs a measured baseline.

    Args:
        studies: at least two, with names of their own.
        profiles: those to tell; all that at least two studies have when empty.
    """
    taken, left_out = _common_profiles(studies, profiles)
    recommended = {study.name: _recommended(study, taken) for study in studies}
    drafts = []
    for profile, takers in taken.values():
        scored = [(study, recommended[study.name][profile.name]) for study in takers]
        arms, depths, told = _arms(profile, scored)
        drafts.append((profile, arms, depths))
        left_out += told
    pairs = sum(len(able) * (len(able) - 1) // 2 for able in (_able(arms) for _, arms, _ in drafts))
    found = tuple(ProfileComparison(p, arms, depths, *_ranked(arms, pairs)) for p, arms, depths in drafts)
    return Comparison(tuple(studies), found, tuple(left_out))


def _common_profiles(
    studies: Sequence[ComparedStudy], wanted: Sequence[str]
) -> tuple[dict[str, tuple[Profile, list[ComparedStudy]]], list[str]]:
    """Profile name -> the profile with the strictest needs, and the studies that have it; and what is left out."""
    names = dict.fromkeys(profile.name for study in studies for profile in study.frozen.profiles)
    taken: dict[str, tuple[Profile, list[ComparedStudy]]] = {}
    left_out = []
    for name in names:
        if wanted and name not in wanted:
            continue
        owners = [(study, own) for study in studies for own in study.frozen.profiles if own.name == name]
        first = owners[0][1]
        alike = [(study, own) for study, own in owners if _weighs_like(own, first)]
        others = [study.name for study, own in owners if not _weighs_like(own, first)]
        if others:
            left_out.append(f"profile {name}: {', '.join(others)} weighs it otherwise than {owners[0][0].name}")
        if len(alike) < 2:
            left_out.append(f"profile {name}: only {owners[0][0].name} has it")
            continue
        least = max(own.least_context for _, own in alike)
        taken[name] = first.model_copy(update={"least_context": least}), [study for study, _ in alike]
    return taken, left_out


def _weighs_like(one: Profile, other: Profile) -> bool:
    unlike = {"name", "about", "least_context"}
    return one.model_dump(exclude=unlike) == other.model_dump(exclude=unlike)


def _recommended(
    study: ComparedStudy, taken: Mapping[str, tuple[Profile, list[ComparedStudy]]]
) -> dict[str, Recommendation]:
    """Profile -> what the study recommends under the common needs."""
    strict = tuple(taken[own.name][0] if own.name in taken else own for own in study.frozen.profiles)
    frozen = study.frozen.model_copy(update={"profiles": strict})
    return {found.profile.name: found for found in recommend(frozen, study.searched, study.confirmed)}


def _arms(
    profile: Profile, scored: Sequence[tuple[ComparedStudy, Recommendation]]
) -> tuple[tuple[Arm, ...], tuple[int, ...], list[str]]:
    """The arms with their scores, the depths that these cover, and why some have none."""
    hows = {study.name: how_scored(study.frozen, profile) for study, _ in scored}
    common = _most_common(list(hows.values()))
    alike = [study for study, _ in scored if hows[study.name] == common]
    shared = set(alike[0].frozen.workload.depths).intersection(*(study.frozen.workload.depths for study in alike))
    depths = tuple(sorted(shared))
    arms, left_out = [], []
    for study, recommendation in scored:
        scores: tuple[float, ...] = ()
        out: str | None = None
        misses = False
        if hows[study.name] != common:
            out = f"measured otherwise: {hows[study.name].unlike(common)}"
        elif len(alike) < 2:
            out = "no other study measured alike"
        elif not depths:
            out = "the studies have no depth in common"
        else:
            measured = [trial.measurement for trial in recommendation.trials if trial.measurement is not None]
            found = [profile.log_score(measurement, depths) for measurement in measured]
            scores = tuple(score for score in found if score is not None)
            if not scores:
                out = "not every cell was measured that the profile weighs"
            elif not recommendation.meets_needs:
                out, misses = _unmet(profile, recommendation), True
        if out is not None:
            left_out.append(f"profile {profile.name}: {study.name} cannot win: {out}")
        arms.append(Arm(study, recommendation, scores, _drift(profile, study, depths, scores), out, misses))
    return tuple(arms), depths, left_out


def _most_common(hows: Sequence[How]) -> How:
    return max(hows, key=lambda how: (hows.count(how), -hows.index(how)))


def _unmet(profile: Profile, recommendation: Recommendation) -> str:
    measurement = recommendation.trial.measurement
    actual = measurement.actual if measurement is not None else None
    if actual is None:
        return "nothing that it measured meets the needs"
    told = []
    if actual.context_per_slot is not None and actual.context_per_slot < profile.least_context:
        told.append(f"{actual.context_per_slot} tokens of context, {profile.least_context} are needed")
    if actual.slots is not None and actual.slots < profile.streams:
        told.append(f"serves {actual.slots} at once, {profile.streams} are needed")
    return "; ".join(told)


def _able(arms: Sequence[Arm]) -> list[Arm]:
    return [arm for arm in arms if arm.out is None]


def _drift(profile: Profile, study: ComparedStudy, depths: tuple[int, ...], scores: Sequence[float]) -> float:
    """What the study's anchors, launches of one and the same baseline, differ by more than launches in a row do."""
    baseline = baseline_of(study.searched)
    anchors = [r for r in study.confirmed if r.stage is Stage.ANCHOR and r.verdict and r.verdict.feasible]
    measured = [r.measurement for r in (baseline, *anchors) if r is not None and r.measurement is not None]
    found = [score for one in measured if (score := profile.log_score(one, depths)) is not None] if depths else []
    if len(found) < _LEAST_ANCHORS or len(scores) < 2:
        return 0.0
    return math.sqrt(max(0.0, variance(found) - variance(scores)))


def _ranked(arms: Sequence[Arm], pairs: int) -> tuple[str | None, dict[str, Gain]]:
    """The best arm, and what it gains over every other.

    Any two could have been the ones that are told: the intervals of all pairs hold together. Launches of two studies
    are never made in turn, so each interval is wider by what the two machines were seen to wander.
    """
    able = _able(arms)
    unknown = [arm for arm in arms if arm.out is not None and not arm.misses_needs]
    if not able or (len(able) == 1 and unknown):
        return None, {}
    rows = [arm.scores for arm in able]
    # Rounded, so that of equal studies the one that was named first is told.
    top = max(range(len(able)), key=lambda place: round(gain(rows, place, 0).ratio, 9))
    best = able[top]
    over = {}
    for place, arm in enumerate(able):
        if place == top:
            continue
        if arm.is_confirmed and best.is_confirmed:
            wander = _WIDTH * math.hypot(best.drift, arm.drift)
            over[arm.name] = _widened(gain(rows, top, place, comparisons=pairs), wander)
        else:
            over[arm.name] = Gain(ratio=_ratio(best.scores, arm.scores))
    return best.name, over


_LEAST_ANCHORS = 3
"""The first baseline among them: of two launches nobody can say whether it was drift or noise."""
_WIDTH = 2.33
"""Standard deviations that hold 98 of 100: as nominal as the rest of the interval."""


def _widened(gained: Gain, by: float) -> Gain:
    if gained.low is None or gained.high is None:
        return gained
    margins = (math.log(gained.ratio / gained.low), math.log(gained.high / gained.ratio))
    low, high = (math.hypot(margin, by) for margin in margins)
    ends = {"low": gained.ratio * math.exp(-low), "high": gained.ratio * math.exp(high)}
    return gained.model_copy(update=ends)


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return math.exp(fmean(ours) - fmean(theirs))
