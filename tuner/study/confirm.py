"""The confirm stage: finalists and baseline relaunched in turn, so that no recommendation is the luck of one launch."""

from __future__ import annotations

import time

from tuner.domain.record import BASELINE_NOTE, Stage, TrialRecord
from tuner.domain.verdict import Outcome
from tuner.report.selection import baseline_of, finalists
from tuner.study.intermission import budget_now, wait_while_paused
from tuner.study.kit import Kit
from tuner.study.launch import Launch
from tuner.study.run_trial import run_trial


def confirm(kit: Kit) -> None:
    """Measures every finalist and the baseline until each has its rounds.

    The order is reversed from round to round (A B, B A, A B ...), so that a machine that warms up favours nobody.
    What an earlier run has confirmed counts.
    """
    searched = kit.pool.records()
    budget = budget_now(kit)
    baseline = baseline_of(searched)
    found = finalists(kit.frozen, searched, len(kit.frozen.profiles))
    if baseline is None or baseline.measurement is None or not found:
        return
    chosen = budget.affordable(baseline, found)
    contestants = [baseline, *chosen]
    announced = False
    for round_number in range(budget.rounds):
        order = contestants if round_number % 2 == 0 else contestants[::-1]
        for record in order:
            done = [_launches(kit, contestant) for contestant in contestants]
            if _launches(kit, record) > round_number or _took_the_machine_down(kit, record):
                continue
            if not announced:
                kit.observer.phase(
                    "confirm", f"{len(chosen)} finalists and the baseline, {budget.rounds} launches each"
                )
                announced = True
            total = len(contestants) * budget.rounds
            share_left = 1 - sum(done) / total
            kit.observer.time_left(budget.confirm_s(contestants) * share_left, sum(done), total)
            note = BASELINE_NOTE if record.is_baseline else f"trial {record.number}"
            wait_while_paused(kit)
            if kit.until is not None and time.time() + (record.seconds or budget.trial_s) > kit.until:
                kit.observer.note("the next launch could not end in time; `tuner run` goes on with the confirm stage")
                return
            number = kit.pool.open_confirmation()
            run_trial(kit, Launch(number, Stage.CONFIRM, record.configuration, note, baseline.measurement))


def _took_the_machine_down(kit: Kit, record: TrialRecord) -> bool:
    return any(
        confirmed.verdict is not None and confirmed.verdict.outcome is Outcome.HOST_CRASH
        for confirmed in _confirmations(kit, record)
    )


def _launches(kit: Kit, record: TrialRecord) -> int:
    """How often a contestant was launched in this stage. A failed launch counts: it is evidence too."""
    return sum(
        1
        for confirmed in _confirmations(kit, record)
        if confirmed.verdict is not None and confirmed.verdict.outcome is not Outcome.INTERRUPTED
    )


def _confirmations(kit: Kit, record: TrialRecord) -> list[TrialRecord]:
    return [
        confirmed
        for confirmed in kit.pool.records(confirm=True)
        if confirmed.is_baseline == record.is_baseline and confirmed.configuration == record.configuration
    ]
