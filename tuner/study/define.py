"""From the options of a command to a study's definition: finds what was not named, and makes every path absolute."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from itertools import zip_longest
from pathlib import Path

from pydantic import ValidationError

from tuner.domain.definition import MOST_DEPTHS, StudyDefinition
from tuner.domain.errors import BadInput, EngineNotFound, MissingFile
from tuner.domain.sampling import Sampling
from tuner.study.protocols import Engine

_SAMPLING_ADVICE = "write it like --sampling temperature=0.7,top_p=0.95"


@dataclass(frozen=True)
class Options:
    """What a user can say about a study. None or empty: not said."""

    model: Sequence[Path] = ()
    binary: Sequence[str] = ()
    space: Path | None = None
    profiles: Sequence[str] = ()
    profiles_file: Path | None = None
    power_cap: bool = False
    ctx_min: int | None = None
    depths: str | None = None
    prompts: Path | None = None
    sampling: str = ""
    predict_tokens: int | None = None
    repeats: int | None = None
    decode_limit_s: float | None = None
    hours: float | None = None
    trials: int | None = None
    confirm_rounds: int | None = None
    confirm_most: int | None = None
    trim: bool | None = None
    sampler: str | None = None
    from_studies: Sequence[Path] = ()
    fixed: str = ""
    env: Sequence[str] = ()
    storage: str | None = field(default=None, repr=False)
    """The address of a storage that several machines share; there may be a password in it."""
    pasted: Sequence[str] = field(default=())
    """The words after `--`: the command that the user runs today."""

    def beside_budget(self) -> list[str]:
        """The options that were given, but for the budget: what an existing study does not take."""
        spelled = {"profiles": "--profile", "profiles_file": "--profiles", "from_studies": "--from"}
        budget = {"hours", "trials", "confirm_rounds", "confirm_most", "trim", "sampler", "storage"}
        given = [each.name for each in fields(self) if each.name not in budget and getattr(self, each.name)]
        return [spelled.get(name) or f"--{name.replace('_', '-')}" for name in given]


def define(engine: Engine, options: Options, device_order: Mapping[str, str]) -> StudyDefinition:
    """The definition that the options make.

    `device_order` are variables that make the engine count the cards as their driver does: added unless the user
    says it, or names devices by their place already.

    Raises:
        BadInput: options contradict each other or cannot be read.
        MissingFile: there is no model, or a file is not there.
        EngineNotFound: there is no engine.
    """
    env, program, pasted = engine.split_command(options.pasted)
    fixed = _split("--fixed", options.fixed)
    models = [str(path) for path in options.model] or _models_in(engine, [*fixed, *pasted])
    if not models:
        raise MissingFile("No model was named", advice="pass --model FILE, or paste your command after `--`")
    found = [engine.find_model(name) for name in models]
    for given_file in (options.space, options.profiles_file, options.prompts):
        if given_file is not None and not given_file.is_file():
            raise MissingFile(f"There is no file {given_file}", advice="check the path")
    programs = list(options.binary) or ([program] if program else [])
    binaries = [_program(name, engine) for name in programs] if programs else [str(engine.find_binary())]
    order = {} if engine.names_devices([*fixed, *pasted]) else device_order
    given = {
        "ctx_min": options.ctx_min,
        "hours": options.hours,
        "trials": options.trials,
        "confirm_rounds": options.confirm_rounds,
        "confirm_most": options.confirm_most,
        "trim": options.trim,
        "sampler": options.sampler,
        "predict_tokens": options.predict_tokens,
        "repeats": options.repeats,
        "decode_limit_s": options.decode_limit_s,
    }
    return checked(
        {
            "engine": engine.name,
            "storage": _public(options.storage),
            "binary": tuple(binaries),
            "model": tuple(_absolute_path(path) for path in found),
            "space": _absolute_path(options.space) if options.space else None,
            "fixed": tuple(_absolute(fixed)),
            "power_cap": options.power_cap,
            "env": {**order, **env, **_environment(options.env)},
            "pasted": tuple(_absolute(pasted)) if pasted or program else None,
            "profiles": tuple(options.profiles),
            "profiles_file": _absolute_path(options.profiles_file) if options.profiles_file else None,
            "from_studies": tuple(_absolute_path(path) for path in options.from_studies),
            "depths": _depths(options.depths),
            "prompts": _absolute_path(options.prompts) if options.prompts else None,
            "sampling": _sampling(options.sampling),
            **{name: value for name, value in given.items() if value is not None},
        }
    )


def _public(address: str | None) -> str | None:
    if address is None:
        return None
    # Imported late: only what needs a shared storage waits for it.
    from tuner.search.shared_storage import public_form

    return public_form(address)


def checked(values: Mapping[str, object]) -> StudyDefinition:
    """The definition of these values. Raises BadInput for one that cannot be."""
    try:
        return StudyDefinition.model_validate(values)
    except ValidationError as error:
        mistake = error.errors()[0]
        name = str(mistake["loc"][0]) if mistake["loc"] else "the study"
        raise BadInput(
            f"--{name.replace('_', '-')} {mistake['input']}: {mistake['msg'].lower()}",
            advice="`tuner run --help` explains the options",
        ) from error


def default_name(definition: StudyDefinition) -> str:
    """A study's name when none is given: the model file's."""
    model = Path(definition.model[0])
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", model.name if model.is_dir() else model.stem).strip("-.")
    return name or "study"


def _models_in(engine: Engine, words: Sequence[str]) -> list[str]:
    """The model file among a command's words."""
    for flag, value in zip_longest(words, words[1:], fillvalue=""):
        name, equals, attached = flag.partition("=")
        if name in engine.model_flags:
            if not (attached if equals else value):
                raise BadInput(f"{name} needs the model's file", advice=f"write it after the flag: {name} FILE")
            return [attached if equals else value]
    return []


