"""Tool use: logs of JSON tool calls with their results, and requests to be turned into calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from tuner.workload.texts import code_words as w
from tuner.workload.texts import english_words as e
from tuner.workload.texts.grammar import Dice
from tuner.workload.texts.prose_en import aside, town
from tuner.workload.texts.task import Task

_Value = str | int | float | bool | list[str]
_TOPICS = e.THINGS + e.SPOTS
_DOMAINS = ("com", "org", "net", "io", "eu", "de", "fr", "in", "se", "pl")


def _person(dice: Dice) -> str:
    return f"{dice.pick(e.WOMEN + e.MEN)} {dice.pick(e.SURNAMES)}"


def _email(dice: Dice) -> str:
    host = f"{dice.pick(e.TOWN_STARTS)}{dice.pick(e.TOWN_ENDS)}.{dice.pick(_DOMAINS)}"
    return f"{dice.pick(e.WOMEN + e.MEN)}.{dice.pick(e.SURNAMES)}@{host}".lower()


def _date(dice: Dice) -> str:
    return f"20{dice.between(18, 31)}-{dice.between(1, 12):02}-{dice.between(1, 28):02}"


def _hour(dice: Dice) -> str:
    return f"{dice.between(0, 23):02}:{dice.between(0, 59):02}"


def _identity(dice: Dice) -> str:
    return f"{dice.pick(w.ENTITIES)[:3].upper()}-{dice.between(1000, 999999)}"


def _amount(dice: Dice) -> float:
    return dice.between(100, 999999) / 100


def _query(dice: Dice) -> str:
    return f"{dice.pick(e.QUALITIES)} {dice.pick(_TOPICS)} near {town(dice)}"


_Kind = tuple[str, Callable[[Dice], _Value]]
_PARAMETERS: dict[str, _Kind] = {
    "city": ("string", town),
    "destination": ("string", town),
    "origin": ("string", town),
    "assignee": ("string", _person),
    "customer": ("string", _person),
    "contact": ("string", _person),
    "recipient": ("string", _email),
    "reply_to": ("string", _email),
    "date": ("string", _date),
    "due": ("string", _date),
    "since": ("string", _date),
    "start_time": ("string", _hour),
    "end_time": ("string", _hour),
    "reference": ("string", _identity),
    "parent_id": ("string", _identity),
    "amount": ("number", _amount),
    "budget": ("number", _amount),
    "query": ("string", _query),
    "note": ("string", aside),
    "reason": ("string", aside),
    "limit": ("integer", lambda dice: dice.between(1, 500)),
    "quantity": ("integer", lambda dice: dice.between(1, 90)),
    "page": ("integer", lambda dice: dice.between(1, 60)),
    "status": ("string", lambda dice: dice.pick(w.VALUES)),
    "category": ("string", lambda dice: dice.pick(w.VALUES)),
    "subject": ("string", lambda dice: f"{dice.pick(e.IDEAS)} and the {dice.pick(e.EVENTS)}"),
    "item": ("string", lambda dice: f"{dice.pick(e.QUALITIES)} {dice.pick(e.THINGS)}"),
    "location": ("string", lambda dice: f"{dice.pick(e.SPOTS)}, {town(dice)}"),
    "tags": ("array", lambda dice: dice.some(e.IDEAS, dice.between(1, 3))),
    "fields": ("array", lambda dice: dice.some(w.TEXTS, dice.between(1, 3))),
    "notify": ("boolean", lambda dice: dice.chance(0.5)),
    "dry_run": ("boolean", lambda dice: dice.chance(0.5)),
}
_NAMES = tuple(_PARAMETERS)


class _Tool(NamedTuple):
    action: str
    entity: str
    parameters: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.action}_{self.entity}"

    def arguments(self, dice: Dice) -> dict[str, _Value]:
        return {name: _PARAMETERS[name][1](dice) for name in self.parameters}


def _tool(dice: Dice, most: int) -> _Tool:
    return _Tool(dice.pick(w.ACTIONS), dice.pick(w.ENTITIES), tuple(dice.some(_NAMES, dice.between(2, most))))


def _result(dice: Dice, tool: _Tool) -> dict[str, object]:
    if dice.chance(0.15):
        return {"ok": False, "error": f"{tool.entity} {_identity(dice)} is {dice.pick(w.VALUES)}", "hint": aside(dice)}
    rows = [
        {name: _PARAMETERS[name][1](dice) for name in dice.some(_NAMES, 2)} | {dice.pick(w.NUMBERS): _amount(dice)}
        for _ in range(dice.between(1, 2))
    ]
    return {dice.pick(w.ADJECTIVES): rows, "took_ms": dice.between(2, 9000)}


def block(dice: Dice) -> str:
    """One JSON value: a call with its result, an assistant message with two calls, or the answer of a tool."""
    tool = _tool(dice, 5)
    record: dict[str, object]
    shape = dice.between(0, 2)
    if shape == 0:
        record = {
            "at": f"{_date(dice)}T{_hour(dice)}Z",
            "tool": tool.name,
            "arguments": tool.arguments(dice),
            "result": _result(dice, tool),
        }
    elif shape == 1:
        calls = [(each.name, each.arguments(dice)) for each in (tool, _tool(dice, 4))]
        record = {
            "role": "assistant",
            "content": aside(dice),
            "tool_calls": [{"id": _identity(dice), "name": name, "arguments": given} for name, given in calls],
        }
    else:
        record = {"role": "tool", "call": _identity(dice), "name": tool.name, "content": _result(dice, tool)}
    return json.dumps(record, indent=2 if dice.chance(0.25) else None)


def task(dice: Dice) -> Task:
    """Three tools and a request that needs two of them, to be answered by a JSON array of calls."""
    tools = [_tool(dice, 3) for _ in range(3)]
    listing = "\n".join(
        f"{tool.name}({', '.join(f'{name}: {_PARAMETERS[name][0]}' for name in tool.parameters)})" for tool in tools
    )
    first, second = dice.some(tools, 2)
    request = f"Please {_wish(dice, first)}. Then {_wish(dice, second)}."
    rule = (
        'Answer with a JSON array of calls only, each {"name": ..., "arguments": {...}}, then the results you expect.'
    )
    return Task(
        f"Tools:\n{listing}\n\n{request}\n{rule}",
        f'[\n  {{\n    "name": "{first.name}",\n    "arguments": {{\n      "{first.parameters[0]}": ',
    )


def _wish(dice: Dice, tool: _Tool) -> str:
    given = (f"{name.replace('_', ' ')} {_spoken(value)}" for name, value in tool.arguments(dice).items())
    return f"{tool.action} the {tool.entity} with {', '.join(given)}"


def _spoken(value: _Value) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return " and ".join(value) if isinstance(value, list) else str(value)
