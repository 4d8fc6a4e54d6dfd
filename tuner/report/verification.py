"""What a verification shows: how speeds have changed, which gains still hold, and what to tune again."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict

from tuner.domain.frozen import FrozenStudy
from tuner.domain.measurement import Measurement
from tuner.domain.profile import Profile
from tuner.domain.record import Stage, TrialRecord
from tuner.domain.verdict import Outcome
from tuner.report.gain import Gain, gain
from tuner.report.recommendation import Recommendation

SCHEMA_VERSION = 1


class Standing(StrEnum):
    """What has become of a recommendation."""

    HOLDS = "holds"
    """Still measurably faster than the baseline."""
    UNPROVEN = "unproven"
    """No measurable difference from the baseline any more, in these launches."""
    SLOWER = "slower"
    """Measurably slower than the baseline now."""
    FAILS = "fails"
    """It does not run any more, or not as asked."""
    BASELINE = "baseline"
    """The study recommended the baseline, and it runs."""


class Checked(BaseModel):
    """A profile's recommendation, then and now."""

    model_config = ConfigDict(frozen=True)

    profile: str
    standing: Standing
    reason: str
    before: Gain | None
    """The study's gain; None for a baseline."""
    now: Gain | None
    """The gain in this verification; None where it failed, and for a baseline."""


class Changed(BaseModel):
    """How one configuration's speeds compare with those that the study measured: a ratio of 1.1 is a tenth faster."""

    model_config = ConfigDict(frozen=True)

    name: str
    prefill: Gain | None
    decode: Gain | None


class Verification(BaseModel):
    """Everything that a verification shows."""

    model_config = ConfigDict(frozen=True)

    differences: tuple[str, ...]
    """In what machine, driver and engine differ from the study's, in words."""
    space: tuple[str, ...]
    """What could be tuned now and could not then, or the other way round, in words."""
    configurations: tuple[Changed, ...]
    profiles: tuple[Checked, ...]
    launches: int

    @property
    def tune_again(self) -> list[str]:
        """The profiles whose recommendation is not one any more."""
        lost = (Standing.SLOWER, Standing.FAILS, Standing.UNPROVEN)
        return [one.profile for one in self.profiles if one.standing in lost]

    @classmethod
    def of(
        cls,
        frozen: FrozenStudy,
        found: Sequence[Recommendation],
        old: Sequence[TrialRecord],
        launched: Sequence[TrialRecord],
        *,
        differences: Sequence[str] = (),
        space: Sequence[str] = (),
    ) -> Verification:
        """Compares.

        Args:
            frozen: the study.
            found: what it recommends.
            old: its own records, of the search and of the confirm stage.
            launched: the launches of the verification.
            differences: in what the surroundings differ.
            space: in what the search space would differ.
        """
        names = list(dict.fromkeys(_name(record) for record in launched))
        comparisons = sum(1 for one in found if not one.is_baseline)
        return cls(
            differences=tuple(differences),
            space=tuple(space),
            configurations=tuple(
                _changed(frozen, _named(old, launched, name), name, [r for r in launched if _name(r) == name])
                for name in names
            ),
            profiles=tuple(_checked(frozen, one, launched, comparisons) for one in found),
            launches=len(launched),
        )

    def lines(self) -> list[str]:
        """For a terminal."""
        told = [f"changed   {line}" for line in self.differences] or ["changed   nothing in machine, driver or engine"]
        told += [f"space     {line}" for line in self.space]
        for one in self.configurations:
            speeds = [
                f"{metric} {_ratio(change)}"
                for metric, change in (("prefill", one.prefill), ("decode", one.decode))
                if change is not None
            ]
            told.append(f"speed     {one.name}: {', '.join(speeds) or 'no speed to compare'}")
        told.append("")
        width = max(len(one.profile) for one in self.profiles)
        told += [f"{one.profile:<{width}}  {one.standing.value}: {one.reason}" for one in self.profiles]
        told.append("")
        if self.tune_again:
            told.append(f"tune again for {', '.join(self.tune_again)}: `tuner run` with another --name")
        elif self.space:
            told.append("everything holds; what could be tuned now and could not then may give more")
        else:
            told.append("everything holds: there is nothing to tune again")
        return told

    def form(self, study: str) -> dict[str, Any]:
        """For scripts; README.md names the keys."""
        return {
            "schema_version": SCHEMA_VERSION,
            "study": study,
            "differences": list(self.differences),
            "space": list(self.space),
            "launches": self.launches,
            "configurations": [
                {"name": one.name, "prefill": _gain_form(one.prefill), "decode": _gain_form(one.decode)}
                for one in self.configurations
            ],
            "profiles": [
                {
                    "name": one.profile,
                    "standing": one.standing.value,
                    "reason": one.reason,
                    "before": _gain_form(one.before),
                    "now": _gain_form(one.now),
                }
                for one in self.profiles
            ],
            "tune_again": self.tune_again,
        }


