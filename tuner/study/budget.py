"""How much of the night is left, and for what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.domain.definition import StudyDefinition
from tuner.domain.record import TrialRecord
from tuner.domain.verdict import Outcome

DEFAULT_HOURS = 8.0
_CONFIRM_SHARE = 0.5
"""At most this share of the time is kept back for the confirm stage."""


@dataclass(frozen=True)
class Budget:
    """What a study may use, and what it has used so far, earlier runs included."""

    seconds: float | None
    trials: int | None
    rounds: int
    """Launches of each finalist in the confirm stage."""
    used_s: float
    launched: int
    """Launches of the search."""
    trial_s: float
    """What one launch takes, on average."""

    @classmethod
    def of(
        cls, definition: StudyDefinition, searched: Sequence[TrialRecord], confirmed: Sequence[TrialRecord]
    ) -> Budget:
        """The budget after these trials."""
        hours = definition.hours
        if hours is None and definition.trials is None:
            hours = DEFAULT_HOURS
        times = [record.seconds or 0.0 for record in (*searched, *confirmed)]
        complete = [
            record.seconds or 0.0
            for record in (*searched, *confirmed)
            if record.verdict is not None and record.verdict.outcome is Outcome.OK
        ]
        launched = [record for record in searched if record.verdict is None or _counts(record.verdict.outcome)]
        return cls(
            seconds=None if hours is None else hours * 3600,
            trials=definition.trials,
            rounds=definition.confirm_rounds,
            used_s=sum(times),
            launched=len(launched),
            trial_s=sum(complete) / len(complete) if complete else 0.0,
        )

    @property
    def left_s(self) -> float | None:
        """Seconds left for everything; None without a time limit."""
        return None if self.seconds is None else max(0.0, self.seconds - self.used_s)

    def search_left_s(self, finalists: int) -> float | None:
        """Seconds left for the search, when so many finalists and the baseline are to be confirmed afterwards."""
        if self.seconds is None:
            return None
        reserve = min((finalists + 1) * self.rounds * self.trial_s, _CONFIRM_SHARE * self.seconds)
        return self.seconds - reserve - self.used_s

    def search_goes_on(self, finalists: int) -> bool:
        """Whether another trial of the search may start: one that could not end in time is not begun."""
        if self.trials is not None and self.launched >= self.trials:
            return False
        left = self.search_left_s(finalists)
        return left is None or left >= self.trial_s

    def finalists(self, wanted: int) -> int:
        """How many configurations can be confirmed in the time left, at least one, beside the baseline."""
        if self.left_s is None or self.trial_s == 0:
            return wanted
        launches = self.left_s / self.trial_s
        return max(1, min(wanted, int(launches / self.rounds) - 1))

    def trials_planned(self, finalists: int) -> int | None:
        """Launches that the search will have made in the end, as far as that can be told."""
        if self.trials is not None:
            return self.trials
        left = self.search_left_s(finalists)
        if left is None or self.trial_s == 0:
            return None
        return self.launched + max(0, int(left / self.trial_s))


def _counts(outcome: Outcome) -> bool:
    """Whether a trial is charged: one that never loaded a model, or that a kill took away, is not."""
    return outcome.was_loaded and outcome is not Outcome.INTERRUPTED
