"""The baseline and the winners launched again in turn, long after the study: does what was found still hold?

The launches lie in an Optuna study of their own and have a stage of their own: no figure of the old study is touched,
whatever build or driver there is now.
"""

from __future__ import annotations

from collections.abc import Sequence

from tuner.domain.errors import BaselineFailed
from tuner.domain.measurement import Measurement
from tuner.domain.record import BASELINE_NOTE, Stage, TrialRecord
from tuner.domain.verdict import Outcome
from tuner.study.confirm import is_forward
from tuner.study.intermission import wait_while_paused
from tuner.study.kit import Kit
from tuner.study.launch import Launch
from tuner.study.run_study import restore_power
from tuner.study.run_trial import run_trial
from tuner.study.settle import settle

VERIFY = "verify"
"""The name of the Optuna study that holds these launches."""


def verify(kit: Kit, baseline: TrialRecord, winners: Sequence[TrialRecord], rounds: int) -> list[TrialRecord]:
    """Launches the baseline and every winner `rounds` times, in the confirm stage's order; this call's launches.

    What the winners are held against is the baseline as it is now. What fails once is not launched again.

    Args:
        kit: opened for verifying, see `tuner.wiring.open_kit`.
        baseline: the study's baseline.
        winners: what the study recommends.
        rounds: launches of each.

    Raises:
        BaselineFailed: the baseline does not run any more.
    """
    settle(kit)
    contestants = [baseline, *winners]
    kit.observer.phase("verify", f"{len(winners)} winners and the baseline, {rounds} launches each")
    launched: list[TrialRecord] = []
    failed: set[int] = set()
    reference: Measurement | None = None
    try:
        for number in range(rounds):
            for record in contestants if is_forward(number) else contestants[::-1]:
                if record.number in failed:
                    continue
                wait_while_paused(kit)
                kit.observer.time_left(None, len(launched), rounds * len(contestants))
                done = _launch(kit, record, reference)
                launched.append(done)
                if done.verdict is None or done.verdict.outcome is not Outcome.OK:
                    failed.add(record.number)
                    _mind_baseline(done)
                elif record.is_baseline and reference is None:
                    reference = done.measurement
    finally:
        restore_power(kit)
    return launched


def _launch(kit: Kit, record: TrialRecord, reference: Measurement | None) -> TrialRecord:
    note = BASELINE_NOTE if record.is_baseline else f"trial {record.number}"
    return run_trial(kit, Launch(kit.pool.open_confirmation(), Stage.VERIFY, record.configuration, note, reference))


def _mind_baseline(done: TrialRecord) -> None:
    verdict = done.verdict
    if done.is_baseline and verdict is not None:
        raise BaselineFailed(
            f"The baseline does not run any more: {verdict.outcome.value}, {verdict.reason}",
            where=f"{done.folder}/engine.log",
            advice="mend your own command first; then make a new study, since everything is compared with it",
        )
