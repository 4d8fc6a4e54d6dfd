"""How much of the night is left, and for what."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.domain.definition import StudyDefinition
from tuner.domain.measurement import CellResult
from tuner.domain.record import TrialRecord
from tuner.domain.verdict import Outcome

DEFAULT_HOURS = 8.0
_CONFIRM_SHARE = 0.5
"""At most this share of the time is kept back for the confirm stage."""
_MOST_TIMES = 5
"""How many times the rounds may be made where a gain stays open, as long as there is a limit of time to keep to."""
_KEPT_ROUNDS = 1.5
"""How many times the rounds time is kept back for, so that some of that can happen."""
_TRIMS = 16
"""A winner differs in half a dozen flags: each is left out twice, and the winner launched beside."""
_SMALL_HOURS = 0.5
_MORE_REPEATS = 3
"""How many times the repeats of the search are made where a cell is worth it."""
ANCHOR_LAUNCHES = 10
ANCHOR_S = 1800.0
"""The baseline is measured again after so many launches and so much time, whichever is later."""
_FIRST_LAUNCHES = 4
_FIRST_SHARE = 0.6
"""The baseline can be by far the slowest launch: it alone must not decide that there is no time for a search."""


@dataclass(frozen=True)
class Budget:
    """What a study may use, and what it has used so far, earlier runs included."""

    seconds: float | None
    trials: int | None
    rounds: int
    """Launches of each finalist in the confirm stage."""
    most_rounds: int
    """The same, of those that are still undecided then."""
    used_s: float
    launched: int
    """Launches of the search, the baseline included."""
    trial_s: float
    """What one launch of the search takes: the median of those that were measured to their end."""
    trims: int
    """Launches that time is kept back for to measure what the winners' flags are worth."""
    most_repeats: int
    """Measured requests of a cell at most, in what decides: the baseline, the confirm stage."""

    @classmethod
    def of(
        cls,
        definition: StudyDefinition,
        searched: Sequence[TrialRecord],
        confirmed: Sequence[TrialRecord],
        *,
        until_s: float | None = None,
    ) -> Budget:
        """The budget after these trials. `until_s` is how many seconds from now the run must end, if it must."""
        hours = definition.hours
        if hours is None and definition.trials is None and until_s is None:
            hours = DEFAULT_HOURS
        # Of machines that share a study the one that has worked most: the hours are those of the night.
        by_host: dict[str, float] = {}
        for record in (*searched, *confirmed):
            by_host[record.owner.host] = by_host.get(record.owner.host, 0.0) + (record.seconds or 0.0)
        used_s = max(by_host.values(), default=0.0)
        limits = [] if hours is None else [hours * 3600]
        limits += [] if until_s is None else [used_s + max(0.0, until_s)]
        measured = [r for r in searched if r.verdict is not None and r.verdict.outcome is Outcome.OK]
        times = [r.seconds or 0.0 for r in measured if not r.is_baseline] or [r.seconds or 0.0 for r in measured]
        return cls(
            seconds=min(limits, default=None),
            trials=definition.trials,
            rounds=definition.confirm_rounds,
            most_rounds=definition.confirm_most
            or (definition.confirm_rounds if hours is None else _MOST_TIMES * definition.confirm_rounds),
            used_s=used_s,
            launched=sum(1 for record in searched if record.verdict is None or _counts(record.verdict.outcome)),
            trial_s=statistics.median(times) if times else 0.0,
            trims=0 if is_small(definition) or not definition.trim else _TRIMS,
            most_repeats=most_repeats(definition),
        )

    @property
    def left_s(self) -> float | None:
        """Seconds left for everything; None without a time limit."""
        return None if self.seconds is None else max(0.0, self.seconds - self.used_s)

    def confirm_s(self, contestants: Sequence[TrialRecord]) -> float:
        """What the confirm stage takes for these configurations, the baseline among them."""
        return self.rounds * sum(self.again_s(record) for record in contestants)

    def again_s(self, record: TrialRecord) -> float:
        """What a launch of a configuration takes in the confirm stage, which measures every cell up to its most."""
        seconds = record.seconds or self.trial_s
        cells = record.measurement.cells if record.measurement is not None else ()
        return seconds + sum(_repeat_s(cell) * max(0, self.most_repeats - _repeats(cell)) for cell in cells)

    def search_left_s(self, contestants: Sequence[TrialRecord]) -> float | None:
        """Seconds left for the search when these are to be confirmed afterwards; None without a time limit."""
        if self.seconds is None:
            return None
        if self.launched < _FIRST_LAUNCHES:
            return _FIRST_SHARE * self.seconds - self.used_s
        kept_s = self._kept_s(self.confirm_s(contestants))
        return self.seconds - min(kept_s, _CONFIRM_SHARE * self.seconds) - self.used_s

    def _kept_s(self, confirmed_s: float) -> float:
        """What is kept back for all that follows the search."""
        rounds = _KEPT_ROUNDS if self.most_rounds > self.rounds else 1.0
        return confirmed_s * rounds + self.trims * self.trial_s

    def has_time_for(self, contestants: Sequence[TrialRecord]) -> bool:
        """Whether each of these can be launched once more."""
        needed_s = sum(self.again_s(record) for record in contestants)
        return self.left_s is None or needed_s <= self.left_s

    def search_is_over(self, contestants: Sequence[TrialRecord]) -> str | None:
        """Why no other trial of the search may start, in words; None while one may: it must be able to end in time."""
        if self.trials is not None and self.launched >= self.trials:
            return f"{self.launched} launches are made; --trials gives it more"
        left = self.search_left_s(contestants)
        needed = 0.0 if self.launched < _FIRST_LAUNCHES else self.trial_s
        if left is None or left > needed:
            return None
        return "the rest of the time is kept for confirming; --hours or --until give it more"

    def affordable(self, baseline: TrialRecord, finalists: Sequence[TrialRecord]) -> list[TrialRecord]:
        """As many finalists, in their order, as can be confirmed beside the baseline in the time left; at least one."""
        chosen = list(finalists[:1])
        for finalist in finalists[1:]:
            if self.left_s is None or self.confirm_s([baseline, *chosen, finalist]) <= self.left_s:
                chosen.append(finalist)
        return chosen

    def trials_planned(self, contestants: Sequence[TrialRecord]) -> int | None:
        """Launches that the search will have made in the end, as far as that can be told."""
        left = self.search_left_s(contestants)
        in_time = None if left is None or self.trial_s == 0 else self.launched + max(0, int(left / self.trial_s))
        limits = [limit for limit in (in_time, self.trials) if limit is not None]
        return max(min(limits), self.launched + 1) if limits else None

    def plan(self, baseline: TrialRecord, finalists: int) -> str:
        """What will probably be done, from what the launches took so far, for a person to read.

        `finalists` is how many there can be at most.
        """
        confirmed_s = self.confirm_s([baseline] * (1 + finalists))
        limits = [] if self.trials is None else [max(0, self.trials - self.launched)]
        if self.seconds is not None:
            kept_s = self._kept_s(confirmed_s)
            left_s = self.seconds - min(kept_s, _CONFIRM_SHARE * self.seconds) - self.used_s
            trial_s = max(self.trial_s, 0.1)
            has_anchors = self.seconds >= _SMALL_HOURS * 3600
            anchored = 1 + has_anchors / max(ANCHOR_LAUNCHES, ANCHOR_S / trial_s)
            limits.append(max(0, int(left_s / (trial_s * anchored))))
        many = min(limits)
        searched = f"about {many} trial{'s' * (many != 1)} of {_told_s(self.trial_s)}"
        more = f", up to {self.most_rounds} while a gain is open" if self.most_rounds > self.rounds else ""
        found = f"up to {finalists} finalist{'s' * (finalists != 1)} and the baseline"
        worths = ", then what each flag of the winners is worth" if self.trims else ""
        return f"{searched}, then {found}, {self.rounds} launches each{more}, in {_told_s(confirmed_s)}{worths}"


def is_small(definition: StudyDefinition) -> bool:
    """Whether the study has so little time that more launches are worth more than more precise ones."""
    return definition.hours is not None and definition.hours < _SMALL_HOURS


def most_repeats(definition: StudyDefinition) -> int:
    """How often a cell is measured at most, where it is worth it."""
    return definition.repeats if is_small(definition) else _MORE_REPEATS * definition.repeats


def _repeats(cell: CellResult) -> int:
    return len(cell.decode_tps_samples)


def _repeat_s(cell: CellResult) -> float:
    """Seconds of one more measured request on a prefix that is cached; 0 where that is not known."""
    if not cell.generated_tokens or not cell.decode_tps or not cell.decode_tps_samples:
        return 0.0
    return cell.generated_tokens / len(cell.decode_tps_samples) / cell.decode_tps


def _told_s(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 300 else f"{seconds / 60:.0f} min"


def _counts(outcome: Outcome) -> bool:
    """Whether a trial is charged: one that never loaded a model, or that a kill took away, is not."""
    return outcome.was_loaded and outcome is not Outcome.INTERRUPTED
