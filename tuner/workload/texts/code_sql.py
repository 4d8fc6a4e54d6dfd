"""SQL: queries, updates and tables over the same entities as the other languages."""

from __future__ import annotations

from tuner.workload.texts import code_words as w
from tuner.workload.texts.grammar import Dice, Grammar, plural

_RULES: dict[str, list[str]] = {
    "entity": w.ENTITIES,
    "num": w.NUMBERS,
    "text": w.TEXTS,
    "flag": w.FLAGS,
    "value": w.VALUES,
    "adjective": w.ADJECTIVES,
    "digit": list("0123456789"),
    "lead": list("123456789"),
    "cmp": ["<", ">", "<=", ">=", "<>"],
    "number": ["«lead»«digit»", "«lead»«digit»«digit»", "0.«digit»«lead»"],
    "place": ["1", "2", "3"],
    "direction": ["ASC", "DESC"],
    "measure": ["sum", "avg", "min", "max"],
    "test": [
        "a.«num» «cmp» «number»",
        "a.«flag»",
        "NOT b.«flag»",
        "b.«text» = '«value»'",
        "a.«text» IN ('«value»', '«value»')",
        "a.«num» BETWEEN «number» AND «number»",
        "b.«text» LIKE '«value»%'",
        "a.«num» «cmp» b.«num»",
    ],
    "column": [
        "a.«text»",
        "b.«text»",
        "a.«num»",
        "«measure»(b.«num») AS «adjective»_«num»",
        "count(*) AS «adjective»_«entity»",
    ],
    "join": ["JOIN «other» b ON b.id = a.«link»_id", "LEFT JOIN «other» b ON b.«text» = a.«text»"],
    "query": [
        "SELECT «column», «column», «column»\nFROM «table» a\n«join»\nWHERE «test»\n  AND «test»\n"
        "GROUP BY a.«text», b.«text»\nHAVING «measure»(a.«num») «cmp» «number»\n"
        "ORDER BY «place» «direction»\nLIMIT «number»;",
        "UPDATE «table» a\nSET «num» = a.«num» * «number»,\n    «text» = '«value»',\n    «flag» = TRUE\n"
        "FROM «other» b\nWHERE b.id = a.«link»_id\n  AND «test»\n  AND «test»;",
        "CREATE TABLE «adjective»_«table» (\n    id BIGINT PRIMARY KEY,\n"
        "    «link»_id BIGINT REFERENCES «other» (id),\n"
        "    «text» TEXT NOT NULL DEFAULT '«value»',\n    «num» NUMERIC CHECK («num» «cmp» «number»),\n"
        "    «flag» BOOLEAN,\n    «num» DOUBLE PRECISION\n);",
        "WITH «adjective» AS (\n    SELECT a.«text», «measure»(a.«num») AS «num»\n    FROM «table» a\n    «join»\n"
        "    WHERE «test»\n    GROUP BY a.«text»\n)\nDELETE FROM «other» b\n"
        "WHERE b.«num» «cmp» «number» OR b.«text» = '«value»';",
        "CREATE INDEX «adjective»_«table»_«text» ON «table» («text», «num» «direction»)\n"
        "WHERE «flag» AND «num» «cmp» «number»;",
        "INSERT INTO «table» («text», «num», «text», «num»)\n"
        "SELECT b.«text», b.«num» - «number», '«value»', «measure»(b.«num»)\n"
        "FROM «other» b\nWHERE b.«text» = '«value»'\nGROUP BY b.«text», b.«num»;",
    ],
}
_GRAMMAR = Grammar(_RULES, given=("table", "other", "link"))


def statement(dice: Dice) -> str:
    """One statement, without a trailing newline."""
    entity, link = dice.some(w.ENTITIES, 2)
    return _GRAMMAR.expand("query", dice, {"table": plural(entity), "other": plural(link), "link": link})
