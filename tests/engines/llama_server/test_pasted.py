"""Understanding the commands that people run today, with the real help texts of two builds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.domain.errors import BadInput, UnknownFlag
from tuner.domain.facts import FlagCatalogue
from tuner.engines.command_words import split_command
from tuner.engines.llama_server.engine import LlamaServer
from tuner.engines.llama_server.help_text import parse_help

HELP = {build: (Path(__file__).parent / f"help_{build}.txt").read_text() for build in ("b10068", "b10434")}
SEARCHABLE: dict[str, tuple[str | None, str | None]] = {
    "ctx_size": ("--ctx-size", None),
    "flash_attn": ("--flash-attn", None),
    "kv_unified": ("--kv-unified", "--no-kv-unified"),
    "n_gpu_layers": ("--n-gpu-layers", None),
    "spec_draft_n_max": ("--spec-draft-n-max", None),
    "spec_draft_p_min": ("--spec-draft-p-min", None),
    "tensor_split": ("--tensor-split", None),
    "threads": ("--threads", None),
}


@pytest.fixture(params=sorted(HELP))
def flags(request: pytest.FixtureRequest) -> FlagCatalogue:
    return parse_help(HELP[request.param])


@pytest.mark.parametrize(
    ("words", "present"),
    [
        (["-c", "32768"], {"ctx_size": 32768}),
        (["--ctx-size=32768"], {"ctx_size": 32768}),
        (["--ctx_size", "32768"], {"ctx_size": 32768}),
        (["-ngl", "999"], {"n_gpu_layers": 999}),
        (["--gpu-layers", "all"], {"n_gpu_layers": "all"}),
        (["-ts", "40,60"], {"tensor_split": "40,60"}),
        (["-kvu"], {"kv_unified": True}),
        (["-no-kvu"], {"kv_unified": False}),
        (["--draft-max", "4"], {"spec_draft_n_max": 4}),
        (["--draft-p-min", "0.5"], {"spec_draft_p_min": 0.5}),
        (["-fa"], {"flash_attn": "on"}),
        (["-fa", "off"], {"flash_attn": "off"}),
        (["-c", "0"], {}),
        (["-t", "-1"], {}),
    ],
)
def test_a_flag_in_any_spelling_becomes_its_parameter(
    words: list[str], present: dict[str, object], flags: FlagCatalogue
) -> None:
    understood = LlamaServer().understand(words, flags, SEARCHABLE)
    assert understood.present == present
    assert understood.kept == ()


def test_what_no_parameter_stands_for_is_kept_as_it_was_written(flags: FlagCatalogue) -> None:
    words = ["-m", "a b.gguf", "--jinja", "-nkvo", "-c", "4096", "--temp", "0.7", "--api-key", "x", "--no-mmap"]
    understood = LlamaServer().understand(words, flags, SEARCHABLE)
    assert understood.kept == ("--jinja", "-nkvo", "--temp", "0.7", "--api-key", "x", "--no-mmap")
    assert understood.arguments == (*understood.kept[:2], "-c", "4096", *understood.kept[2:])
    assert understood.model == "a b.gguf"


def test_what_was_renamed_is_told(flags: FlagCatalogue) -> None:
    understood = LlamaServer().understand(["--draft-max", "4"], flags, SEARCHABLE)
    assert understood.arguments == ("--spec-draft-n-max", "4")
    assert "--spec-draft-n-max" in understood.notes[0]


@pytest.mark.parametrize(
    ("words", "nearest"), [(["--flash-atn", "on"], "--flash-attn"), (["--ctx-sizes", "1"], "--ctx-size")]
)
def test_an_unknown_flag_is_named_with_the_nearest(words: list[str], nearest: str, flags: FlagCatalogue) -> None:
    with pytest.raises(UnknownFlag) as caught:
        LlamaServer().understand(words, flags, SEARCHABLE)
    assert words[0] in str(caught.value)
    assert nearest in str(caught.value)


@pytest.mark.parametrize("words", [["-c"], ["stray"], ["-c", "1", "stray"], ["--hf-repo", "a/b"]])
def test_what_cannot_be_understood_is_a_mistake_of_the_user(words: list[str], flags: FlagCatalogue) -> None:
    with pytest.raises(BadInput):
        LlamaServer().understand(words, flags, SEARCHABLE)


@pytest.mark.parametrize(
    ("words", "env", "command"),
    [
        (["llama-server", "-c", "1"], {}, ["llama-server", "-c", "1"]),
        (["A=1", "B=x y", "llama-server"], {"A": "1", "B": "x y"}, ["llama-server"]),
        (["env", "A=1", "llama-server"], {"A": "1"}, ["llama-server"]),
        (["A=1 llama-server -m 'a b.gguf'"], {"A": "1"}, ["llama-server", "-m", "a b.gguf"]),
        (["llama-server", "\\", "-c", "1"], {}, ["llama-server", "-c", "1"]),
        ([], {}, []),
    ],
)
def test_environment_and_quotes_in_front(words: list[str], env: dict[str, str], command: list[str]) -> None:
    assert split_command(words) == (env, command)


def test_unbalanced_quotes_are_told() -> None:
    with pytest.raises(BadInput, match="quotes"):
        split_command(["llama-server -m 'a b.gguf"])
