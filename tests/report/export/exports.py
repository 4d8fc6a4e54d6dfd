"""Recommendations to export, and how each target reads what was written: programs where there are some, else models.

The models follow the targets' own documentation: cmd.exe with Microsoft's C runtime behind it, PowerShell's quoting
rules, systemd.syntax and llama-swap's word splitting. They know nothing of how the exports quote.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from tests.builders import engine_facts, frozen, measurement, profile, record
from tuner.domain.command import LaunchCommand
from tuner.domain.facts import Device, FlagCatalogue, FlagEntry
from tuner.domain.record import TrialRecord
from tuner.report.export.exported import Exported
from tuner.report.recommendation import recommend

NVIDIA_CAP = "nvidia-smi -i GPU-1 -pl 250"
SYSFS_CAP = "sh -c 'echo 250000000 | tee /sys/bus/pci/devices/0000:03:00.0/hwmon/hwmon*/power1_cap'"

NASTY = (
    "a b", "it's", 'say "hi"', "50%", "%PATH%", "$HOME", "${X}", "`id`", "a\\b", "c:\\dir\\", "x;y#z", "a&b|c", "^!<>",
    "(a)", "~", "*",
    "{\"k\":[1,\"a b\\\\\"]}", "‘typographic’", "ä 模型", "=", "-", "--flag=a b", "%n", ":x", "@y", "!z",
)  # fmt: skip
"""Words that some shell takes for something else."""

CUDA = (Device(name="CUDA0", description="NVIDIA GeForce RTX 3090", total_mib=24576),)
FLAGS = FlagCatalogue(
    entries=(
        FlagEntry(names=("-m", "--model"), takes_value=True),
        FlagEntry(names=("--host",), takes_value=True),
        FlagEntry(names=("--port",), takes_value=True),
        FlagEntry(names=("-c", "--ctx-size"), takes_value=True),
        FlagEntry(names=("--jinja",), negations=("--no-jinja",)),
        FlagEntry(names=("--mlock",)),
        FlagEntry(names=("-ot", "--override-tensor"), takes_value=True),
    )
)


def exported(
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    *,
    caps: Sequence[str] = (),
    system: str = "Linux x86_64",
    version: str = "10068 (abc)",
) -> Exported:
    """A measured gain whose command is `argv`."""
    facts = engine_facts(binary=argv[0], version=version, flags=FLAGS)
    study = frozen([profile("coder")], engines=(facts,))
    study = study.model_copy(update={"machine": study.machine.model_copy(update={"system": system})})
    command = LaunchCommand(argv=tuple(argv), env=dict(env or {}))
    best = record(1, {"chunk": 512}, measurement(1500.0, 60.0)).model_copy(
        update={"command": command, "cap_commands": tuple(caps)}
    )
    base: TrialRecord = record(0, {}, measurement(), note="baseline")
    (found,) = recommend(study, [base, best], [])
    return Exported.of("my study", study, found)


def cmd_exe(text: str, env: dict[str, str]) -> list[str]:
    """What the program in a batch file gets, and in `env` what was set before."""
    joined, carried = [], ""
    for line in text.split("\r\n"):
        line = carried + line
        # A caret at the end takes the line break away, and the next line's first character for what it is.
        carried = ""
        if line.endswith("^") and not line.endswith("^^"):
            carried = line[:-1]
            continue
        joined.append(line)
    argv: list[str] = []
    for line in joined:
        line = _percents(line)
        if not line or line.startswith(("@echo", "setlocal", "chcp", "rem ")):
            continue
        words = _without_carets(line)
        if words.startswith("set "):
            assignment = words[4:]
            assert assignment.startswith('"')
            name, value = assignment[1 : assignment.rindex('"')].split("=", 1)
            env[name] = value
        elif not words.startswith("nvidia-smi"):
            argv = c_runtime(words)
    return argv


def _percents(line: str) -> str:
    """Phase one: `%%` is a percent sign, `%*` what the file was called with (nothing), anything else a variable."""
    read, place = "", 0
    while place < len(line):
        if line[place] != "%":
            read, place = read + line[place], place + 1
        elif line[place : place + 2] == "%%":
            read, place = read + "%", place + 2
        else:
            assert line[place : place + 2] == "%*", f"a variable would be put in: {line}"
            place += 2
    return read


def _without_carets(line: str) -> str:
    """Phase two: quotes switch quoting on and off, a caret outside of them hides what follows."""
    read, quoting, place = "", False, 0
    while place < len(line):
        letter = line[place]
        if letter == "^" and not quoting:
            place += 1
            read += line[place]
        else:
            assert quoting or letter not in "&|<>()" or line.startswith("nvidia-smi"), f"bare {letter} in {line}"
            quoting = quoting != (letter == '"')
            read += letter
        place += 1
    return read


def c_runtime(line: str) -> list[str]:
    """Microsoft's `Parsing C command-line arguments`."""
    words, word, started, quoting, place = [], "", False, False, 0
    while place < len(line):
        slashes = len(line[place:]) - len(line[place:].lstrip("\\"))
        after = line[place + slashes : place + slashes + 1]
        if slashes:
            started = True
            if after == '"':
                word += "\\" * (slashes // 2)
                if slashes % 2:
                    word += '"'
                    slashes += 1
            else:
                word += "\\" * slashes
            place += slashes
            continue
        if after == '"':
            quoting, started = not quoting, True
        elif after in " \t" and not quoting:
            if started:
                words.append(word)
            word, started = "", False
        else:
            word, started = word + after, True
        place += 1
    return [*words, word] if started else words


def power_shell(text: str) -> tuple[list[str], dict[str, str]]:
    """The program with its arguments, and the variables: every text in a script of ours is in single quotes."""
    text = text.removeprefix("\ufeff")
    env = {}
    for line in text.split("\r\n"):
        if found := re.fullmatch(r"\$\{env:(\w+)\} = (.*)", line):
            (env[found[1]],) = _single_quoted(found[2])
    block = text.split("$arguments = @(\r\n")[1].split("\r\n)\r\n")[0]
    last = text.rstrip("\r\n").split("\r\n")[-1]
    (program,) = _single_quoted(last.removeprefix("& ").removesuffix(" @arguments @args"))
    return [program, *_single_quoted(block)], env


def _single_quoted(text: str) -> list[str]:
    """A list of single-quoted texts; any of five characters is such a quote, and doubled it is itself."""
    quotes, words, place = "'‘’‚‛", [], 0
    while place < len(text):
        if text[place] not in quotes:
            assert text[place] in " ,\r\n", f"{text[place]!r} stands outside of quotes"
            place += 1
            continue
        word, place = "", place + 1
        while not (text[place] in quotes and text[place + 1 : place + 2] not in tuple(quotes)):
            word += text[place]
            place += 2 if text[place] in quotes else 1
        words.append(word)
        place += 1
    return words


def systemd_words(text: str) -> list[str]:
    """systemd.syntax: quotes, C escapes, then specifiers. A colon in front leaves dollar signs alone."""
    words, place = [], 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        assert text[place] == '"'
        word, place = "", place + 1
        while text[place] != '"':
            if text[place] == "\\":
                kind = text[place + 1]
                if kind == "x":
                    word, place = word + chr(int(text[place + 2 : place + 4], 16)), place + 4
                    continue
                word, place = word + kind, place + 2
            else:
                word, place = word + text[place], place + 1
        place += 1
        assert not re.search(r"(?<!%)(%%)*%(?!%)", word), f"a specifier would be put in: {word}"
        words.append(word.replace("%%", "%"))
    return words


def llama_swap_words(cmd: str, port: str) -> list[str]:
    """Macros first, then comments, then POSIX words."""
    macros = re.findall(r"\$\{([^}]*)\}", cmd)
    assert set(macros) <= {"PORT"}, "llama-swap knows no such macro"
    lines = [line for line in cmd.replace("${PORT}", port).split("\n") if not line.strip().startswith("#")]
    assert not any(line.strip().endswith("\\") for line in lines)
    return shlex.split("\n".join(lines))
