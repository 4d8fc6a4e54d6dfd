"""After the confirm stage: every winner without each of its flags, so that the printed command holds only what pays.

One flag at a time is put back to the baseline's value and the rest launched beside the winner; then all flags at once
that proved to be worth nothing measurable. What comes of it is told by `tuner.report.worth`.
"""

from __future__ import annotations

from tuner.domain.configuration import Configuration
from tuner.domain.record import Stage, TrialRecord
from tuner.domain.verdict import Outcome
from tuner.report.recommendation import Recommendation, recommend
from tuner.report.selection import baseline_of
from tuner.report.worth import differences, droppable
from tuner.study.confirm import is_forward
from tuner.study.intermission import budget_now, wait_while_paused
from tuner.study.kit import Kit
from tuner.study.launch import Launch
from tuner.study.run_trial import run_trial

_ROUNDS = 2
"""Launches of a winner without one flag; their spread is judged together with all others'."""
_LAST_ROUNDS = 3
"""Launches of what may be printed instead of the winner."""


def trim(kit: Kit) -> None:
    """Measures what the winners' flags are worth, as far as there is time. What an earlier run measured counts."""
    known: set[int] = set()
    # The launches made here can prove another profile's gain as well: its winner then has its turn too.
    while fresh := {f.candidate.number: f.candidate for f in _proven(kit) if f.candidate.number not in known}:
        known |= fresh.keys()
        for winner in fresh.values():
            if not _measure(kit, winner, _without_each(kit, winner), _ROUNDS):
                return
        for winner in {found.candidate.number: found.candidate for found in _proven(kit)}.values():
            # Profiles may have the same winner, and other flags that do not pay for them.
            wanted = {droppable(found.worths) for found in _proven(kit) if found.candidate == winner}
            together = {names: _without(kit, winner, names) for names in wanted if names}
            if not _measure(kit, winner, together, _LAST_ROUNDS):
                return


def _proven(kit: Kit) -> list[Recommendation]:
    """The recommendations that are more than the baseline."""
    found = recommend(kit.frozen, kit.pool.records(), kit.pool.records(confirm=True))
    return [one for one in found if not one.is_baseline and one.gain.is_measurable]


def _without_each(kit: Kit, winner: TrialRecord) -> dict[tuple[str, ...], Configuration]:
    baseline = baseline_of(kit.pool.records())
    assert baseline is not None
    return {(name,): _without(kit, winner, (name,)) for name in differences(kit.frozen, winner, baseline)}


def _without(kit: Kit, winner: TrialRecord, names: tuple[str, ...]) -> Configuration:
    """The winner with some parameters as the baseline has them; what that switches off goes too."""
    values = dict(winner.configuration.values)
    for name in names:
        values[name] = kit.baseline.values.get(name, kit.frozen.space.by_name[name].default)
    return kit.complete(values)


def _measure(kit: Kit, winner: TrialRecord, trims: dict[tuple[str, ...], Configuration], rounds: int) -> bool:
    """Launches each trim beside the winner until it has its rounds; False where the time is over."""
    baseline = baseline_of(kit.pool.records())
    assert baseline is not None
    wanted = {names: one for names, one in trims.items() if kit.keeps_rules(one) and one != winner.configuration}
    total = sum(max(0, rounds - _launches(kit, winner, names)) for names in wanted if not _failed(kit, winner, names))
    done = 0
    for number in range(rounds):
        due = [names for names in wanted if _launches(kit, winner, names) <= number and not _failed(kit, winner, names)]
        launches = [Launch(0, Stage.CONFIRM, winner.configuration, f"trial {winner.number}")] if due else []
        launches += [Launch(0, Stage.TRIM, wanted[names], f"trial {winner.number}", put_back=names) for names in due]
        for launch in launches if is_forward(number) else launches[::-1]:
            wait_while_paused(kit)
            left_s, needed_s = budget_now(kit).left_s, budget_now(kit).again_s(winner)
            if left_s is not None and needed_s > left_s:
                kit.observer.note("no time is left for what the flags are worth; `--hours` gives more")
                return False
            if not done:
                kit.observer.phase("trim", f"trial {winner.number} {_told(list(wanted))}")
            # Beside every round the winner is launched once.
            kit.observer.time_left((total + rounds - done) * needed_s, done, total + rounds)
            done += 1
            opened = Launch(
                kit.pool.open_confirmation(), launch.stage, launch.configuration, launch.note,
                baseline.measurement, launch.put_back,
            )  # fmt: skip
            run_trial(kit, opened)
    return True


def _told(trims: list[tuple[str, ...]]) -> str:
    together = [names for names in trims if len(names) > 1]
    if together or len(trims) == 1:
        return "without " + " and without ".join(" and ".join(names) for names in together or trims)
    return f"without each of {len(trims)} flags"


def _of(kit: Kit, winner: TrialRecord, names: tuple[str, ...]) -> list[TrialRecord]:
    return [
        record
        for record in kit.pool.records(confirm=True)
        if record.stage is Stage.TRIM and record.note == f"trial {winner.number}" and record.put_back == names
        if record.verdict is not None and record.verdict.outcome is not Outcome.INTERRUPTED
    ]


def _launches(kit: Kit, winner: TrialRecord, names: tuple[str, ...]) -> int:
    return len(_of(kit, winner, names))


def _failed(kit: Kit, winner: TrialRecord, names: tuple[str, ...]) -> bool:
    """Whether it came to a bad end once: that is enough to know that it is needed."""
    return any(record.verdict is not None and not record.verdict.feasible for record in _of(kit, winner, names))
