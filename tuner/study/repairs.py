"""Tries what a failed launch itself asks for: the same configuration, one value changed in the direction it names."""

from __future__ import annotations

from tuner.domain.space import Parameter
from tuner.search.directions import next_on_the_line
from tuner.study.kit import Kit


def enqueue_repairs(kit: Kit, told: set[str]) -> None:
    """Puts a repaired configuration in the queue for every failure that has none yet.

    `told` holds what the user was told already in this run.
    """
    records = kit.pool.records()
    open_ones = [record for record in records if record.verdict is not None and record.verdict.explanation is not None]
    origins = kit.pool.origins() if open_ones else set()
    for record in open_ones:
        origin = f"repair of trial {record.number}"
        found = next_on_the_line(kit.frozen.space, record, records) if origin not in origins else None
        if found is None or record.is_baseline:
            continue
        if found.value is None:
            _tell_stuck(kit, found.parameter, told)
        else:
            kit.pool.enqueue({**record.configuration.values, found.parameter.name: found.value}, origin)


def _tell_stuck(kit: Kit, parameter: Parameter, told: set[str]) -> None:
    message = (
        f"{parameter.name}: a little more is too much and a little less too little, so that something else is short: "
        "a shorter context, fewer requests or drafts, a smaller KV cache type"
    )
    if message not in told:
        told.add(message)
        kit.observer.note(message)
