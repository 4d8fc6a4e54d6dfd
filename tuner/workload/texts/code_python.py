"""Python functions that parse: a signature, a docstring, steps that turn one list into the next, and a result."""

from __future__ import annotations

from tuner.workload.texts import code_words as w
from tuner.workload.texts.code_names import Names, names, short_names
from tuner.workload.texts.grammar import Dice, Grammar, english

_RULES: dict[str, list[str]] = {
    "num": w.NUMBERS,
    "text": w.TEXTS,
    "flag": w.FLAGS,
    "value": w.VALUES,
    "adjective": w.ADJECTIVES,
    "action": w.ACTIONS,
    "digit": list("0123456789"),
    "lead": list("123456789"),
    "cmp": ["<", ">", "<=", ">=", "!="],
    "op": ["+", "-", "*"],
    "number": [
        "«lead»",
        "«lead»«digit»",
        "«lead»«digit»«digit»",
        "0.«digit»«lead»",
        "«lead».«digit»",
        "«limit»",
        "«limit»",
    ],
    "test": [
        "«item».«num» «cmp» «number»",
        "«item».«flag»",
        "not «item».«flag»",
        '«item».«text» == "«value»"',
        '«item».«text» in {"«value»", "«value»"}',
        '«item».«text».startswith("«value»")',
        "abs(«item».«num» - «item».«num») «cmp» «number»",
        "«item».«num» «cmp» «item».«num»",
    ],
    "tests": ["«test»", "«test» and «test»", "«test» or «test»"],
    "worth": [
        "«item».«num» * «number»",
        "«item».«num» «op» «item».«num»",
        "max(«item».«num», «number»)",
        "round(«item».«num» / «number», «lead»)",
        "(«item».«num» - «number») / «number»",
        "min(«number», «item».«num» «op» «item».«num»)",
    ],
    "log": [
        'logger.«level»("«adjective» %s: %d «text» left", "«value»", len(«src»))',
        'logger.«level»(f"«action» {len(«src»)} with «limit»={«limit»}")',
        'metrics.increment("«entity».«action».«value»", len(«src»))',
    ],
    "level": ["debug", "info", "warning"],
    "guard": [
        'if «limit» «cmp» «number»:\n    raise ValueError(f"«limit» is {«limit»}, but «value» «items» need «number»")',
        'if not «src»:\n    logger.«level»("no «items» to «action» for %s", "«value»")\n    return «empty»',
        "«log»",
        'if len(«src») > «lead»«digit»«digit»:\n    raise «Entity»Error("too many «adjective» «items»", len(«src»))',
    ],
    "select": [
        "«dst» = [«item» for «item» in «src» if «tests»]",
        "«dst» = []\nfor «item» in «src»:\n    if «tests»:\n        continue\n    «dst».append(«item»)",
        "seen = set()\n«dst» = []\nfor «item» in «src»:\n    if «item».«text» in seen or «test»:\n        continue\n"
        "    seen.add(«item».«text»)\n    «dst».append(«item»)",
        "«dst» = list(takewhile(lambda «item»: «tests», «src»))",
        "«dst» = []\nfor before, «item» in pairwise(«src»):\n    if «item».«num» - before.«num» «cmp» «number»:\n"
        "        «dst».append(«item» if «test» else before)",
        "«dst» = list(«src»)\nwhile «dst» and «dst»[-1].«num» «cmp» «number»:\n    «dst».pop()",
    ],
    "alter": [
        "«dst» = sorted(«src», key=lambda «item»: («item».«text», «worth»))",
        "«dst» = sorted(«src», key=lambda «item»: «worth», reverse=True)[:«lead»«digit»]",
        "«dst» = []\nfor «item» in «src»:\n    if «test»:\n        «item».«num» = «worth»\n"
        '    elif «test»:\n        «item».«text» = "«value»"\n    «dst».append(«item»)',
        "«dst» = [replace(«item», «num»=«worth») for «item» in «src»]",
        '«dst» = [\n    replace(«item», «num»=«worth», «text»="«value»")\n    for «item» in «src»\n    if «tests»\n]',
        "for position, «item» in enumerate(«src», start=«lead»):\n    «item».«num» = position «op» «worth»\n"
        "«dst» = «src»[«lead»:]",
        'try:\n    «dst» = store.«action»(«src», «text»="«value»", «num»=«number»)\n'
        'except «Entity»Error as error:\n    logger.«level»("«adjective» «items»: %s", error)\n'
        "    «dst» = «src»[:«lead»]",
    ],
    "total_end": [
        "total = sum(«worth» for «item» in «src»)\nreturn round(total, «lead»)",
        "total = 0.0\nfor «item» in «src»:\n    if «test»:\n        total += «worth»\nreturn total",
        "return max((«worth» for «item» in «src» if «test»), default=«number»)",
        "weights = [«worth» for «item» in «src»]\nreturn sum(weights) / max(len(weights), «lead»)",
    ],
    "list_end": [
        "return [«item» for «item» in «src» if «tests»]",
        "return «src»",
        "return «src»[: int(«limit»)]",
        "return list(reversed(«src»))",
    ],
    "dict_end": [
        "groups = defaultdict(float)\nfor «item» in «src»:\n    groups[«item».«text»] += «worth»\nreturn dict(groups)",
        "return {«item».«text»: «worth» for «item» in «src»}",
        "counts = Counter(«item».«text» for «item» in «src» if «test»)\n"
        "return {key: n «op» «number» for key, n in counts.items()}",
        "result = {}\nfor «item» in «src»:\n    result.setdefault(«item».«text», «worth»)\nreturn result",
    ],
    "doc": [
        "«Action» the «adjective» «items» whose «text_words» is «value».",
        "Return «adjective» «items», «adjective» ones first, by «num_words».",
        "Used by the «value» «entity» job to «action» «num_words» and «text_words».",
        "Only «items» with a «num_words» count; «value» and «adjective» ones are skipped.",
        "See the «value» «entity» policy: «num_words» never exceeds «num_words».",
    ],
    "text_words": [text.replace("_", " ") for text in w.TEXTS],
    "num_words": [number.replace("_", " ") for number in w.NUMBERS],
    "Action": [action.capitalize() for action in w.ACTIONS],
    "change": [
        'it skips every «entity» whose `«text»` is "«value»"',
        "it takes an optional argument `«num»_floor` and drops «items» below it",
        "it also collects the «text_words» of each skipped «entity» and logs them once at the end",
        "it raises `ValueError` when an «entity» has a negative `«num»`",
        "all arguments but the first are keyword-only, and `«limit»` defaults to «lead»«digit»",
        "every parameter and local variable has a type annotation",
        "it reads the «text_words» case-insensitively",
    ],
    "ask": [
        "Rewrite the function below so that «change». Leave everything else as it is and answer with "
        "the whole function.",
        "Please edit this function so that «change». Change nothing else and reply with the full new version only.",
        "In our «value» service this function should change: make sure that «change». Keep its name and "
        "its other lines.",
    ],
}
_GIVEN = ("src", "dst", "item", "items", "entity", "Entity", "limit", "empty")
_GRAMMAR = Grammar(_RULES, given=_GIVEN)
_ENDINGS = {"float": ("total_end", "0.0"), "list": ("list_end", "[]"), "dict[str, float]": ("dict_end", "{}")}


