"""Code: fenced Python, TypeScript and SQL, and functions to be edited."""

from __future__ import annotations

from tuner.workload.texts import code_python, code_sql, code_typescript
from tuner.workload.texts import code_words as w
from tuner.workload.texts.grammar import Dice
from tuner.workload.texts.task import Task


def block(dice: Dice) -> str:
    """One fenced function or statement under the path of the file that it is from."""
    folder, name = dice.pick(w.ENTITIES), f"{dice.pick(w.ACTIONS)}_{dice.pick(w.ENTITIES)}"
    language = dice.pick(("python", "python", "typescript", "sql"))
    if language == "python":
        suffix, source = "py", code_python.function(dice)
    elif language == "typescript":
        suffix, source = "ts", code_typescript.function(dice)
    else:
        suffix, source = "sql", code_sql.statement(dice)
    return f"{folder}/{name}.{suffix}:\n```{language}\n{source}\n```"


def task(dice: Dice) -> Task:
    """A function to be edited: most of the answer is a copy of it, as with coding agents."""
    wish, source, name = code_python.edit(dice)
    return Task(f"{wish}\n\n```python\n{source}\n```", f"```python\ndef {name}(")
