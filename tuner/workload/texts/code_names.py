"""The names that go together in one generated function."""

from __future__ import annotations

from typing import NamedTuple

from tuner.workload.texts import code_words as w
from tuner.workload.texts.grammar import Dice, plural


class Names(NamedTuple):
    """Names in snake case, but for the type."""

    function: str
    entity: str
    type: str
    items: str
    item: str
    limit: str


def names(dice: Dice) -> Names:
    """A function over a list of one kind of entity, e.g. `rank_stale_orders_by_region_code`."""
    entity = dice.pick(w.ENTITIES)
    kind = f"{dice.pick(w.ENTITIES)}_{entity}" if dice.chance(0.4) else entity
    items = plural(entity)
    subject = f"{dice.pick(w.ADJECTIVES)}_{items}" if dice.chance(0.6) else items
    tail = f"_by_{dice.pick(w.TEXTS)}" if dice.chance(0.5) else ""
    return Names(
        function=f"{dice.pick(w.ACTIONS)}_{subject}{tail}",
        entity=entity,
        type=kind.title().replace("_", ""),
        items=items,
        item=dice.pick((entity, entity[0], "entry", "row")),
        limit=dice.pick(("max_", "min_", "base_", "target_", "default_")) + dice.pick(w.NUMBERS),
    )


def short_names(dice: Dice) -> Names:
    """The same with few tokens, e.g. `rank_orders`."""
    entity = dice.pick(w.ENTITIES)
    items = plural(entity)
    return Names(
        function=f"{dice.pick(w.ACTIONS)}_{items}",
        entity=entity,
        type=entity.capitalize(),
        items=items,
        item=dice.pick((entity[0], "row", "it")),
        limit=dice.pick(("limit", "floor", "cap", "bound", "factor", "target")),
    )


def camel(name: str) -> str:
    """`max_error_rate` -> `maxErrorRate`."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