MOST_CHARACTERS = 440
"""Of a function to be edited."""
_STEPS = (("select",), ("alter",), ("select", "alter"))


def function(dice: Dice) -> str:
    """The source of one function, without a trailing newline."""
    return _written(dice, names(dice), dice.pick(_STEPS))


def edit(dice: Dice) -> tuple[str, str, str]:
    """What to change, the function of 10 to 25 lines to change, and the function's name."""
    while True:
        given = short_names(dice)
        source = _written(dice, given, ("select", "alter"), documented=False)
        # The ceiling keeps the instruction inside the tokens that the workload leaves for it.
        if source.count("\n") in range(9, 25) and len(source) <= MOST_CHARACTERS:
            break
    words = {"item": given.item, "items": given.items, "entity": given.entity, "limit": given.limit}
    return english(_GRAMMAR.expand("ask", dice, words)), source, given.function


def _written(dice: Dice, given: Names, steps: tuple[str, ...], documented: bool = True) -> str:
    returns, (ending, empty) = dice.pick(tuple(_ENDINGS.items()))
    slots = {
        "src": given.items,
        "item": given.item,
        "items": given.items,
        "entity": given.entity,
        "Entity": given.type,
        "limit": given.limit,
        "empty": empty,
    }
    body = [f'"""{english(_GRAMMAR.expand("doc", dice, slots))}"""'] if documented else []
    if dice.chance(0.5):
        body.append(_GRAMMAR.expand("guard", dice, slots))
    for step, adjective in zip(steps, dice.some(w.ADJECTIVES, len(steps)), strict=True):
        slots["dst"] = f"{adjective}_{given.items}" if dice.chance(0.5) else adjective
        body.append(_GRAMMAR.expand(step, dice, slots))
        slots["src"] = slots["dst"]
    body.append(_GRAMMAR.expand(ending, dice, slots))
    annotated = f"list[{given.type}]"
    head = f"def {given.function}({given.items}: {annotated}, {given.limit}: float = {dice.between(1, 999)})"
    lines = "\n".join(body).split("\n")
    returned = annotated if returns == "list" else returns
    return "\n".join([f"{head} -> {returned}:", *("    " + line for line in lines)])
