"""What a report is made from: a study's records, what is recommended, and the same as `tuner best --json` prints it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tuner.domain.frozen import FrozenStudy
from tuner.domain.record import Stage, TrialRecord
from tuner.domain.verdict import Outcome
from tuner.report.json_form import best_json
from tuner.report.page.colours import MARKS, SERIES
from tuner.report.page.document import Hover
from tuner.report.recommendation import Recommendation, recommend
from tuner.report.selection import baseline_of
from tuner.report.tables import trial_line

LAUNCHED_AGAIN = (Stage.ANCHOR, Stage.REMEASURE)
"""Stages that belong to the search though their records lie beside it."""


@dataclass(frozen=True)
class Series:
    """A configuration that pictures show beside the baseline, with the profiles that it was chosen for."""

    letter: str
    profiles: tuple[str, ...]
    place: int
    """Of the first of these profiles in the JSON form."""
    recommendation: Recommendation
    ink: str
    mark: str

    @property
    def words(self) -> str:
        """For a legend."""
        return f"{self.letter}: {', '.join(self.profiles)}"


@dataclass
class Source:
    """One study as the report reads it."""

    name: str
    frozen: FrozenStudy
    searched: Sequence[TrialRecord]
    confirmed: Sequence[TrialRecord]
    recommendations: list[Recommendation]
    best: dict[str, Any]
    """What `tuner best --json` prints."""
    hovers: list[Hover] = field(default_factory=list)
    _places: dict[tuple[bool, int], int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, name: str, frozen: FrozenStudy, searched: Sequence[TrialRecord], confirmed: Sequence[TrialRecord]
    ) -> Source:
        """The recommendations are made here, once for all parts of the report."""
        found = recommend(frozen, searched, confirmed)
        return cls(name, frozen, searched, confirmed, found, best_json(name, frozen, found))

    @cached_property
    def baseline(self) -> TrialRecord | None:
        """The first launch of the baseline that was measured to its end."""
        return baseline_of(self.searched)

    @cached_property
    def confirm_launches(self) -> list[TrialRecord]:
        """The launches after the search, however they ended."""
        return [record for record in self.confirmed if record.stage not in LAUNCHED_AGAIN]

    @cached_property
    def baseline_launches(self) -> list[TrialRecord]:
        """The baseline as the confirm stage saw it; as the search did, where nothing was confirmed."""
        again = [r for r in self.confirm_launches if r.is_baseline and r.verdict and r.verdict.feasible]
        return again or ([self.baseline] if self.baseline else [])

    @cached_property
    def series(self) -> list[Series]:
        """The recommended configurations, each once; the baseline is not among them."""
        found: dict[str, list[tuple[int, Recommendation]]] = {}
        for place, recommendation in enumerate(self.recommendations):
            if not recommendation.is_baseline:
                key = recommendation.trial.configuration.fingerprint
                found.setdefault(key, []).append((place, recommendation))
        return [
            Series(
                chr(ord("A") + number),
                tuple(recommendation.profile.name for _, recommendation in group),
                group[0][0],
                group[0][1],
                SERIES[number % len(SERIES)],
                MARKS[number % len(MARKS)],
            )
            for number, group in enumerate(found.values())
        ]

    @cached_property
    def baseline_place(self) -> int | None:
        """The first profile in the JSON form that keeps the baseline, whose figures are the baseline's."""
        return next((place for place, r in enumerate(self.recommendations) if r.is_baseline), None)

    def hover(self, record: TrialRecord) -> int:
        """The place of what is told of a trial beside its marks."""
        again = record.stage not in (Stage.BASELINE, Stage.SEED, Stage.SEARCH)
        key = (again, record.number)
        if key not in self._places:
            self._places[key] = len(self.hovers)
            self.hovers.append(Hover(f"{title_of(record)}: {outcome_of(record)}", self._lines(record), line_of(record)))
        return self._places[key]

    def _lines(self, record: TrialRecord) -> list[str]:
        told = [trial_line(record)]
        if record.measurement is not None and record.measurement.actual.context_per_slot is not None:
            told.append(f"context {record.measurement.actual.context_per_slot} tokens a slot")
        if self.baseline is not None and not record.is_baseline:
            changed = record.configuration.differences_from(self.baseline.configuration.values)
            known = self.frozen.space.by_name
            words = [
                f"{label_of(self.frozen, name)} {now}"
                for name, (_, now) in changed.items()
                if now is not None
                and not (name in known and now == known[name].default and name not in self.frozen.baseline)
            ]
            told.append(", ".join(words) or "as the baseline")
        return told


def title_of(record: TrialRecord) -> str:
    """How a person names a trial."""
    if record.stage is Stage.SEED:
        return f"trial {record.number} ({record.note})"
    if record.stage in (Stage.SEARCH, Stage.BASELINE):
        return f"trial {record.number}" + (" (baseline)" if record.is_baseline else "")
    of = f" of {record.note}" if record.note else ""
    return f"{record.stage.value} {record.number}{of}"


def outcome_of(record: TrialRecord) -> str:
    """Its outcome; `OPEN` while it has none."""
    if record.verdict is None:
        return "OPEN"
    if record.verdict.outcome is Outcome.OK and not record.verdict.feasible:
        return "OK, but a need is missed"
    return record.verdict.outcome.value


def line_of(record: TrialRecord) -> str:
    """The command, with what sets its power caps before it."""
    if record.command is None:
        return ""
    return "\n".join([*(f"sudo {command}" for command in record.cap_commands), record.command.posix_line()])


def label_of(frozen: FrozenStudy, name: str) -> str:
    """A parameter as a person types it."""
    parameter = frozen.space.by_name.get(name)
    if parameter is None:
        return name.replace("_", " ")
    return parameter.flag or parameter.environment or name.replace("_", " ")
