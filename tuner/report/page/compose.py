"""A whole report from a study's records."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.domain.frozen import FrozenStudy
from tuner.domain.record import TrialRecord
from tuner.report.page.about import machine_section, method_section
from tuner.report.page.document import Document
from tuner.report.page.failures import failures_section
from tuner.report.page.first_screen import first_screen
from tuner.report.page.front_section import front_section
from tuner.report.page.memory_section import memory_section
from tuner.report.page.source import Source
from tuner.report.page.speeds import acceptance_section, speeds_section
from tuner.report.page.timeline import timeline_section
from tuner.report.page.worth_section import worth_section

_PARTS = (
    first_screen, front_section, worth_section, failures_section, speeds_section, acceptance_section, timeline_section,
    memory_section, machine_section, method_section,
)  # fmt: skip


def compose(
    name: str, frozen: FrozenStudy, searched: Sequence[TrialRecord], confirmed: Sequence[TrialRecord]
) -> Document:
    """The report; its pictures are not painted yet. The baseline must have been measured."""
    source = Source.of(name, frozen, searched, confirmed)
    sections = [part(source) for part in _PARTS]
    models = ", ".join(model.name for model in frozen.models)
    engines = ", ".join(f"{facts.engine} {facts.version}" for facts in frozen.engines)
    cards = ", ".join(dict.fromkeys(card.name for card in frozen.machine.cards)) or frozen.machine.cpu
    return Document(title=name, under=(f"{models} on {cards}, {engines}",), sections=sections, hovers=source.hovers)
