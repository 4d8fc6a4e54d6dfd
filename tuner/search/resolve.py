"""From a space file to the space of one study: what makes sense on this machine, with this model and this binary.

Everything that is left out is named with its reason, so that `tuner doctor` can say why something is not tuned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import product

from tuner.domain.configuration import Value
from tuner.domain.errors import BadInput, UnknownFlag
from tuner.domain.facts import Device, FlagCatalogue
from tuner.domain.space import UNSET, Dropped, Parameter, Rule, SearchSpace
from tuner.search.expressions import evaluate, parse
from tuner.search.placement import context_ladder, device_choices, split_choices
from tuner.search.seeds import usable_seeds
from tuner.search.space_file import ChoiceTable, ParameterTable, SpaceFile

_EXPLAINED = "search_spaces/README.md explains the keys"


@dataclass(frozen=True)
class CapChoices:
    """What a card, or several alike, may be held to."""

    label: str
    """Tells it from other cards in a parameter's name; empty where there are no others."""
    cards: tuple[str, ...]
    """See `GpuIdentity.key`."""
    watts: tuple[int, ...]
    own_w: int
    """The cap that they have now."""


@dataclass(frozen=True)
class Surroundings:
    """What a space is resolved against."""

    facts: Mapping[str, Value | None]
    """`machine.*`, `model.*`, `engine.*` and `study.*` by name; None where something is not known."""
    flags: FlagCatalogue
    devices: Sequence[Device] = ()
    present: Mapping[str, Value] = field(default_factory=dict)
    """Parameter -> the value that the user's own command gives it: the domain is widened to hold it."""
    fixed_environment: frozenset[str] = frozenset()
    """Variables that the user has fixed: likewise."""
    fixed_flags: frozenset[str] = frozenset()
    """Long spellings of the flags that the user has fixed: their parameters are not searched."""
    caps: Sequence[CapChoices] = ()
    """The power caps that may be tried, card by card; alike cards together."""
    no_caps: str = "off unless --power-cap allows it"
    """Why there are none."""
    models: Sequence[str] = ()
    binaries: Sequence[str] = ()
    strict: bool = False
    """Whether a flag that the binary lacks is an error (a file of the user's own) or a reason to leave it out."""


def resolve(file: SpaceFile, around: Surroundings) -> SearchSpace:
    """The search space for these surroundings.

    Raises:
        BadInput: a default lies outside its domain, or an expression names something that does not exist.
        UnknownFlag: `around.strict` and the binary does not know a flag.
    """
    _check_expressions(file, around)
    parameters: list[Parameter] = []
    dropped: list[Dropped] = []
    for name, table in file.parameters.items():
        reason = _not_here(name, table, around)
        if reason is None and table.kind == "power_cap":
            parameters += [_cap_parameter(name, table, caps) for caps in around.caps]
        elif reason is None:
            parameter, notes = _resolve_one(name, table, around)
            dropped += notes
            if parameter is not None:
                parameters.append(parameter)
        else:
            dropped.append(Dropped(name=name, reason=reason))
    while never := [p for p in parameters if p.when is not None and not _can_hold(p.when, parameters)]:
        dropped += [Dropped(name=p.name, reason=f"matters only when {p.when}, which cannot be here") for p in never]
        parameters = [p for p in parameters if p not in never]
    seeds, unusable = usable_seeds(file, parameters, around.devices)
    return SearchSpace(
        engine=file.engine,
        parameters=tuple(parameters),
        rules=tuple(_usable_rules(file, parameters)),
        seeds=seeds,
        dropped=(*dropped, *unusable),
    )


def _not_here(name: str, table: ParameterTable, around: Surroundings) -> str | None:
    """Why the whole parameter does not apply, or None."""
    if table.environment in around.fixed_environment:
        return f"fixed by your own environment ({table.environment})"
    if table.kind == "power_cap" and not around.caps:
        return around.no_caps
    for flag in (table.flag, table.off_flag):
        if flag is None:
            continue
        if flag in around.fixed_flags:
            return f"fixed by your own arguments ({flag})"
        if not around.flags.knows(flag):
            return _missing_flag(name, flag, around)
        entry = around.flags.find(flag)
        if entry is not None and entry.deprecated is not None and not around.strict:
            return f"this engine build calls {flag} deprecated ({entry.deprecated})"
    if table.requires is not None and not evaluate(table.requires, around.facts):
        return f"needs {table.requires}; here {_told(table.requires, around.facts)}"
    return None


def _can_hold(expression: str, parameters: Sequence[Parameter]) -> bool:
    """Whether some values of the parameters that are left make the expression true."""
    by_name = {parameter.name: parameter for parameter in parameters}
    parsed = parse(expression)
    names = sorted((parsed.names() | parsed.words()) & by_name.keys())
    domains = [by_name[name].choices for name in names]
    # A range of numbers is taken to hold what is asked of it: only choices were narrowed.
    if any(domain is None for domain in domains):
        return True
    combinations = product(*[domain or () for domain in domains])
    return any(evaluate(expression, dict(zip(names, values, strict=True))) for values in combinations)


