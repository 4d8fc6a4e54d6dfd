"""Settles what an earlier run left open: engines still running, trials without a verdict."""

from __future__ import annotations

from tuner.domain.record import TrialRecord
from tuner.domain.verdict import Outcome, Verdict
from tuner.study.judge import constraints, reference_of, told_objectives
from tuner.study.kit import Kit


def settle(kit: Kit) -> None:
    """Stops engines left behind and closes open trials. The caller holds the study's lock, so nobody else runs it."""
    for told in kit.stop_leftovers(f"{kit.frozen.study_id}/"):
        kit.observer.note(f"stopped what an earlier run left behind: {told}")
    kit.pool.drop_unrecorded()
    reference = reference_of(kit.pool.records())
    for confirm in (False, True):
        for record in kit.pool.untold(confirm=confirm):
            closed = record if record.verdict is not None else _closed(kit, record)
            kit.pool.tell(closed, told_objectives(closed, kit.frozen.workload, reference), confirm=confirm)


def _closed(kit: Kit, record: TrialRecord) -> TrialRecord:
    verdict = _verdict_of_open(kit, record)
    kit.observer.note(f"trial {record.folder} was left open: {verdict.outcome.value}, {verdict.reason}")
    # When it ended is unknown: a night during which nothing ran must not be charged to the budget.
    return record.model_copy(update={"verdict": verdict})


def _verdict_of_open(kit: Kit, record: TrialRecord) -> Verdict:
    """The tuner was killed while this trial ran; if the machine has been booted since, the trial may have done it."""
    if record.owner.host == kit.owner.host and record.owner.boot_id != kit.owner.boot_id:
        outcome, reason = Outcome.HOST_CRASH, "the machine went down during this trial; it is never launched again"
    else:
        outcome, reason = Outcome.INTERRUPTED, "the tuner was killed during this trial; it is launched again"
    missed = constraints(outcome, None, kit.frozen.profiles)
    return Verdict(outcome=outcome, reason=reason, constraints=missed, log=f"{record.folder}/engine.log")
