"""Settles what an earlier run left open: engines still running, trials without a verdict."""

from __future__ import annotations

import time

from tuner.domain.errors import HostUnstable
from tuner.domain.record import TrialRecord
from tuner.domain.verdict import Outcome, Verdict
from tuner.report.drift import Drift
from tuner.study.judge import constraints, reference_of, told_objectives
from tuner.study.kit import Kit

_CRASHES_IN_A_ROW = 2
_PAUSE_AFTER_CRASH_S = 60.0
"""The chance to step in, for someone who finds the machine restarted."""


def settle(kit: Kit) -> None:
    """Stops engines left behind and closes open trials. The caller holds the study's lock, so nobody else runs it.

    Raises:
        HostUnstable: the machine went down in the last two launches.
    """
    for told in kit.stop_leftovers(f"{kit.frozen.study_id}/"):
        kit.observer.note(f"stopped what an earlier run left behind: {told}")
    close_abandoned(kit)
    _mind_crashes(kit)


def close_abandoned(kit: Kit) -> None:
    """Closes the open trials that nobody runs any more: this machine's own, and those of other workers that died."""
    kit.pool.drop_unrecorded()
    searched = kit.pool.records()
    reference, drift = reference_of(searched), Drift.of(searched, kit.pool.records(confirm=True))
    for confirm in (False, True):
        for record in kit.pool.untold(confirm=confirm):
            closed = record if record.verdict is not None else _closed(kit, record)
            objectives = told_objectives(drift.corrected(closed), kit.frozen.workload, reference)
            kit.pool.tell(closed, objectives, confirm=confirm)


def _mind_crashes(kit: Kit) -> None:
    """Stops where the last two launches took the machine down; after one, waits a moment before the next.

    Raises:
        HostUnstable: a person should look at it first.
    """
    launches = [*kit.pool.records(), *kit.pool.records(confirm=True)]
    launches = [r for r in launches if r.owner.host == kit.owner.host]
    launches = [r for r in launches if r.verdict is not None and r.verdict.outcome.was_loaded]
    last = [r for r in sorted(launches, key=lambda r: r.started_at) if r.verdict][-_CRASHES_IN_A_ROW:]
    crashed = [r for r in last if r.verdict is not None and r.verdict.outcome is Outcome.HOST_CRASH]
    if len(crashed) == _CRASHES_IN_A_ROW and not kit.after_crashes:
        raise HostUnstable(
            "The machine went down in two launches in a row",
            where=", ".join(f"{record.folder}/engine.log" for record in crashed),
            advice="look at power supply, cooling and memory; `tuner run NAME --after-crashes` goes on nevertheless",
        )
    if crashed and last[-1] in crashed:
        kit.observer.note(f"going on in {_PAUSE_AFTER_CRASH_S:.0f} s; Ctrl-C stops")
        time.sleep(_PAUSE_AFTER_CRASH_S)


def _closed(kit: Kit, record: TrialRecord) -> TrialRecord:
    verdict = _verdict_of_open(kit, record)
    kit.observer.note(f"trial {record.folder} was left open: {verdict.outcome.value}, {verdict.reason}")
    # When it ended is unknown: a night during which nothing ran must not be charged to the budget.
    return record.model_copy(update={"verdict": verdict})


def _verdict_of_open(kit: Kit, record: TrialRecord) -> Verdict:
    """The tuner was killed while this trial ran; if the machine has been booted since, the trial may have done it.

    Of another machine that fell silent nobody knows why. A second one that is lost in the same configuration is no
    accident any more.
    """
    if record.owner.host == kit.owner.host and record.owner.boot_id != kit.owner.boot_id:
        outcome, reason = Outcome.HOST_CRASH, "the machine went down during this trial; it is never launched again"
    elif record.owner.host != kit.owner.host and _lost_before(kit, record):
        outcome, reason = Outcome.HOST_CRASH, "two machines were lost in this configuration; it is never launched again"
    elif record.owner.host != kit.owner.host:
        outcome, reason = Outcome.INTERRUPTED, f"{record.owner.host} fell silent during this trial; it is taken over"
    else:
        outcome, reason = Outcome.INTERRUPTED, "the tuner was killed during this trial; it is launched again"
    missed = constraints(outcome, None, kit.frozen.profiles)
    return Verdict(outcome=outcome, reason=reason, constraints=missed, log=f"{record.folder}/engine.log")


def _lost_before(kit: Kit, record: TrialRecord) -> bool:
    """Whether another machine was lost in this configuration: a trial that a person interrupts has an end."""
    return any(
        one.configuration == record.configuration
        and one.owner.host != record.owner.host
        and one.verdict is not None
        and one.verdict.outcome is Outcome.INTERRUPTED
        and one.finished_at is None
        for one in (*kit.pool.records(), *kit.pool.records(confirm=True))
    )
