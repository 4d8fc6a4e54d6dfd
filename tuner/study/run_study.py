"""One run of a study: settle, baseline, search, confirm. Every step can be killed and taken up again."""

from __future__ import annotations

import math

from tuner.domain.configuration import Value
from tuner.domain.errors import BaselineFailed
from tuner.domain.record import BASELINE_NOTE, Stage, TrialRecord
from tuner.domain.verdict import Outcome
from tuner.report.selection import baseline_of, candidates, finalists, most_finalists
from tuner.study.anchors import compared, keep_anchor
from tuner.study.confirm import confirm
from tuner.study.intermission import budget_now, wait_for_others, wait_while_paused
from tuner.study.kit import Kit
from tuner.study.launch import Launch
from tuner.study.machine_state import warnings
from tuner.study.precision import cells_told
from tuner.study.repairs import enqueue_repairs
from tuner.study.run_trial import run_trial
from tuner.study.settle import close_abandoned, settle
from tuner.study.trim import trim

_MISFITS_IN_A_ROW = 100
"""A dry run costs a second and no budget: a search that finds nothing else to propose must end all the same."""


def run_study(kit: Kit) -> None:
    """Creates or continues the study until its budget is used up.

    Raises:
        BaselineFailed: the baseline does not run; says why.
        KeyboardInterrupt: the user stopped it; everything measured is kept.
    """
    settle(kit)
    for warning in warnings(kit.cards, kit.frozen.engines[0].devices, kit.frozen.definition.env):
        kit.observer.note(warning)
    try:
        baseline = _measure_baseline(kit)
        _enqueue_seeds(kit, baseline)
        _search(kit, baseline)
        # What they are measuring may be among the finalists.
        open_ones = {record.number for record in kit.pool.records() if record.verdict is None}
        wait_for_others(kit, lambda: _any_open(kit, open_ones), "their last trials")
        confirm(kit)
        if kit.frozen.definition.trim and kit.pool.leads():
            trim(kit)
    finally:
        restore_power(kit)


def _any_open(kit: Kit, numbers: set[int]) -> bool:
    return any(record.verdict is None and record.number in numbers for record in kit.pool.records())


def restore_power(kit: Kit) -> None:
    """Gives the cards the caps back that they had; tells where that fails."""
    for result in kit.cards.restore():
        if not result.settled:
            kit.observer.note(f"{result}; try: {result.advice}")


def _measure_baseline(kit: Kit) -> TrialRecord:
    """The measured baseline, from the records or from a launch. A baseline that failed earlier is tried again."""
    wait_for_others(kit, lambda: not kit.pool.leads() and baseline_of(kit.pool.records()) is None, "the baseline")
    known = baseline_of(kit.pool.records())
    if known is not None and known.verdict is not None and known.verdict.outcome is Outcome.OK:
        return known
    if known is None and any(_took_the_machine_down(record) for record in kit.pool.records()):
        raise BaselineFailed(
            "The machine went down while the baseline ran; it is not launched again",
            advice="when you have mended the cause, start a new study with --name",
        )
    kit.observer.phase("baseline", "the engine as you have it today")
    kit.pool.enqueue(kit.frozen.baseline, BASELINE_NOTE)
    proposal = kit.pool.ask()
    record = run_trial(kit, Launch(proposal.number, Stage.BASELINE, kit.baseline))
    verdict = record.verdict
    assert verdict is not None
    if verdict.outcome is not Outcome.OK:
        repair = verdict.explanation.repair if verdict.explanation else None
        raise BaselineFailed(
            f"The baseline did not run: {verdict.outcome.value}, {verdict.reason}",
            where=str(kit.trial_files(record.number, False).log_path),
            advice=(repair or "read the log's last lines") + "; the same `tuner run` then tries it again",
        )
    _show_best(kit, record)
    return record


def _took_the_machine_down(record: TrialRecord) -> bool:
    return record.is_baseline and record.verdict is not None and record.verdict.outcome is Outcome.HOST_CRASH


def _enqueue_seeds(kit: Kit, baseline: TrialRecord) -> None:
    """Puts what people have found into the queue, once.

    Where a context takes its memory at the start, it is the one that the baseline really got.
    """
    known = kit.pool.origins()
    context = kit.frozen.space.with_role("context")
    for seed in kit.frozen.space.seeds:
        if seed.name in known:
            continue
        values: dict[str, Value] = dict(kit.frozen.baseline)
        if context is not None and context.name not in values and kit.engine.context_is_reserved:
            values[context.name] = _context_that_ran(baseline, context.choices or (), context.default)
        kit.pool.enqueue({**values, **seed.values}, seed.name)


def _context_that_ran(baseline: TrialRecord, choices: tuple[Value, ...], default: Value) -> Value:
    """The largest choice that is no larger than the context the engine's own fit gave the baseline."""
    ran = baseline.measurement.actual.context_per_slot if baseline.measurement else None
    fitting = [choice for choice in choices if isinstance(choice, int) and ran is not None and choice <= ran]
    return max(fitting, default=default)


def _search(kit: Kit, baseline: TrialRecord) -> None:
    assert baseline.measurement is not None
    announced = False
    misfits = 0
    told: set[str] = set()
    while True:
        wait_while_paused(kit)
        close_abandoned(kit)
        now = budget_now(kit)
        expected = [baseline, *finalists(kit.frozen, compared(kit), most_finalists(kit.frozen))]
        if (over := now.search_is_over(expected)) is not None:
            kit.observer.note(f"the search ends: {over}")
            return
        keep_anchor(kit, baseline)
        enqueue_repairs(kit, told)
        proposal = kit.pool.ask()
        if proposal is None:
            kit.observer.note("the search ends: every configuration of the space has been tried")
            return
        if not announced:
            kit.observer.phase("search", now.plan(baseline, most_finalists(kit.frozen)))
            kit.observer.note(cells_told(kit))
            announced = True
        kit.observer.time_left(now.search_left_s(expected), now.launched, now.trials_planned(expected))
        stage = Stage.SEARCH if proposal.seed_name is None else Stage.SEED
        launch = Launch(proposal.number, stage, proposal.configuration, proposal.seed_name or "", baseline.measurement)
        record = run_trial(kit, launch)
        _show_best(kit, baseline)
        misfits = misfits + 1 if record.verdict and record.verdict.outcome is Outcome.WILL_NOT_FIT else 0
        if misfits >= _MISFITS_IN_A_ROW:
            kit.observer.note(f"the search ends: the last {misfits} proposals would not fit into memory")
            return


def _show_best(kit: Kit, baseline: TrialRecord) -> None:
    """Tells the best gain of each profile so far."""
    assert baseline.measurement is not None
    records = compared(kit)
    best: dict[str, float] = {}
    for profile in kit.frozen.profiles:
        ranked = candidates(profile, kit.frozen, records)
        reference = profile.log_score(baseline.measurement, kit.frozen.workload.depths)
        if ranked and reference is not None:
            best[profile.name] = math.exp(ranked[0][0] - reference)
    kit.observer.best(best)
