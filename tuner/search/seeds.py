"""The seeds of a search space file, as far as they apply to a machine."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.domain.configuration import Value
from tuner.domain.facts import Device
from tuner.domain.space import Dropped, Parameter, Seed
from tuner.search.placement import together
from tuner.search.space_file import SpaceFile

ALL = "all"
"""Given to a parameter of the kind `device`: all cards together, once for each backend that sees them."""


def usable_seeds(
    file: SpaceFile, parameters: Sequence[Parameter], devices: Sequence[Device]
) -> tuple[tuple[Seed, ...], list[Dropped]]:
    """Seeds as far as they apply: what sets a parameter or a value that is not here is left out, by name."""
    by_name = {parameter.name: parameter for parameter in parameters}
    usable: list[Seed] = []
    dropped: list[Dropped] = []
    for written in file.seeds:
        for seed in _spelled_out(written, file, devices):
            foreign = [n for n, v in seed.values.items() if n not in by_name or not by_name[n].contains(v)]
            if foreign:
                reason = f"does not apply here: {', '.join(foreign)}"
                dropped.append(Dropped(name=f"seed: {seed.name}", reason=reason))
            else:
                usable.append(seed)
    return tuple(usable), dropped


def _spelled_out(seed: Seed, file: SpaceFile, devices: Sequence[Device]) -> list[Seed]:
    """The seed itself, or one for each way to name all cards."""
    for name, value in seed.values.items():
        ways = together(devices) if value == ALL and file.parameters[name].kind == "device" else ()
        if ways:
            return [_with(seed, name, way, len(ways) > 1) for way in ways]
    return [seed]


def _with(seed: Seed, name: str, value: Value, named: bool) -> Seed:
    told = f"{seed.name}: {value}" if named else seed.name
    return seed.model_copy(update={"name": told, "values": {**seed.values, name: value}})
