"""`study.toml`: what a user asked of a study, commented so that it can be edited before the first run."""

from __future__ import annotations

import json
from pathlib import Path

from tuner.domain.definition import StudyDefinition
from tuner.domain.errors import BadInput, MissingFile
from tuner.domain.toml_text import parse_toml

_COMMENTS = {
    "schema_version": "Written by the tuner. Edit before the first run; afterwards the study is frozen.",
    "engine": "The adapter: a module of tuner/engines.",
    "storage": "The storage that several machines share, without its password; not set: study.db beside this file.",
    "binary": "The engine's program. Several make the build itself a parameter.",
    "model": "The model file. Several make the file itself a parameter.",
    "space": "A search space file of your own instead of the one that comes with the tuner.",
    "fixed": "Arguments that every launch gets, the baseline included. A flag named here is not tuned.",
    "pasted": "The command you use today, without its program: the baseline. Its tunable flags are tuned.",
    "profiles": "The ways of using the model to tune for; `tuner doctor` lists them.",
    "profiles_file": "A TOML file with profiles of your own.",
    "power_cap": "Whether the graphics cards' power caps may be changed while the study runs, and are searched.",
    "ctx_min": "Least context of a slot, in tokens, whatever the profiles ask for.",
    "depths": "Depths to measure at, in tokens, up to eight; empty: chosen for this machine.",
    "prompts": "A JSONL file with chats of your own: one object with `messages` a line. Measured as content `own`.",
    "predict_tokens": "Tokens generated in each measured request; without it 128, with a GPU 256.",
    "repeats": "Measured requests a cell in one launch.",
    "decode_limit_s": "A request is cut off after generating for so many seconds; its speed counts all the same.",
    "hours": "Time for search and confirmation together. Without hours and trials: 8 hours.",
    "trials": "Launches of the search, the baseline included.",
    "confirm_rounds": "Launches of each finalist and of the baseline in the confirm stage.",
    "trim": "Whether winners are measured without each of their flags, so that only flags that pay are printed.",
    "sampler": "What proposes configurations: composite (the tuner's own model), or Optuna's tpe, gp or random.",
    "from_studies": "Folders of earlier studies whose winners are tried early.",
    "confirm_most": "The most launches where a gain is open; not set: five times the rounds, while there is time.",
    "sampling": "How the next token is chosen when measuring: temperature, top_p, ... Empty: greedy. Never exported.",
    "env": "Environment variables that every launch gets, the baseline included.",
}


def write_definition(path: Path, definition: StudyDefinition) -> None:
    """Writes the file, every key with its comment; keys without a value are commented out.

    Raises:
        BadInput: a name in it is not UTF-8, as file names need not be and TOML must be.
    """
    lines: list[str] = []
    values = definition.model_dump(mode="json")
    tables = {"sampling": definition.sampling.given(), "env": values.pop("env")}
    del values["sampling"]
    for name, value in values.items():
        lines.append(f"# {_COMMENTS[name]}")
        lines += [f"# {name} =" if value is None else f"{name} = {_toml(value)}", ""]
    for name, table in tables.items():
        lines += [f"# {_COMMENTS[name]}", f"[{name}]"]
        lines += [*(f"{_toml(key)} = {_toml(value)}" for key, value in table.items()), ""]
    try:
        written = "\n".join(lines).encode()
    except UnicodeEncodeError as error:
        name = error.object[error.start - 40 : error.end].splitlines()[-1]
        raise BadInput(
            f"A name is not valid UTF-8: {name.encode(errors='backslashreplace').decode()}", advice="rename the file"
        ) from error
    path.write_bytes(written)


def read_definition(path: Path) -> StudyDefinition:
    """The checked content of a `study.toml`.

    Raises:
        MissingFile: it cannot be read.
        BadInput: it is not TOML, or has an unknown key or a wrong value; names the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MissingFile(f"Cannot read the study: {error}", where=str(path), advice="check its permissions") from error
    return parse_toml(text, StudyDefinition, where=str(path))


def _toml(value: object) -> str:
    """A value as TOML writes it. JSON's strings, numbers, truths and lists are TOML's, but for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
