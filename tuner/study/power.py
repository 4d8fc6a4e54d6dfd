"""Power caps as parameters: set before a launch, verified after it, and several of them measured on one launch."""

from __future__ import annotations

from collections.abc import Iterator

from tuner.domain.configuration import Configuration, Value
from tuner.domain.gpu import PowerCap
from tuner.domain.space import Parameter
from tuner.domain.verdict import Explanation, Outcome
from tuner.search.resolve import CapChoices
from tuner.study.kit import Kit
from tuner.study.protocols import Cards

_MORE_CAPS = 2
"""Under how many further caps a launch is measured: a cap needs no relaunch."""


def apply_caps(kit: Kit, configuration: Configuration) -> Explanation | None:
    """Holds the cards to the configuration's caps; why that cannot be, if it cannot."""
    for parameter, watts in _caps(kit, configuration):
        for key in parameter.cards:
            result = kit.cards.hold(key, watts)
            if not result.in_force:
                return Explanation(outcome=Outcome.INVALID, reason=str(result), repair=result.advice)
    return None


def cap_commands(kit: Kit, configuration: Configuration) -> tuple[str, ...]:
    """What sets the configuration's caps by hand; nothing for a cap that is the card's own."""
    return tuple(
        kit.cards.cap_command(key, watts)
        for parameter, watts in _caps(kit, configuration)
        if watts != parameter.default
        for key in parameter.cards
    )


def other_caps(kit: Kit, configuration: Configuration) -> list[Configuration]:
    """The same configuration under caps that were not measured yet: at most two, far apart."""
    known = {record.configuration.fingerprint for record in kit.pool.records()}
    found = []
    for parameter, _ in _caps(kit, configuration):
        choices = list(parameter.choices or ())
        for watts in [choices[0], choices[len(choices) // 2], choices[-1]]:
            values: dict[str, Value] = {**configuration.values, parameter.name: watts}
            other = kit.complete(values)
            if other.fingerprint not in known and other not in found:
                found.append(other)
    return found[:_MORE_CAPS]


def cap_choices(cards: Cards) -> tuple[list[CapChoices], str]:
    """The caps that may be tried, and why there are none, if so.

    Whether a card takes a cap at all is found out by setting the one that it has. Cards that are alike are held to
    one cap together: they share the work, and the slowest decides.
    """
    alike: dict[tuple[str, PowerCap], list[str]] = {}
    refused: list[str] = []
    for card, cap in zip(cards.identities, cards.power_caps(), strict=True):
        if cap is None:
            refused.append(f"{card.name} has none that can be set")
            continue
        result = cards.hold(card.key, cap.cap_w)
        if result.in_force:
            alike.setdefault((card.name, cap), []).append(card.key)
        else:
            refused.append(f"{result}" + (f"; {result.advice}" if result.advice else ""))
    cards.restore()
    several = len(alike) > 1
    found = [
        CapChoices(
            label=str(place) if several else "",
            cards=tuple(keys),
            watts=tuple(sorted({*(round(watts) for watts in cards.steps(cap)), round(cap.cap_w)})),
            own_w=round(cap.cap_w),
        )
        for place, ((_, cap), keys) in enumerate(alike.items())
    ]
    return found, "; ".join(refused) or "there is no graphics card whose power can be read"


def _caps(kit: Kit, configuration: Configuration) -> Iterator[tuple[Parameter, float]]:
    for parameter in kit.frozen.space.parameters:
        value = configuration.values.get(parameter.name)
        if parameter.target == "power_cap" and isinstance(value, int | float):
            yield parameter, float(value)
