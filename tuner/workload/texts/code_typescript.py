"""TypeScript: exported functions over lists of one interface."""

from __future__ import annotations

from tuner.workload.texts import code_words as w
from tuner.workload.texts.code_names import camel, names
from tuner.workload.texts.grammar import Dice, Grammar

_RULES: dict[str, list[str]] = {
    "num": [camel(name) for name in w.NUMBERS],
    "text": [camel(name) for name in w.TEXTS],
    "flag": [camel(name) for name in w.FLAGS],
    "value": w.VALUES,
    "adjective": w.ADJECTIVES,
    "action": w.ACTIONS,
    "digit": list("0123456789"),
    "lead": list("123456789"),
    "cmp": ["<", ">", "<=", ">=", "!=="],
    "op": ["+", "-", "*", "/"],
    "number": ["«lead»«digit»", "«lead»«digit»«digit»", "0.«digit»«lead»", "«limit»"],
    "test": [
        "«item».«num» «cmp» «number»",
        "«item».«flag»",
        "!«item».«flag»",
        '«item».«text» === "«value»"',
        '["«value»", "«value»"].includes(«item».«text»)',
        "Math.abs(«item».«num» - «item».«num») «cmp» «number»",
    ],
    "worth": [
        "«item».«num» «op» «number»",
        "«item».«num» «op» «item».«num»",
        "Math.max(«item».«num», «number»)",
        "(«item».«num» ?? «number») «op» «item».«num»",
    ],
    "step": [
        "const «dst» = «src».filter((«item») => «test» && «test»);",
        "const «dst» = «src»\n  .filter((«item») => «test»)\n  .sort((a, b) => a.«num» - b.«num»);",
        "const «dst» = «src».map((«item») => ({ ...«item», «num»: «worth» }));",
        "const «dst»: «Entity»[] = [];\nfor (const «item» of «src») {\n  if («test» || «test») continue;\n"
        '  «dst».push({ ...«item», «text»: "«value»" });\n}',
        "for (const «item» of «src») {\n  if («test») «item».«num» = «worth»;\n}\nconst «dst» = «src».slice(«lead»);",
        'const «dst» = await this.«entity»Store.«action»(«src», { «text»: "«value»", «num»: «number» });',
        "if («src».length «cmp» «lead»«digit») {\n"
        "  throw new Error(`«adjective» «entity»: ${«src».length} of ${«limit»}`);\n}\n"
        "const «dst» = [...«src»].reverse();",
        "const «dst» = «src».flatMap((«item») => («test» ? [«item»] : []));",
    ],
    "end": [
        "return «src».reduce((sum, «item») => sum + «worth», «lead»);",
        "return Object.fromEntries(«src».map((«item») => [«item».«text», «worth»]));",
        "return «src».some((«item») => «test») ? «src» : [];",
        "const by«Entity» = new Map<string, number>();\nfor (const «item» of «src») {\n"
        "  by«Entity».set(«item».«text», «worth»);\n}\nreturn by«Entity»;",
        'return { «num»: «src».length, «text»: "«value»", «adjective»: «src».filter((«item») => «test») };',
    ],
    "head": [
        "export async function «function»(«items»: «Entity»[], «limit» = «lead»«digit») {",
        "export const «function» = async («items»: readonly «Entity»[], «limit»: number) => {",
        "async «function»(«items»: «Entity»[], «limit»?: number) {",
    ],
    "note": ["// «action» «adjective» «items» before the «value» «entity» «action»s them", "// TODO: «value» «text»"],
}
_GRAMMAR = Grammar(_RULES, given=("src", "dst", "item", "items", "entity", "Entity", "limit", "function"))


def function(dice: Dice) -> str:
    """The source of one function or method, without a trailing newline."""
    given = names(dice)
    slots = {
        "src": given.items,
        "item": given.item,
        "items": given.items,
        "entity": given.entity,
        "Entity": given.type,
        "limit": camel(given.limit),
        "function": camel(given.function),
    }
    lines = _GRAMMAR.expand("note", dice, slots).split("\n") if dice.chance(0.3) else []
    for adjective in dice.some(w.ADJECTIVES, dice.between(1, 2)):
        slots["dst"] = camel(f"{adjective}_{given.items}") if dice.chance(0.5) else adjective
        lines += _GRAMMAR.expand("step", dice, slots).split("\n")
        slots["src"] = slots["dst"]
    lines += _GRAMMAR.expand("end", dice, slots).split("\n")
    return "\n".join([_GRAMMAR.expand("head", dice, slots), *("  " + line for line in lines), "}"])
