"""The SGLang adapter: what an installation is, how its server is started, and what it really runs with."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from tuner.domain.command import LaunchCommand
from tuner.domain.configuration import Configuration, Value
from tuner.domain.errors import BadInput, EngineNotFound
from tuner.domain.facts import EngineFacts, FlagCatalogue, ModelFacts
from tuner.domain.measurement import ActualSettings
from tuner.domain.memory import MemoryProjection
from tuner.domain.pasted import UnderstoodCommand
from tuner.domain.space import SearchSpace
from tuner.domain.verdict import Explanation
from tuner.engines.arguments import arguments, chosen, environment
from tuner.engines.command_words import Spelling, listening, parameter_of, parse_arguments, split_command, value_of
from tuner.engines.sglang.client import SglangClient
from tuner.engines.sglang.exits import explain_exit
from tuner.engines.sglang.help_text import parse_help
from tuner.engines.sglang.log_facts import observations
from tuner.engines.sglang.model_folder import find_model, read_model
from tuner.engines.sglang.program import (
    HIDDEN,
    HOW_TO_GET,
    help_text,
    is_interpreter,
    launch_words,
    version_and_devices,
    without_launch_words,
)
from tuner.engines.sglang.settings import actual_settings

SPELLING = Spelling(
    program="SGLang",
    renamed={
        "--tp": "--tp-size",
        "--cuda-graph-max-bs": "--cuda-graph-max-bs-decode",
        "--cuda-graph-bs": "--cuda-graph-bs-decode",
        "--speculative-draft": "--speculative-draft-model-path",
        "--speculative-draft-model": "--speculative-draft-model-path",
    },
    abbreviated=True,
)

_LISTEN = {"--host": "127.0.0.1", "--port": "30000"}
"""What an exported command listens on, unless the user's own says otherwise."""

_REPLACED = ("--host", "--port", "--served-model-name", "--api-key", "--admin-api-key", "--ssl-keyfile",
             "--ssl-certfile", "--log-level", "--log-level-http", "--log-requests", "--log-requests-level",
             "--enable-metrics", "--fastapi-root-path")  # fmt: skip
"""Flags of a command that a measurement replaces or leaves out: they concern access and logs, not speed."""

_PLACING = ("--base-gpu-id", "--gpu-id-step")
_ELSEWHERE = ("--config", "--nnodes", "--node-rank", "--dist-init-addr")
"""Flags that a study cannot hold: settings in another file, servers on several machines."""
_DRAFTING = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE")


