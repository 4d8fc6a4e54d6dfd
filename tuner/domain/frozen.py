"""What a study is held to once its first trial has run."""

from __future__ import annotations

from itertools import zip_longest

from pydantic import BaseModel, ConfigDict

from tuner.domain.configuration import Value
from tuner.domain.definition import StudyDefinition
from tuner.domain.facts import EngineFacts, MachineFacts, ModelFacts
from tuner.domain.profile import Profile
from tuner.domain.space import SearchSpace
from tuner.domain.workload import Workload


class FrozenStudy(BaseModel):
    """Everything that was resolved when the study was created: it never changes while the study lives."""

    model_config = ConfigDict(frozen=True)

    schema_version: int = 1
    made_by: str = ""
    """Who made the study, as `user@host`; empty where that is not known."""
    study_id: str
    """Unique to this study: marks its processes, so that a later start finds what was left behind."""
    definition: StudyDefinition
    space: SearchSpace
    baseline: dict[str, Value]
    """Parameter -> value of the user's own command; all others are at the engine's defaults."""
    fixed: tuple[str, ...]
    """Arguments that every trial gets, in the user's order."""
    baseline_arguments: tuple[str, ...]
    """The arguments of the baseline: the user's own, all of them."""
    machine: MachineFacts
    engines: tuple[EngineFacts, ...]
    """One for each binary, in the definition's order."""
    models: tuple[ModelFacts, ...]
    profiles: tuple[Profile, ...]
    workload: Workload
    notes: tuple[str, ...] = ()
    """What was adapted to this machine, for a person to read."""
    tuner_version: str | None = None
    """The tuner that created the study; None where that was not written down yet."""
    texts: str | None = None
    """Fingerprint of the texts that the tuner measures with: studies with other texts do not compare."""

    def differences(
        self,
        machine: MachineFacts,
        engines: tuple[EngineFacts, ...],
        models: tuple[ModelFacts, ...],
        *,
        same_host: bool = True,
    ) -> list[str]:
        """What is different now from when the study was created, each in words; empty if nothing that matters is.

        Without `same_host` it is another machine that should be just like the first one.
        """
        told: list[str] = []
        for name in ("host", "cpu", "physical_cores", "logical_cores", "memory_mib", "gpus"):
            if name == "host" and not same_host:
                continue
            before, now = getattr(self.machine, name), getattr(machine, name)
            if before != now and not (name == "memory_mib" and abs(before - now) < _SAME_MEMORY * before):
                told.append(f"machine: {name.replace('_', ' ')} was {_shown(before)}, is {_shown(now)}")
        drivers = {card.key: f"{card.name}, driver {card.driver}" for card in self.machine.cards if card.driver}
        told += [
            f"driver: was {drivers[card.key]}, is {card.driver}"
            for card in machine.cards
            if card.key in drivers and drivers[card.key] != f"{card.name}, driver {card.driver}"
        ]
        if not same_host:
            told += _other_cards(self.machine, machine)
        for before_engine, now_engine in zip(self.engines, engines, strict=True):
            if before_engine.version != now_engine.version:
                told.append(f"engine: {now_engine.binary} was {before_engine.version}, is {now_engine.version}")
        for before_model, now_model in zip(self.models, models, strict=True):
            if before_model.size_bytes != now_model.size_bytes or before_model.name != now_model.name:
                told.append(
                    f"model: {now_model.path} was {before_model.name}, {before_model.size_bytes} bytes, "
                    f"is {now_model.name}, {now_model.size_bytes} bytes"
                )
        return told


def _other_cards(first: MachineFacts, machine: MachineFacts) -> list[str]:
    """In what another machine's cards differ, place by place: each card has an id of its own."""
    before, now = ([f"{card.name}, driver {card.driver}" for card in one.cards] for one in (first, machine))
    pairs = zip_longest(before, now, fillvalue="none")
    return [f"card {place}: was {old}, is {new}" for place, (old, new) in enumerate(pairs) if old != new]


_SAME_MEMORY = 0.02
"""A kernel update moves the memory it reports by less than this share: it is the same machine."""


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)
