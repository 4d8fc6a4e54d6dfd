"""Spaces, flags and devices for the tests of the search."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tuner.domain.configuration import Value
from tuner.domain.facts import Device, FlagCatalogue, FlagEntry
from tuner.domain.space import Parameter, Rule, SearchSpace
from tuner.domain.toml_text import parse_toml
from tuner.engines.llama_server.help_text import parse_help
from tuner.search.resolve import Surroundings, resolve
from tuner.search.space_file import SpaceFile, read_space_file

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "search_spaces"
HELP_TEXTS = {
    path.stem: parse_help(path.read_text())
    for path in (
        *sorted((ROOT / "tests" / "engines" / "llama_server").glob("help_*.txt")),
        ROOT / "tests" / "fake_engine" / "llama_server_help.txt",
    )
}


def devices(count: int) -> tuple[Device, ...]:
    """So many unlike GPUs."""
    return tuple(
        Device(name=f"CUDA{i}", description="Some GPU", total_mib=24576 // (i + 1), free_mib=23000 // (i + 1))
        for i in range(count)
    )


def facts(**changes: Value | None) -> dict[str, Value | None]:
    """All facts that a file may name; `machine_gpus=2` changes `machine.gpus`."""
    known: dict[str, Value | None] = {
        "machine.gpus": 0, "machine.physical_cores": 8, "machine.logical_cores": 16, "machine.memory_mib": 64000,
        "model.trained_context": 32768, "model.layers": 48, "model.mtp_layers": 0, "model.experts": 0,
        "model.size_mib": 4000, "model.recurrent": False, "engine.has_rocm": False,
        "engine.devices": 0, "engine.has_vulkan": False, "engine.computes_on_cpu": True,
        "study.ctx_min": 8192, "study.draft_model": False, "study.models": 1, "study.binaries": 1,
    }  # fmt: skip
    return known | {name.replace("_", ".", 1): value for name, value in changes.items()}


def flags(*spellings: str, **entries: Any) -> FlagCatalogue:
    """A binary that knows these flags; keywords change the entry of `--name`."""
    plain = [FlagEntry(names=(spelling,), takes_value=True) for spelling in spellings]
    special = [
        FlagEntry(**{"names": (f"--{name.replace('_', '-')}",), "takes_value": True} | entry)
        for name, entry in entries.items()
    ]
    return FlagCatalogue(entries=(*plain, *special))


def space_file(text: str) -> SpaceFile:
    """A space file from its tables; every parameter without an `about` gets one."""
    tables = re.sub(r"(?m)^(\[parameters\.\w+\])$", r"\1" + '\nabout = "something"', text)
    return parse_toml(f'schema_version = 1\nengine = "llama_server"\n{tables}', SpaceFile, where="test.toml")


def resolved(text: str, known: FlagCatalogue | None = None, **around: Any) -> SearchSpace:
    """A file resolved where the binary knows all its flags and nothing else is special."""
    file = space_file(text)
    own = {flag for table in file.parameters.values() for flag in (table.flag, table.off_flag) if flag}
    values: dict[str, Any] = {"facts": facts(), "flags": known or flags(*sorted(own))}
    return resolve(file, Surroundings(**values | around))


def shipped(
    known: FlagCatalogue,
    gpus: int,
    *,
    engine: str = "llama_server",
    mtp: bool = False,
    experts: bool = False,
    told: Mapping[str, Value] | None = None,
    **changes: Any,
) -> SearchSpace:
    """An engine's space that comes with the tuner, for a machine with so many GPUs; `told` are further facts."""
    around = Surroundings(
        facts=facts(
            machine_gpus=gpus, engine_devices=gpus, engine_computes_on_cpu=gpus == 0,
            model_mtp_layers=int(mtp), model_experts=128 if experts else 0, **(told or {}),
        ),
        flags=known,
        devices=devices(gpus),
        **{"models": ("/m.gguf",), "binaries": ("/bin/e",)} | changes,
    )  # fmt: skip
    return resolve(read_space_file(SHIPPED / f"{engine}.toml"), around)


def parameter(name: str, choices: Sequence[Value] | None = None, **changes: Any) -> Parameter:
    """A parameter; of choices the first is the default."""
    values: dict[str, Any] = {"name": name, "about": "x", "flag": f"--{name}"}
    if choices is not None:
        values |= {"choices": tuple(choices), "default": choices[0]}
    return Parameter(**values | changes)


def space(*parameters: Parameter, rules: Mapping[str, str] | Sequence[str] = ()) -> SearchSpace:
    """A resolved space."""
    made = tuple(Rule(require=rule, because="so it is") for rule in rules)
    return SearchSpace(engine="llama_server", parameters=parameters, rules=made)


def reasons(of: SearchSpace) -> dict[str, str]:
    """What was dropped -> why."""
    return {dropped.name: dropped.reason for dropped in of.dropped}


texts = st.text("abc-,", min_size=1, max_size=4)
"""Values of a flag that is told by words."""


@st.composite
def parameters(draw: st.DrawFn, name: str) -> Parameter:
    """Any parameter that a resolved space may have."""
    kind = draw(st.sampled_from(["words", "switch", "ladder", "floats", "integers", "range", "single"]))
    domain: dict[str, Any]
    if kind in ("integers", "range"):
        number = st.integers(1, 64) if kind == "integers" else st.floats(0.5, 4, allow_nan=False)
        low, high = sorted((draw(number), draw(number)))
        domain = {"low": low, "high": high, "log": draw(st.booleans()), "default": draw(st.sampled_from([low, high]))}
    else:
        choice = {
            "words": texts, "switch": st.booleans(), "ladder": st.integers(-4096, 4096),
            "floats": st.sampled_from([0.0, 0.25, 0.5, 1.0]), "single": st.one_of(texts, st.integers(), st.booleans()),
        }[kind]  # fmt: skip
        most = 1 if kind == "single" else 4
        choices = tuple(draw(st.lists(choice, min_size=1, max_size=most, unique=True)))
        domain = {"choices": choices, "default": draw(st.sampled_from(choices))}
    return Parameter(name=name, about="x", flag=f"--{name}", **domain)


@st.composite
def spaces(draw: st.DrawFn) -> SearchSpace:
    """Up to five parameters of any kind; later ones may depend on earlier ones."""
    made: list[Parameter] = []
    for name in "abcde"[: draw(st.integers(1, 5))]:
        one = draw(parameters(name))
        if len(made) > 0 and draw(st.booleans()):
            on = draw(st.sampled_from(made))
            one = one.model_copy(
                update={"when": f'{on.name} == "{on.default}"' if isinstance(on.default, str) else on.name}
            )
        made.append(one)
    return SearchSpace(engine="llama_server", parameters=tuple(made))


def values_of(draw: Callable[[st.SearchStrategy[Any]], Any], of: SearchSpace) -> dict[str, Value]:
    """A value for every parameter."""
    values: dict[str, Value] = {}
    for one in of.parameters:
        if one.choices is not None:
            values[one.name] = draw(st.sampled_from(one.choices))
        elif isinstance(one.low, int) and isinstance(one.high, int):
            values[one.name] = draw(st.integers(one.low, one.high))
        else:
            assert one.low is not None
            assert one.high is not None
            values[one.name] = draw(st.floats(one.low, one.high))
    return values
