"""Between two trials: what is left of the time, and whether somebody has asked for a pause."""

from __future__ import annotations

import time
from collections.abc import Callable

from tuner.study.budget import Budget
from tuner.study.kit import Kit
from tuner.study.settle import close_abandoned

_LOOK_S = 1.0
_LOOK_AT_OTHERS_S = 2.0


def budget_now(kit: Kit) -> Budget:
    """The budget as it stands; a run that ends at an hour of the clock may have less than its study."""
    until_s = None if kit.until is None else kit.until - time.time()
    return Budget.of(kit.frozen.definition, kit.pool.records(), kit.pool.records(confirm=True), until_s=until_s)


def wait_while_paused(kit: Kit) -> None:
    """Returns at once unless a pause was asked for. No engine runs meanwhile, and no time is charged."""
    if not kit.is_paused():
        return
    kit.observer.note("paused, no engine runs; `tuner pause --end` lets it go on")
    while kit.is_paused():
        time.sleep(_LOOK_S)
    kit.observer.note("the pause is over")


def wait_for_others(kit: Kit, lacks: Callable[[], bool], what: str) -> None:
    """Returns at once unless another machine measures what is lacking. What a dead one left is taken over meanwhile."""
    if not lacks():
        return
    kit.observer.note(f"waiting for other machines: {what}")
    while lacks():
        time.sleep(_LOOK_AT_OTHERS_S)
        close_abandoned(kit)
