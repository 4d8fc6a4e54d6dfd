"""The confirm stage: finalists and baseline relaunched in turn, so that no recommendation is the luck of one launch."""

from __future__ import annotations

import time
from collections import Counter

from tuner.domain.record import BASELINE_NOTE, Stage, TrialRecord
from tuner.domain.verdict import Outcome
from tuner.report.recommendation import undecided
from tuner.report.selection import baseline_of, finalists, most_finalists
from tuner.study.anchors import compared
from tuner.study.intermission import budget_now, wait_while_paused
from tuner.study.kit import Kit
from tuner.study.launch import Launch
from tuner.study.run_trial import run_trial
from tuner.study.settle import close_abandoned


def confirm(kit: Kit) -> None:
    """Measures every finalist and the baseline until each has its rounds; then on, where a gain is still open.

    The order is reversed from round to round (A B, B A, B A, A B ...), so that a machine that warms up favours nobody.
    Machines that share the study share the rounds: each makes whole ones, so that it compares within itself.
    What an earlier run has confirmed counts; a finalist that is new since then is measured beside the baseline anew.
    Whether a gain is still open is judged more strictly than the interval that is shown, since it is asked after every
    round.
    """
    searched = kit.pool.records()
    budget = budget_now(kit)
    baseline = baseline_of(searched)
    # Chosen as they compare; launched again and told as they were measured.
    by_number = {record.number: record for record in searched}
    level = compared(kit)
    best = finalists(kit.frozen, level, most_finalists(kit.frozen), kit.believed(level))
    found = [by_number[one.number] for one in best]
    if baseline is None or baseline.measurement is None or not found:
        return
    chosen = budget.affordable(baseline, found)
    contestants = [baseline, *chosen]
    missing = [c for c in contestants if _launches(kit, c) < budget.rounds]
    if missing:
        kit.observer.phase("confirm", f"{len(chosen)} finalists and the baseline, {budget.rounds} launches each")
    number = 0
    while number < budget.rounds - _rounds_elsewhere(kit, contestants):
        if not _round(kit, baseline, contestants, number, budget.rounds * len(contestants)):
            return
        number += 1
    while number < budget.most_rounds - _rounds_elsewhere(kit, contestants):
        open_ones = undecided(kit.frozen, searched, kit.pool.records(confirm=True))
        contestants = [baseline, *(one for one in open_ones if one in contestants)]
        if len(contestants) == 1 or not budget_now(kit).has_time_for(contestants):
            return
        told = ", ".join(f"trial {record.number}" for record in contestants[1:])
        kit.observer.note(
            f"still open whether it gains anything: {told}; round {number + 1} of at most {budget.most_rounds}"
        )
        if not _round(kit, baseline, contestants, number, (number + 1) * len(contestants)):
            return
        number += 1


def _round(kit: Kit, baseline: TrialRecord, contestants: list[TrialRecord], number: int, total: int) -> bool:
    """One launch of each that has not had its own yet; False where the run's time is over."""
    close_abandoned(kit)
    due = [one for one in contestants if _launches(kit, one) <= number and not _took_the_machine_down(kit, one)]
    if baseline not in due and _is_behind(kit, baseline, due):
        due.insert(0, baseline)
    for record in due if is_forward(number) else due[::-1]:
        budget = budget_now(kit)
        done = sum(min(_launches(kit, contestant), total) for contestant in contestants)
        mean_s = sum(budget.again_s(one) for one in contestants) / len(contestants)
        kit.observer.time_left(max(0, total - done) * mean_s, done, total)
        wait_while_paused(kit)
        if kit.until is not None and time.time() + budget.again_s(record) > kit.until:
            kit.observer.note("the next launch could not end in time; `tuner run` goes on with the confirm stage")
            return False
        note = BASELINE_NOTE if record.is_baseline else f"trial {record.number}"
        assert baseline.measurement is not None
        launch = Launch(kit.pool.open_confirmation(), Stage.CONFIRM, record.configuration, note, baseline.measurement)
        run_trial(kit, launch)
    return True


def is_forward(number: int) -> bool:
    """Whether a round goes from first to last: Thue and Morse's sequence, in which no steady drift favours anybody."""
    return number.bit_count() % 2 == 0


def _is_behind(kit: Kit, baseline: TrialRecord, due: list[TrialRecord]) -> bool:
    """Whether finalists are to be launched that the baseline would not have been launched beside.

    Its launches before the last trial of the search were made on what may have been another machine by now.
    """
    host = kit.frozen.machine.host
    since = max((record.started_at for record in kit.pool.records() if record.owner.host == host), default=0.0)

    def now(record: TrialRecord) -> int:
        return sum(1 for confirmed in _confirmations(kit, record) if confirmed.started_at > since)

    return bool(due) and now(baseline) <= max(now(record) for record in due)


def _took_the_machine_down(kit: Kit, record: TrialRecord) -> bool:
    return any(
        confirmed.verdict is not None and confirmed.verdict.outcome is Outcome.HOST_CRASH
        for confirmed in _confirmations(kit, record)
    )


def _launches(kit: Kit, record: TrialRecord) -> int:
    """How often a contestant was launched here in this stage. A failed launch counts: it is evidence too."""
    return _by_host(kit, record)[kit.frozen.machine.host]


def _rounds_elsewhere(kit: Kit, contestants: list[TrialRecord]) -> int:
    """The rounds that other machines have made, or are making."""
    launches = [_by_host(kit, contestant) for contestant in contestants]
    others = {host for counts in launches for host in counts} - {kit.frozen.machine.host}
    making = {record.owner.host for record in kit.pool.records(confirm=True) if record.verdict is None}
    return sum((max if host in making else min)(counts[host] for counts in launches) for host in sorted(others))


def _by_host(kit: Kit, record: TrialRecord) -> Counter[str]:
    """Machine -> launches of a contestant, those that run now included."""
    return Counter(
        confirmed.owner.host
        for confirmed in _confirmations(kit, record)
        if confirmed.verdict is None or confirmed.verdict.outcome is not Outcome.INTERRUPTED
    )


def _confirmations(kit: Kit, record: TrialRecord) -> list[TrialRecord]:
    return [
        confirmed
        for confirmed in kit.pool.records(confirm=True)
        if confirmed.stage is Stage.CONFIRM
        and confirmed.is_baseline == record.is_baseline
        and confirmed.configuration == record.configuration
    ]