class Sglang:
    """What the tuner needs to know of SGLang. Holds no process and no connection."""

    name = "sglang"
    program = "sglang"
    model_flags: tuple[str, ...] = ("--model-path", "--model")
    first_start_s = 900.0
    """Kernels that are compiled at the first use take minutes; later starts find them."""
    context_is_reserved = False
    """Other flags say how much the pool holds."""

    def find_binary(self) -> Path:
        """The `sglang` command on PATH.

        Raises:
            EngineNotFound: there is none; says how to get one.
        """
        on_path = shutil.which("sglang")
        if on_path is None:
            raise EngineNotFound("No `sglang` was found on PATH", advice=HOW_TO_GET)
        return Path(on_path)

    def claims(self, words: Sequence[str], model: Path | None) -> bool:
        """Whether a command starts SGLang's server, or a model is a folder in Hugging Face's layout.

        A Python interpreter alone, as `--python` names it, is one too: no other engine is started that way.
        """
        try:
            _, command = split_command(words)
        except BadInput:
            return False
        if not command:
            return model is not None and (model / "config.json").is_file()
        is_command = "sglang.launch_server" in command or Path(command[0]).name == "sglang"
        return is_command or (len(command) == 1 and is_interpreter(command[0]))

    def inspect(self, binary: Path, *, arguments: Sequence[str], env: Mapping[str, str]) -> EngineFacts:  # noqa: ARG002
        """What the installation says of itself. Takes ten seconds the first time; loads no model.

        Raises:
            EngineNotFound: it is not there, does not run, or has no SGLang.
        """
        program = str(binary)
        flags = parse_help(help_text(program, env))
        if not flags.knows("--mem-fraction-static"):
            raise EngineNotFound(
                f"{binary} does not look like SGLang: its --help has no --mem-fraction-static", advice=HOW_TO_GET
            )
        version, devices = version_and_devices(program, env)
        return EngineFacts(engine=self.name, binary=program, version=version, flags=flags, devices=devices)

    def find_model(self, named: str) -> Path:
        """See `tuner.engines.sglang.model_folder.find_model`."""
        return find_model(named)

    def read_model(self, path: Path) -> ModelFacts:
        """See `tuner.engines.sglang.model_folder.read_model`."""
        return read_model(path)

    def split_command(self, words: Sequence[str]) -> tuple[dict[str, str], str | None, tuple[str, ...]]:
        """Environment, program and arguments of a command that a user pasted; without what starts the server.

        Raises:
            BadInput: the program is neither a Python interpreter nor the `sglang` command.
        """
        env, command = split_command(words)
        if not command or command[0].startswith("-"):
            return env, None, tuple(command)
        rest = without_launch_words(command[1:])
        if len(rest) == len(command) - 1:
            raise BadInput(
                f"The command starts {command[0]}, and SGLang's server only by way of it",
                advice="paste `python -m sglang.launch_server ...` or `sglang serve ...`, with its whole path",
            )
        if rest and not rest[0].startswith("-"):  # `sglang serve MODEL`
            rest = ("--model-path", *rest)
        return env, command[0], rest

    def understand(
        self, words: Sequence[str], flags: FlagCatalogue, searchable: Mapping[str, tuple[str | None, str | None]]
    ) -> UnderstoodCommand:
        """What a user's arguments mean. `searchable` maps each parameter to its flag and its off flag.

        Raises:
            UnknownFlag, BadInput: as `tuner.engines.command_words.parse_arguments`.
        """
        found, notes = parse_arguments(without_launch_words(words), flags, SPELLING)
        present: dict[str, Value] = {}
        kept: list[str] = []
        tokens: list[str] = []
        model: str | None = None
        for argument in found:
            if argument.is_one_of("--model-path"):
                model = argument.value
                continue
            if argument.is_one_of(*_ELSEWHERE):
                raise BadInput(
                    f"{argument.flag} cannot be part of a study", advice="name the settings themselves, for one machine"
                )
            if argument.entry.deprecated is not None:
                notes.append(f"{argument.flag} is deprecated in this build: {argument.entry.deprecated}")
            tokens += argument.tokens
            name = parameter_of(argument, searchable)
            if name is None:
                kept += argument.tokens
            else:
                present[name] = value_of(argument)
        return UnderstoodCommand(
            present=present,
            arguments=tuple(tokens),
            kept=tuple(kept),
            flags=frozenset(name for argument in found for name in (*argument.entry.names, *argument.entry.negations)),
            model=model,
            draft_model=any(argument.is_one_of("--speculative-draft-model-path") for argument in found),
            notes=tuple(notes),
        )

    def names_devices(self, words: Sequence[str]) -> bool:
        """Whether arguments tell devices by their place."""
        return any(word.split("=", 1)[0] in _PLACING for word in words)

    def command(
        self,
        space: SearchSpace,
        configuration: Configuration,
        *,
        binary: str,
        model: str,
        fixed: Sequence[str],
        env: Mapping[str, str],
    ) -> LaunchCommand:
        """The command of a trial: everything that is searched and not left to the engine is named explicitly."""
        has_model = chosen(space, configuration, "model") is not None
        program = chosen(space, configuration, "binary") or binary
        argv = [program, *launch_words(program), *([] if has_model else ["--model-path", model])]
        argv += [*fixed, *_whole_speculation(arguments(space, configuration))]
        return LaunchCommand(argv=listening(argv, _LISTEN), env={**env, **environment(space, configuration)})

    def baseline_command(
        self, *, binary: str, model: str, arguments: Sequence[str], env: Mapping[str, str]
    ) -> LaunchCommand:
        """What the user has today: their own arguments, and what the engine chooses itself."""
        argv = [binary, *launch_words(binary), "--model-path", model, *arguments]
        return LaunchCommand(argv=listening(argv, _LISTEN), env=dict(env))

    def for_measurement(self, command: LaunchCommand, facts: EngineFacts, *, port: int, alias: str) -> LaunchCommand:
        """The command as a trial starts it: own port and name, and with the latencies that its answers then carry."""
        start = launch_words(command.argv[0])
        found, _ = parse_arguments(command.argv[1 + len(start) :], facts.flags, SPELLING)
        argv = [command.argv[0], *start]
        for argument in found:
            argv += [] if argument.is_one_of(*_REPLACED) else argument.tokens
        argv += ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", alias]
        if facts.flags.knows("--enable-metrics"):
            argv.append("--enable-metrics")
        # Nothing is looked up on the Hub, and what is written is in the log at once.
        quiet = {"HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
        return LaunchCommand(argv=tuple(argv), env={**quiet, **command.env})

    def dry_run(self, command: LaunchCommand, facts: EngineFacts, *, port: int, alias: str) -> LaunchCommand | None:
        """None: SGLang cannot say what a launch would need without loading the model."""

    def projection(self, log_text: str) -> MemoryProjection | None:
        """None, as there is no dry run."""

    def clean_environment(self, inherited: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
        """The environment without what leads the target's interpreter to other libraries, and the names of that."""
        hidden = [name for name in HIDDEN if name in inherited]
        return {name: value for name, value in inherited.items() if name not in hidden}, hidden

    def warnings(self, inherited: Mapping[str, str]) -> list[str]:
        """Variables that change what SGLang does, and that the printed command would not carry."""
        names = sorted(name for name in inherited if name.startswith(("SGLANG_", "SGL_", "HSA_OVERRIDE")))
        return [
            f"{name} is set in this shell and so in every launch; the printed command relies on it" for name in names
        ]

    def client(self, port: int) -> SglangClient:
        """A client for the server on a local port."""
        return SglangClient(f"http://127.0.0.1:{port}")

    def explain_exit(self, log_text: str, returncode: int | None) -> Explanation:
        """See `tuner.engines.sglang.exits.explain_exit`."""
        return explain_exit(log_text, returncode)

    def actual_settings(self, client: SglangClient, log_text: str) -> ActualSettings:
        """See `tuner.engines.sglang.settings.actual_settings`."""
        return actual_settings(client.server_info(), client.context_length(), log_text)

    def degradations(
        self,
        space: SearchSpace,
        configuration: Configuration,
        actual: ActualSettings,
        log_text: str,  # noqa: ARG002 - what the engine changes it tells at its routes
    ) -> list[str]:
        """In what a ready server differs from what it was asked for, in words.

        A pool that holds less than the context is no such thing: that is what the other flags came to.
        """
        asked = {space.by_name[name].flag: value for name, value in configuration.values.items()}
        reasons: list[str] = []
        wants_drafts = asked.get("--speculative-algorithm") in (*_DRAFTING, "NGRAM", "DFLASH")
        if wants_drafts and actual.speculation is False:
            reasons.append("asked for speculation, runs without")
        cache, kind = asked.get("--kv-cache-dtype"), actual.kv_types or ""
        if isinstance(cache, str) and cache.startswith("fp8") and kind and not _is_float8(kind, cache):
            reasons.append(f"asked for a KV cache of {cache}, runs with {kind}")
        slots = asked.get("--max-running-requests")
        if isinstance(slots, int) and actual.slots is not None and actual.slots < slots:
            reasons.append(f"asked for {slots} requests at once, runs with {actual.slots}")
        return reasons

    def bus_ids(self, log_text: str) -> dict[str, str]:  # noqa: ARG002 - the log does not tell
        """Nothing: SGLang does not tell where its cards sit."""
        return {}

    def observations(self, log_text: str) -> list[str]:
        """See `tuner.engines.sglang.log_facts.observations`."""
        return observations(log_text)


def _whole_speculation(argv: list[str]) -> list[str]:
    """The arguments with the number of draft tokens that a chain of drafts has: one more than its steps.

    SGLang wants steps, breadth and number together or none of them, and with a breadth of one corrects the number.
    """
    steps, breadth, number = "--speculative-num-steps", "--speculative-eagle-topk", "--speculative-num-draft-tokens"
    if steps not in argv or breadth not in argv or number in argv:
        return argv
    place = argv.index(breadth) + 2
    return [*argv[:place], number, str(int(argv[argv.index(steps) + 1]) + 1), *argv[place:]]


def _is_float8(kind: str, cache: str) -> bool:
    return cache in kind or "float8" in kind or "uint8" in kind