def _missing_flag(name: str, flag: str, around: Surroundings) -> str:
    entry = around.flags.find(flag)
    if entry is not None and entry.removed:
        message, advice = f"this engine build has removed {flag}", entry.removed
    else:
        nearest = around.flags.nearest(flag)
        message = f"this engine build does not know {flag}"
        advice = f"nearest flag it knows: {nearest}" if nearest else "it has no similar flag"
    if around.strict:
        raise UnknownFlag(f"Parameter `{name}`: {message}", advice=advice)
    return f"{message} ({advice})"


def _told(expression: str, facts: Mapping[str, Value | None]) -> str:
    """The facts that an expression names, with their values: `machine.gpus is 0`."""
    parsed = parse(expression)
    names = [name for name in sorted(parsed.names() | parsed.words()) if name in facts]
    told = [f"{name} is {'unknown' if facts[name] is None else facts[name]}" for name in names]
    return ", ".join(told) or "it is not so"


def _resolve_one(name: str, table: ParameterTable, around: Surroundings) -> tuple[Parameter | None, list[Dropped]]:
    choices, notes = _choices(name, table, around)
    unknown = _unknown_facts(table, around)
    if unknown:
        return None, [*notes, Dropped(name=name, reason=f"needs {', '.join(unknown)}; here unknown")]
    low, high = _bound(name, table.low, around), _bound(name, table.high, around)
    if low is not None and high is not None:
        if table.log and low <= 0:
            raise BadInput(f"Parameter `{name}`: with `log`, `low` must be above zero, not {low}")
        if table.step is not None:
            choices, low, high = _steps(low, high, table.step), None, None
        elif isinstance(low, float) or isinstance(high, float):
            low, high = float(low), float(high)
    if choices is not None and not choices:
        return None, [*notes, Dropped(name=name, reason="none of its values is possible here")]
    default = _fact_or_value(table.default, around)
    if default is None:
        default = _implied_default(table, choices, low)
    assert default is not None
    default = _spelled(default, choices, low)
    present = around.present.get(name)
    if present is not None:
        _check_present(name, table, present, choices, around)
        present = _spelled(present, choices, low)
    if present is not None and choices is not None and present not in choices:
        choices = (*choices, present)
    elif isinstance(present, int | float) and low is not None and high is not None:
        low, high = min(low, present), max(high, present)
    if choices is not None and default not in choices and table.default is not None and present is None:
        default = _fallback_default(name, table, default, choices, notes)
    parameter = Parameter(
        name=name,
        about=table.about,
        target=_TARGETS.get(table.kind, "flag"),
        flag=table.flag,
        off_flag=table.off_flag,
        environment=table.environment,
        choices=choices,
        low=low,
        high=high,
        log=table.log and low is not None and low > 0,
        default=present if present is not None else default,
        when=table.when,
        role="context" if table.kind == "context" else table.role,
    )
    if not parameter.contains(parameter.default):
        raise BadInput(
            f"Parameter `{name}`: its default {parameter.default!r} lies outside its own domain",
            advice="widen the domain, or name the engine's own default",
        )
    return parameter, notes


def _cap_parameter(name: str, table: ParameterTable, caps: CapChoices) -> Parameter:
    return Parameter(
        name=f"{name}_{caps.label}" if caps.label else name,
        about=table.about,
        target="power_cap",
        cards=caps.cards,
        unit="W",
        choices=caps.watts,
        default=caps.own_w,
        when=table.when,
    )


def _unknown_facts(table: ParameterTable, around: Surroundings) -> list[str]:
    """The facts that the bounds and the default stand for and that are not known here."""
    written = (table.low, table.high, table.default)
    return sorted({w for w in written if isinstance(w, str) and w in around.facts and around.facts[w] is None})


def _check_present(
    name: str, table: ParameterTable, present: Value, choices: tuple[Value, ...] | None, around: Surroundings
) -> None:
    """What the engine would refuse in the user's own command is refused before anything is made of it."""
    numeric = choices is None or all(isinstance(c, int | float) and not isinstance(c, bool) for c in choices)
    if numeric and isinstance(present, str):
        raise BadInput(f"{table.flag or name} cannot be `{present}`: it takes a number")
    if not _allowed(table.flag, present, around.flags):
        entry = around.flags.find(table.flag) if table.flag else None
        offered = ", ".join(entry.allowed or ()) if entry else ""
        raise BadInput(f"{table.flag} cannot be `{present}` in this engine build", advice=f"it can be: {offered}")


def _steps(low: int | float, high: int | float, step: int | float) -> tuple[Value, ...]:
    """Every value from `low` in steps, up to `high`: as choices, so that a user's own value can stand between them."""
    values = [low + index * step for index in range(int((high - low) / step + 1e-9) + 1)]
    # A sum of tenths is no tenth.
    return tuple(value if isinstance(value, int) else round(float(value), 12) for value in values)


def _spelled(value: Value, choices: tuple[Value, ...] | None, low: int | float | None) -> Value:
    """A number as the domain writes it: neither a command line nor a person tells 0 from 0.0."""
    if isinstance(value, str | bool):
        return value
    if choices is None:
        return float(value) if isinstance(low, float) else value
    return next((choice for choice in choices if not isinstance(choice, bool) and choice == value), value)


