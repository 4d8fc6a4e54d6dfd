"""The baseline measured again now and then during the search, so that a machine that drifts does not choose the winner.

A step beyond the noise gets a pause for cooling and another anchor; then what the step has touched is measured again,
as far as it may still win anything. All these launches are kept apart from those that the sampler learns from.
"""

from __future__ import annotations

import math
import time

from tuner.domain.record import BASELINE_NOTE, Stage, TrialRecord
from tuner.domain.verdict import Outcome
from tuner.report.drift import Drift, levelled
from tuner.report.selection import candidates
from tuner.study.budget import ANCHOR_LAUNCHES, ANCHOR_S, is_small
from tuner.study.intermission import budget_now
from tuner.study.kit import Kit
from tuner.study.launch import Launch
from tuner.study.run_trial import run_trial

_COOLING_S = 60.0
"""Most of the heat of a chip and its cooler is gone by then; that of a closed case stays, and is no accident."""
_TRIES = 2
"""A machine on which the baseline does not run so often goes on without an anchor."""
_REMEASURED = 3
"""At most so many trials are measured again after one step: those that may win most."""


def compared(kit: Kit) -> list[TrialRecord]:
    """The search's records as they compare with one another."""
    return levelled(kit.pool.records(), kit.pool.records(confirm=True))


def keep_anchor(kit: Kit, baseline: TrialRecord) -> None:
    """Measures the baseline again if that is due, and what has become doubtful by what it shows."""
    if not is_due(kit, baseline) or not _measure(kit, baseline, baseline):
        return
    step = _drift(kit).last_step(kit.frozen.machine.host)
    if not step:
        return
    touched = _touched(kit, max(map(abs, step.values())))
    told = ", ".join(f"{metric.partition('_')[0]} {math.expm1(change):+.0%}" for metric, change in step.items())
    kit.observer.note(f"the machine drifts: the baseline's {told}; once more after a pause of {_COOLING_S:.0f} s")
    time.sleep(_COOLING_S)
    if not _measure(kit, baseline, baseline):
        return
    for record in touched:
        kit.observer.note(f"trial {record.number} was measured while the machine drifted: measured again")
        if not _measure(kit, baseline, record):
            return


def is_due(kit: Kit, baseline: TrialRecord) -> bool:
    """Whether enough was launched here, and enough time went by, since the baseline was last measured.

    After a long pause it is due at once: the machine may be another one by now. So it is on a machine that has not
    measured the baseline yet: its figures could not be compared with the others'.
    """
    host = kit.frozen.machine.host
    anchors = [r for r in kit.pool.records(confirm=True) if r.stage is Stage.ANCHOR and r.owner.host == host]
    if baseline.owner.host != host and not any(r.verdict is not None and r.verdict.feasible for r in anchors):
        failed = sum(1 for r in anchors if r.verdict is not None and r.verdict.outcome is not Outcome.INTERRUPTED)
        return failed < _TRIES
    if is_small(kit.frozen.definition):
        return False
    if any(r.verdict is not None and r.verdict.outcome is Outcome.HOST_CRASH for r in anchors):
        return False
    finished = [r for r in anchors if r.verdict is not None and r.verdict.outcome is not Outcome.INTERRUPTED]
    last = max(r.started_at for r in (baseline, *finished) if r.owner.host == host)
    here = [r for r in kit.pool.records() if r.owner.host == host]
    loaded = [r for r in here if r.verdict is not None and r.verdict.outcome.was_loaded]
    since = sum(1 for record in loaded if record.started_at > last)
    now = time.time()
    ended = max((r.finished_at or r.started_at for r in (*loaded, *finished)), default=now)
    has_paused = len(loaded) > 1 and now - ended >= ANCHOR_S
    return has_paused or (since >= ANCHOR_LAUNCHES and now - last >= ANCHOR_S)


def _drift(kit: Kit) -> Drift:
    return Drift.of(kit.pool.records(), kit.pool.records(confirm=True))


def _measure(kit: Kit, baseline: TrialRecord, what: TrialRecord) -> bool:
    """Launches the baseline or a trial again; False where it did not run, or where there is no time for it."""
    left_s = budget_now(kit).left_s
    if left_s is not None and (what.seconds or 0.0) > left_s:
        return False
    stage, note = (Stage.ANCHOR, BASELINE_NOTE) if what.is_baseline else (Stage.REMEASURE, f"trial {what.number}")
    number = kit.pool.open_confirmation()
    record = run_trial(kit, Launch(number, stage, what.configuration, note, baseline.measurement))
    return record.verdict is not None and record.verdict.feasible


def _touched(kit: Kit, step: float) -> list[TrialRecord]:
    """The trials between the last two anchors that would be the best of a profile if the step were all theirs."""
    host = kit.frozen.machine.host
    since, until = _drift(kit).last_interval(host)
    gaps: dict[int, float] = {}
    records = compared(kit)
    for profile in kit.frozen.profiles:
        ranked = candidates(profile, kit.frozen, records)
        for score, record in ranked:
            gap = ranked[0][0] - score
            here = record.owner.host == host and since < record.started_at < until
            if here and not record.is_baseline and gap <= step:
                gaps[record.number] = min(gap, gaps.get(record.number, gap))
    nearest = sorted(gaps, key=lambda number: gaps[number])[:_REMEASURED]
    return [record for number in nearest for record in records if record.number == number]
