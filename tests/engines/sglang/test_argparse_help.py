"""Reading argparse's help: entries of a real build, and the layout of newer Pythons."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.domain.errors import BadInput, UnknownFlag
from tuner.domain.facts import FlagCatalogue
from tuner.engines.sglang.engine import Sglang
from tuner.engines.sglang.help_text import parse_help

HELP = (Path(__file__).parent / "help_0.5.23.txt").read_text()
SEARCHABLE: dict[str, tuple[str | None, str | None]] = {
    "share": ("--mem-fraction-static", None),
    "tp_size": ("--tp-size", None),
    "chunk": ("--chunked-prefill-size", None),
    "no_prefixes": ("--disable-radix-cache", None),
    "graphs": ("--cuda-graph-max-bs-decode", None),
}


@pytest.fixture(scope="module")
def flags() -> FlagCatalogue:
    return parse_help(HELP)


def test_names_values_and_choices_are_read(flags: FlagCatalogue) -> None:
    entry = flags.find("--tensor-parallel-size")
    assert entry is not None
    assert (entry.names, entry.takes_value) == (("--tp-size", "--tensor-parallel-size"), True)
    cache = flags.find("--kv-cache-dtype")
    assert cache is not None
    assert cache.allowed is not None
    assert {"auto", "fp8_e4m3", "fp8_e5m2"} <= set(cache.allowed)
    switch, pair, several = (
        flags.find(name) for name in ("--disable-radix-cache", "--enable-tf32-matmul", "--cuda-graph-bs-decode")
    )
    assert switch is not None
    assert pair is not None
    assert several is not None
    assert not switch.takes_value
    assert pair.negations == ("--no-enable-tf32-matmul",)
    assert several.several
    assert flags.find("-h") is flags.find("--help")


@pytest.mark.parametrize("name", ["--disable-cuda-graph", "--grpc-mode", "--enable-flashinfer-allreduce-fusion"])
def test_what_is_deprecated_is_told_with_its_successor(flags: FlagCatalogue, name: str) -> None:
    entry = flags.find(name)
    assert entry is not None
    assert entry.deprecated is not None
    assert "--" in entry.deprecated
    assert flags.knows(name), "it still works"


def test_a_hint_that_stands_once_is_read_as_well() -> None:
    text = "options:\n  --model-path, --model MODEL_PATH\n                        Weights.\n  --tp-size {1,2}\n"
    entry, size = parse_help(text).entries
    assert (entry.names, entry.takes_value) == (("--model-path", "--model"), True)
    assert size.allowed == ("1", "2")


@pytest.mark.parametrize(
    ("words", "present"),
    [
        (["--mem-fraction-static", "0.9"], {"share": 0.9}),
        (["--mem-fraction-static=0.9"], {"share": 0.9}),
        (["--mem-fraction", "0.9"], {"share": 0.9}),
        (["--tp", "2"], {"tp_size": 2}),
        (["--tensor-parallel-size", "2"], {"tp_size": 2}),
        (["--chunked-prefill-size", "-1"], {"chunk": -1}),
        (["--disable-radix-cache"], {"no_prefixes": True}),
        (["--cuda-graph-max-bs", "4"], {"graphs": 4}),
        (["-m", "sglang.launch_server", "--tp", "2"], {"tp_size": 2}),
        (["serve", "--tp", "2"], {"tp_size": 2}),
    ],
)
def test_a_flag_in_any_spelling_becomes_its_parameter(
    words: list[str], present: dict[str, object], flags: FlagCatalogue
) -> None:
    understood = Sglang().understand(words, flags, SEARCHABLE)
    assert understood.present == present
    assert understood.kept == ()
    # What is written is the whole name, as argparse's abbreviations change with every new flag.
    again = Sglang().understand(understood.arguments, flags, SEARCHABLE)
    assert again.present == present
    assert again.notes == ()


def test_several_values_stay_together(flags: FlagCatalogue) -> None:
    words = ["--cuda-graph-bs-decode", "1", "2", "4", "--trust-remote-code"]
    assert Sglang().understand(words, flags, SEARCHABLE).kept == tuple(words)


def test_what_stands_for_several_flags_and_what_is_unknown_are_refused(flags: FlagCatalogue) -> None:
    for word in ("--cuda-graph", "--enable-nothing"):
        with pytest.raises(UnknownFlag, match=word):
            Sglang().understand([word, "1"], flags, {})
    with pytest.raises(BadInput, match="--config"):
        Sglang().understand(["--config", "x.yaml"], flags, {})


def test_a_deprecated_flag_in_a_command_is_told(flags: FlagCatalogue) -> None:
    (note,) = Sglang().understand(["--disable-cuda-graph"], flags, {}).notes
    assert "deprecated" in note


@pytest.mark.parametrize(
    ("words", "program", "arguments"),
    [
        (
            ["/e/bin/python", "-m", "sglang.launch_server", "--model-path", "/m"],
            "/e/bin/python",
            ("--model-path", "/m"),
        ),
        (["sglang", "serve", "--model-path", "/m"], "sglang", ("--model-path", "/m")),
        (["sglang", "serve", "/m", "--tp", "2"], "sglang", ("--model-path", "/m", "--tp", "2")),
        (["CUDA_VISIBLE_DEVICES=1 python3 -m sglang.launch_server --model /m"], "python3", ("--model", "/m")),
    ],
)
def test_what_starts_the_server_is_no_argument_of_it(
    words: list[str], program: str, arguments: tuple[str, ...]
) -> None:
    found = Sglang().split_command(words)
    assert found[1:] == (program, arguments)
    assert Sglang().claims(words, None)


def test_a_command_that_starts_something_else_is_refused() -> None:
    with pytest.raises(BadInput, match="docker"):
        Sglang().split_command(["docker", "run", "lmsysorg/sglang"])
    assert not Sglang().claims(["llama-server", "-m", "x.gguf"], None)
    assert Sglang().claims(["/e/bin/python3.12"], None)