def _implied_default(table: ParameterTable, choices: tuple[Value, ...] | None, low: int | float | None) -> Value | None:
    """What the engine does unasked: the trained context, all devices; else the first value."""
    if choices is None:
        return low
    return choices[-1] if table.kind == "context" else choices[0]


_TARGETS: dict[str, str] = {"switch": "switch", "environment": "environment", "model": "model", "binary": "binary"}


def _fallback_default(
    name: str, table: ParameterTable, default: Value, choices: tuple[Value, ...], notes: list[Dropped]
) -> Value:
    """A default whose choice was left out above gives way to the first one that is left; any other is a mistake."""
    if not any(note.name == f"{name}={default}" for note in notes):
        raise BadInput(
            f"Parameter `{name}`: its default {table.default!r} is not among its choices",
            advice="add it to the choices: the default is what the engine does when it is not told",
        )
    return choices[0]


def _choices(name: str, table: ParameterTable, around: Surroundings) -> tuple[tuple[Value, ...] | None, list[Dropped]]:
    notes: list[Dropped] = []
    generated = _generated_choices(table, around)
    if generated is not None:
        return generated, notes
    if table.choices is None:
        return None, notes
    kept: list[Value] = []
    for choice in table.choices:
        value = choice.value if isinstance(choice, ChoiceTable) else choice
        if isinstance(choice, ChoiceTable) and not evaluate(choice.requires, around.facts):
            reason = f"needs {choice.requires}; here {_told(choice.requires, around.facts)}"
        elif not _allowed(table.flag, value, around.flags):
            reason = f"this engine build does not offer it for {table.flag}"
        else:
            kept.append(value)
            continue
        notes.append(Dropped(name=f"{name}={value}", reason=reason))
    return tuple(kept), notes


def _generated_choices(table: ParameterTable, around: Surroundings) -> tuple[Value, ...] | None:
    """Choices that follow from the machine instead of the file."""
    if table.kind == "context":
        least = int(around.facts.get("study.ctx_min") or 4096)
        trained = int(around.facts.get("model.trained_context") or max(least, 32768))
        return context_ladder(least, trained)
    if table.kind == "device":
        return device_choices(around.devices)
    if table.kind == "split":
        return split_choices(around.devices)
    if table.kind == "main_device":
        return tuple(range(len(around.devices)))
    if table.kind == "model":
        return tuple(around.models)
    if table.kind == "binary":
        return tuple(around.binaries)
    return None


def _allowed(flag: str | None, value: Value, flags: FlagCatalogue) -> bool:
    """Whether the help text, where it lists values, lists this one."""
    entry = flags.find(flag) if flag else None
    if entry is None or entry.allowed is None or not isinstance(value, str) or value == UNSET:
        return True
    parts = value.split(",") if entry.list_valued else [value]
    return all(part in entry.allowed for part in parts)


def _bound(name: str, bound: int | float | str | None, around: Surroundings) -> int | float | None:
    value = _fact_or_value(bound, around)
    if isinstance(value, str | bool):
        raise BadInput(
            f"Parameter `{name}`: the bound {bound!r} is neither a number nor a fact with a number", advice=_EXPLAINED
        )
    return value


def _fact_or_value(written: Value | None, around: Surroundings) -> Value | None:
    """A text that names a fact stands for the fact."""
    if isinstance(written, str) and written in around.facts:
        return around.facts[written]
    return written


def _check_expressions(file: SpaceFile, around: Surroundings) -> None:
    """Every name in every expression must exist: a mistyped one would silently switch something off."""

    def check(place: str, text: str | None, known: set[str]) -> None:
        for unknown in sorted(parse(text).names() - known) if text else ():
            raise BadInput(f"{place}: `{unknown}` is neither a parameter nor a fact", advice=f"in `{text}`")

    names, facts = set(file.parameters), set(around.facts)
    for name, table in file.parameters.items():
        check(f"parameters.{name}.when", table.when, names)
        check(f"parameters.{name}.requires", table.requires, facts)
        for choice in table.choices or ():
            if isinstance(choice, ChoiceTable):
                check(f"parameters.{name}.choices", choice.requires, facts)
    for rule in file.rules:
        check("rules", rule.require, names)
    for seed in file.seeds:
        for name in seed.values:
            if name not in names:
                nearest = get_close_matches(name, names, n=1)
                advice = f"did you mean `{nearest[0]}`?" if nearest else f"parameters: {', '.join(sorted(names))}"
                raise BadInput(f"Seed `{seed.name}` sets `{name}`, which is no parameter", advice=advice)


def _usable_rules(file: SpaceFile, parameters: Sequence[Parameter]) -> list[Rule]:
    """The rules that still have a parameter to speak of, and none to compare with that is gone."""
    names = {parameter.name for parameter in parameters}
    gone = file.parameters.keys() - names
    parsed = [(rule, parse(rule.require)) for rule in file.rules]
    return [rule for rule, said in parsed if said.names() & names and not said.words() & gone]