def _program(name: str, engine: Engine) -> str:
    """The program's absolute path; a bare name is looked up on PATH, the engine's own also where it is installed."""
    found = shutil.which(name)
    if found is None and name == engine.program:
        return str(engine.find_binary())
    if found is None:
        raise EngineNotFound(f"There is no program `{name}`", advice="name it with --binary PATH")
    return _absolute_path(found)


def _split(option: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise BadInput(f"{option} is not understood: {error}", advice="check its quotes") from error


def _absolute(words: Sequence[str]) -> list[str]:
    """Relative paths of files and folders that exist, made absolute: a study may be continued from another folder."""
    return [_absolute_path(word) if _looks_like_path(word) and Path(word).exists() else word for word in words]


def _looks_like_path(word: str) -> bool:
    return not word.startswith("-") and ("/" in word or "." in word)


def _absolute_path(path: str | Path) -> str:
    """The path from the root, symbolic links kept: people name files through them, and move what they point to."""
    return os.path.normpath(Path.cwd() / path)


def _environment(assignments: Sequence[str]) -> dict[str, str]:
    env: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name:
            raise BadInput(f"--env {assignment} is not understood", advice="write --env NAME=VALUE")
        env[name] = value
    return env


def _sampling(text: str) -> Sampling:
    """What `temperature=0.7,top_p=0.95` means; nothing is greedy."""
    given: dict[str, str] = {}
    for assignment in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (part.strip() for part in assignment.partition("="))
        if not equals:
            raise BadInput(f"--sampling {assignment} is not understood", advice=_SAMPLING_ADVICE)
        given[name] = value
    try:
        return Sampling.model_validate(given)
    except ValidationError as error:
        mistake = error.errors()[0]
        name = str(mistake["loc"][0]) if mistake["loc"] else text
        if mistake["type"] == "extra_forbidden":
            nearest = get_close_matches(name, Sampling.model_fields, n=1)
            hint = f"did you mean {nearest[0]}? " if nearest else ""
            told = f"there is no setting `{name}`"
            raise BadInput(f"--sampling: {told}", advice=f"{hint}known: {', '.join(Sampling.model_fields)}") from error
        raise BadInput(
            f"--sampling {name}={mistake['input']}: {mistake['msg'].lower()}", advice=_SAMPLING_ADVICE
        ) from error


def _depths(text: str | None) -> tuple[int, ...]:
    if not text:
        return ()
    try:
        depths = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise BadInput(
            f"--depths {text} is not understood", advice="write numbers with commas between: --depths 512,8192,32768"
        ) from None
    if len(depths) > MOST_DEPTHS or min(depths) < 1:
        raise BadInput(
            f"--depths {text}: up to {MOST_DEPTHS} depths above zero are measured",
            advice="each costs a cold prefill in every launch; for example 512,8192,32768",
        )
    return depths
