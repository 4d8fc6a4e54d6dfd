"""The command line of the fake server, read from its own help text: what the help lists is what it accepts.

Errors follow llama-server's `common/arg.cpp`, as seen in release builds: one line on stderr, the usage of the
argument at fault, exit code 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

HELP_FILE = Path(__file__).with_name("llama_server_help.txt")
FLOAT_NAMES = {
    "temp", "top_p", "min_p", "repeat_penalty", "presence_penalty", "rope_scale", "spec_draft_p_split",
    "spec_draft_p_min", "slot_prompt_similarity",
}  # fmt: skip
TRUE_WORDS = {"1", "on", "true", "enabled"}
LAYER_WORDS = {"auto", "all"}


class ArgumentError(Exception):
    """A command line that is refused. The message is what goes to stderr."""


@dataclass
class Entry:
    """One entry of the help text."""

    names: list[str]
    hint: str
    body: list[str] = field(default_factory=list)
    source: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        """The first long spelling, with underscores: `ctx_size`."""
        return next(name for name in self.names if name.startswith("--"))[2:].replace("-", "_")

    @property
    def negative(self) -> set[str]:
        """Spellings that switch off: `--no-mmap`, `-no-kvu`, `-nkvo`."""
        if self.hint:
            return set()
        long = next((i for i, name in enumerate(self.names) if name.startswith("--no-")), None)
        if long is None:
            return set()
        short_before = long > 0 and self.names[long - 1].startswith("-n") and long > 1
        return set(self.names[long - 1 if short_before else long :])

    @property
    def env(self) -> str | None:
        match = re.search(r"\(env: (\w+)\)", " ".join(self.body))
        return match[1] if match else None

    @property
    def removed(self) -> str | None:
        text = " ".join(line for line in self.body if not line.startswith("(env:"))
        return text if "the argument has been removed" in text else None

    @property
    def choices(self) -> list[str] | None:
        listed = re.search(r"allowed values: ([\w, ]+?) \(", " ".join(self.body))
        if listed:
            return listed[1].split(", ")
        if self.hint.startswith(("{", "[on")):
            return re.split(r"[,|]", self.hint[1:-1])
        return None


def read_help(text: str) -> list[Entry]:
    """Every entry of a help text in llama-server's layout."""
    entries: list[Entry] = []
    for line in text.splitlines():
        if line.startswith("-") and not line.startswith("-----"):
            head, _, first = line.partition("  ") if len(line) < 40 else (line[:40], "", line[40:])
            if line.startswith("-") and len(line) >= 40 and line[39] != " ":
                head, first = line, ""
            words = re.sub(r",\s+", ",\0", head.strip()).split("\0")
            last, _, hint = words[-1].partition(" ")
            entries.append(Entry([w.rstrip(",") for w in words[:-1]] + [last], hint.strip(), source=[line]))
            if first.strip():
                entries[-1].body.append(first.strip())
        elif line.startswith(" ") and entries:
            entries[-1].body.append(line.strip())
            entries[-1].source.append(line)
    return entries


def _checked(entry: Entry, text: str, devices: list[str]) -> object:
    """The value of `entry`, or ValueError with llama-server's wording."""
    key = entry.key
    if entry.choices is not None and text not in entry.choices:
        if "cache type" in " ".join(entry.body).lower() or entry.hint == "TYPE":
            raise ValueError(f"Unsupported cache type: {text}")
        if entry.hint.startswith("[on"):
            raise ValueError(f"error: unknown value for --{key.replace('_', '-')}: '{text}'\n")
        raise ValueError("invalid value")
    if key == "spec_type":
        for kind in text.split(","):
            if kind not in entry.hint.split(","):
                raise ValueError(f"unknown speculative type: {kind}")
    elif key in ("device", "spec_draft_device"):
        for name in text.split(","):
            if name != "none" and name not in devices:
                raise ValueError(f"invalid device: {name}")
    elif key in ("tensor_split", "fit_target"):
        _number(float, text.split(","), "stof")
    elif key == "override_tensor":
        if "=" not in text:
            raise ValueError("invalid value")
    elif key in FLOAT_NAMES:
        return _number(float, [text], "stof")[0]
    elif key in ("gpu_layers", "spec_draft_ngl") and text in LAYER_WORDS:
        return text
    elif entry.hint in ("N", "PORT", "INDEX", "SEED", "<0|1>", "<0...100>"):
        value = _number(int, [text], "stoi")[0]
        if key == "parallel" and value == 0:
            raise ValueError("error: invalid value for n_parallel\n")
        return value
    return text


def _number(kind: Callable[[str], float], texts: list[str], name: str) -> list[float]:
    try:
        return [kind(text) for text in texts]
    except ValueError:
        raise ValueError(name) from None  # what the C++ conversion function says, and no more


def parse(
    argv: list[str], environ: Mapping[str, str], devices: list[str], warn: Callable[[str], None]
) -> dict[str, object]:
    """Values by key; only what was given, on the command line or as LLAMA_ARG_* (the command line wins).

    Raises ArgumentError. Deprecations and overwritten variables go to `warn`.
    """
    entries = read_help(HELP_FILE.read_text())
    by_name = {name: entry for entry in entries for name in entry.names}
    values: dict[str, object] = {}
    for entry in entries:
        if entry.env and entry.env in environ and not entry.removed:
            text = environ[entry.env]
            try:
                values[entry.key] = _checked(entry, text, devices) if entry.hint else text.lower() in TRUE_WORDS
            except ValueError as problem:
                raise ArgumentError(f'error while handling environment variable "{entry.env}": {problem}\n\n') from None
    from_environment = set(values)
    given: set[str] = set()
    rest = list(argv)
    while rest:
        name = rest.pop(0)
        if name.startswith("--"):
            name = name.replace("_", "-")
        found = by_name.get(name)
        if found is None:
            raise ArgumentError(f"error: invalid argument: {name}")
        if found.key in given:
            warn(f"DEPRECATED: argument '{name}' specified multiple times, use comma-separated values instead "
                 "(only last value will be used)")  # fmt: skip
        if found.key in from_environment - given:
            warn(f"{found.env} environment variable is set, but will be overwritten by command line argument {name}")
        try:
            if found.removed:
                raise ValueError(found.removed)
            if found.hint and not rest:
                raise ValueError("expected value for argument")
            value = _checked(found, rest.pop(0), devices) if found.hint else name not in found.negative
        except ValueError as problem:
            usage = "\n".join(found.source)
            raise ArgumentError(
                f'error while handling argument "{name}": {problem}\n\nusage:\n{usage}\n\n\n'
                "to show complete usage, run with -h"
            ) from None
        if found.key == "spec_type" and "spec_type" in given:
            value = f"{values['spec_type']},{value}"  # this one appends, as the real flag does
        values[found.key] = value
        given.add(found.key)
    return values
