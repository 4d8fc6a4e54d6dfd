"""SGLang's search space, against the help text of a real build, the fake server's parser and SGLang's own."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.fake_engine import sglang_settings
from tests.real_sglang.installed import ENVIRONMENT, PLACE
from tests.search.spaces import ROOT, SHIPPED, reasons, shipped
from tuner.domain.configuration import Configuration, Value
from tuner.domain.space import SearchSpace
from tuner.engines.sglang.engine import Sglang
from tuner.engines.sglang.help_text import parse_help
from tuner.search.space import complete, random_values, violations
from tuner.search.space_file import ChoiceTable, read_space_file

FILE = read_space_file(SHIPPED / "sglang.toml")
HELP = parse_help((ROOT / "tests" / "engines" / "sglang" / "help_0.5.23.txt").read_text())
FAKE_HELP = parse_help(sglang_settings.HELP_FILE.read_text())
HYBRID: dict[str, Value] = {"model_recurrent": True, "engine_has_rocm": True, "study_draft_model": True}
OLDER_NAMES = {"disable_cuda_graph", "cuda_graph_max_bs"}
PLAIN = {"model_recurrent": False}


def space(gpus: int, told: dict[str, Value] | None = None, *, mtp: bool = True, fake: bool = False) -> SearchSpace:
    return shipped(FAKE_HELP if fake else HELP, gpus, engine="sglang", mtp=mtp, told=told or {})


def sample(of: SearchSpace, seed: int, count: int) -> list[Configuration]:
    """Configurations that keep the rules."""
    rng = np.random.default_rng(seed)
    drawn = (complete(of, random_values(of, rng)) for _ in range(50 * count))
    return [configuration for configuration in drawn if not violations(of, configuration)][:count]


def arguments(of: SearchSpace, configuration: Configuration) -> list[str]:
    command = Sglang().command(of, configuration, binary="/e/python", model="/m", fixed=(), env={})
    return list(command.argv[3:])


SPACES = [space(gpus, told, mtp=mtp) for gpus in (0, 1, 2, 8) for told in (PLAIN, HYBRID) for mtp in (False, True)]


def test_every_parameter_and_every_seed_teaches_something() -> None:
    for name, table in FILE.parameters.items():
        assert re.fullmatch(r"[A-Z0-9`].{20,150}[.]", table.about), name
        choices = [c.value if isinstance(c, ChoiceTable) else c for c in table.choices or ()]
        assert not choices or table.default in choices, name
    assert all(len(why) > 20 for why in [*(r.because for r in FILE.rules), *(s.because for s in FILE.seeds)])


@pytest.mark.parametrize("of", SPACES, ids=range(len(SPACES)))
def test_it_resolves_everywhere_and_nothing_vanishes_without_a_word(of: SearchSpace) -> None:
    assert all(parameter.contains(parameter.default) for parameter in of.parameters)
    assert of.with_role("context") is not None
    assert violations(of, complete(of, {})) == []
    for seed in of.seeds:
        assert violations(of, complete(of, seed.values)) == [], seed.name
    told = {dropped.name for dropped in of.dropped}
    assert set(FILE.parameters) - set(of.by_name) <= told


def test_what_builds_have_renamed_is_left_out_by_name() -> None:
    whole = shipped(HELP, 2, engine="sglang", mtp=True, told=HYBRID, models=("/m", "/n"), binaries=("/e", "/f"))
    foreign = {name for name, why in reasons(whole).items() if "engine build" in why}
    assert foreign == OLDER_NAMES
    assert "--cuda-graph-backend" in reasons(whole)["disable_cuda_graph"]
    assert "--cuda-graph-max-bs-decode" in reasons(whole)["cuda_graph_max_bs"]


def test_the_machine_and_the_model_decide_what_is_tuned() -> None:
    assert not {"mem_fraction_static", "attention_backend", "tp_size"} & set(space(0).by_name)
    assert {"mem_fraction_static", "kv_cache_dtype"} <= set(space(1).by_name)
    assert space(2).by_name["tp_size"].choices == (1, 2)
    assert "max_mamba_cache_size" not in space(1).by_name
    assert {"max_mamba_cache_size", "hsa_override_gfx_version"} <= set(space(1, HYBRID).by_name)
    assert "NEXTN" not in (space(1, mtp=False).by_name["speculative_algorithm"].choices or ())


def test_a_chain_of_drafts_names_its_number_and_a_tree_its_own() -> None:
    of = space(1)
    chain = complete(of, {"speculative_algorithm": "NEXTN", "speculative_num_steps": 4})
    words = arguments(of, chain)
    assert words[words.index("--speculative-num-draft-tokens") + 1] == "5"
    tree = complete(of, {"speculative_algorithm": "NEXTN", "speculative_eagle_topk": 4, "page_size": 1})
    words = arguments(of, tree)
    assert words[words.index("--speculative-num-draft-tokens") + 1] == "8"
    none = arguments(of, complete(of, {}))
    assert not [word for word in none if word.startswith("--speculative")]


@pytest.mark.parametrize("of", SPACES, ids=range(len(SPACES)))
def test_every_configuration_is_made_of_whole_names_that_the_help_text_knows(of: SearchSpace) -> None:
    for configuration in sample(of, 1, 40):
        words = arguments(of, configuration)
        named = [word for word in words if word.startswith("--")]
        assert len(named) == len(set(named))
        assert [word for word in named if not HELP.knows(word)] == []
        for parameter in of.parameters:
            entry = HELP.find(parameter.flag or "")
            value = configuration.values.get(parameter.name)
            if entry is not None and entry.allowed and value not in (None, "unset"):
                assert str(value) in entry.allowed, parameter.name


def test_the_fake_server_accepts_every_configuration() -> None:
    for gpus in (1, 2):
        of = space(gpus, HYBRID, fake=True)
        for configuration in sample(of, gpus, 60):
            assert sglang_settings.parse(arguments(of, configuration))


def interpreter() -> Path:
    """One that has SGLang: this one, or that of the set-up for tests."""
    found = importlib.util.find_spec("sglang")
    if found is not None and found.origin is not None:  # a folder of tests has that name too, and is no package
        return Path(sys.executable)
    if (PLACE / "bin" / "python").exists():
        return PLACE / "bin" / "python"
    pytest.skip("SGLang is not importable, and none is set up for tests")


def refused(commands: Sequence[Sequence[str]]) -> list[tuple[list[str], str]]:
    script = ROOT / "tests" / "real_sglang" / "accepts.py"
    done = subprocess.run(
        [interpreter(), script], input=json.dumps(commands), env={**os.environ, **ENVIRONMENT}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    line = next(line for line in done.stdout.splitlines() if line.startswith("REFUSED "))
    return [(list(words), why) for words, why in json.loads(line.removeprefix("REFUSED "))]


def test_sglangs_own_parser_accepts_every_command_of_the_space() -> None:
    commands = [arguments(of, one) for seed, of in enumerate(SPACES) for one in sample(of, seed, 40)]
    for of in SPACES:
        for parameter in of.parameters:
            values = parameter.choices or (parameter.low, parameter.high)
            flag = parameter.flag
            if parameter.target == "flag" and flag:
                commands += [["--model-path", "/m", flag, f"{value}"] for value in values if value != "unset"]
    wrong = [["--model-path", "/m", "--no-such-flag"], ["--model-path", "/m", "--kv-cache-dtype", "q8_0"]]
    assert [words for words, _ in refused([*commands, *wrong])] == wrong, "and nothing but these"