def _name(record: TrialRecord) -> str:
    return "baseline" if record.is_baseline else record.note


def _named(old: Sequence[TrialRecord], launched: Sequence[TrialRecord], name: str) -> list[TrialRecord]:
    """The study's launches of the same configuration: the confirm stage's, else the search's."""
    like = next(record for record in launched if _name(record) == name)
    same = [
        record
        for record in old
        if _is_measured(record)
        and record.is_baseline == like.is_baseline
        and (record.is_baseline or record.configuration == like.configuration)
    ]
    return [record for record in same if record.stage is Stage.CONFIRM] or same[:1]


def _is_measured(record: TrialRecord) -> bool:
    return record.verdict is not None and record.verdict.outcome is Outcome.OK and record.measurement is not None


def _changed(frozen: FrozenStudy, before: Sequence[TrialRecord], name: str, now: Sequence[TrialRecord]) -> Changed:
    depths, cells = frozen.workload.depths, frozen.workload.cells

    def prefill(measurement: Measurement) -> float | None:
        return _mean_log([measurement.prefill_at(depth) for depth in depths])

    def decode(measurement: Measurement) -> float | None:
        found = [measurement.result(cell) for cell in cells]
        return _mean_log([result.decode_tps if result is not None else None for result in found])

    return Changed(name=name, prefill=_compared(now, before, prefill), decode=_compared(now, before, decode))


def _mean_log(speeds: Sequence[float | None]) -> float | None:
    known = [math.log(speed) for speed in speeds if speed]
    return sum(known) / len(known) if known and len(known) == len(speeds) else None


def _compared(
    ours: Sequence[TrialRecord], theirs: Sequence[TrialRecord], score: Callable[[Measurement], float | None]
) -> Gain | None:
    """The ratio of two groups of launches; None where one of them has no score."""
    scores = [
        [s for r in group if _is_measured(r) and r.measurement is not None and (s := score(r.measurement)) is not None]
        for group in (ours, theirs)
    ]
    return gain(scores, 0, 1) if all(scores) else None


def _checked(frozen: FrozenStudy, one: Recommendation, launched: Sequence[TrialRecord], comparisons: int) -> Checked:
    if one.is_baseline:
        reason = "your own command was the best one, and runs"
        return Checked(profile=one.profile.name, standing=Standing.BASELINE, reason=reason, before=None, now=None)
    ours = [r for r in launched if not r.is_baseline and r.configuration == one.candidate.configuration]
    failed = next((r for r in ours if not _is_measured(r)), None)
    if failed is not None or not ours:
        verdict = failed.verdict if failed is not None else None
        told = f"{verdict.outcome.value}, {verdict.reason}" if verdict is not None else "it was not launched"
        return Checked(profile=one.profile.name, standing=Standing.FAILS, reason=told, before=one.gain, now=None)
    now = _gain_now(frozen, one.profile, ours, [r for r in launched if r.is_baseline], comparisons)
    was = f"; was {one.gain.told()}"
    if now is None:
        reason = f"its speed could not be measured{was}"
        return Checked(profile=one.profile.name, standing=Standing.FAILS, reason=reason, before=one.gain, now=None)
    standing = Standing.UNPROVEN
    if now.is_measurable:
        standing = Standing.HOLDS
    elif now.high is not None and now.high < 1:
        standing = Standing.SLOWER
    return Checked(profile=one.profile.name, standing=standing, reason=now.told() + was, before=one.gain, now=now)


def _gain_now(
    frozen: FrozenStudy,
    profile: Profile,
    ours: Sequence[TrialRecord],
    baseline: Sequence[TrialRecord],
    comparisons: int,
) -> Gain | None:
    depths = frozen.workload.depths
    scores = [
        [s for r in group if r.measurement is not None and (s := profile.log_score(r.measurement, depths)) is not None]
        for group in (ours, baseline)
    ]
    return gain(scores, 0, 1, comparisons=comparisons) if all(scores) else None


def _ratio(change: Gain) -> str:
    interval = "" if change.low is None or change.high is None else f" ({change.low:.2f} to {change.high:.2f})"
    return f"{change.ratio:.2f}x what it was{interval}"


def _gain_form(one: Gain | None) -> dict[str, float | None] | None:
    return None if one is None else {"ratio": one.ratio, "low": one.low, "high": one.high}
