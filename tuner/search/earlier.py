"""What earlier studies found, as seeds of this one."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.domain.space import SearchSpace, Seed
from tuner.search.space import complete, violations


def with_earlier(space: SearchSpace, winners: Sequence[Seed]) -> tuple[SearchSpace, list[str]]:
    """The space with earlier winners as its first seeds, and in words what could not be taken over.

    A value that this space does not have, as a device of another machine or a context beyond this model's, is left at
    its default here. Winners that come to the same are tried once.
    """
    seeds: list[Seed] = []
    told: list[str] = []
    known = set()
    for winner in winners:
        kept = {n: v for n, v in winner.values.items() if n in space.by_name and space.by_name[n].contains(v)}
        configuration = complete(space, kept)
        broken = violations(space, configuration)
        if broken:
            told.append(f"{winner.name} is not tried: {broken[0].because or broken[0].require}")
            continue
        foreign = [name for name in winner.values if name not in kept]
        if foreign:
            told.append(f"{winner.name}: not taken over, since it is not searched here: {', '.join(foreign)}")
        if configuration.fingerprint not in known:
            known.add(configuration.fingerprint)
            seeds.append(winner.model_copy(update={"values": kept}))
    return space.model_copy(update={"seeds": (*seeds, *space.seeds)}), told
