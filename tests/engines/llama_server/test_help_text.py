"""The help text of two real builds is read in full, and each way of writing an entry is understood."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.domain.facts import FlagEntry
from tuner.engines.llama_server.help_text import parse_devices, parse_help, parse_version

HERE = Path(__file__).parent
BUILDS = ("b10068", "b10434")


def help_of(build: str) -> str:
    return (HERE / f"help_{build}.txt").read_text()


def entry(name: str, build: str = "b10434") -> FlagEntry:
    found = parse_help(help_of(build)).find(name)
    assert found is not None, name
    return found


@pytest.mark.parametrize("build", BUILDS)
def test_every_line_that_starts_an_entry_becomes_one(build: str) -> None:
    starts = re.findall(r"^-(?!----)", help_of(build), re.MULTILINE)
    catalogue = parse_help(help_of(build))
    assert len(catalogue.entries) == len(starts) > 240
    assert all(entry.names for entry in catalogue.entries)


@pytest.mark.parametrize("build", BUILDS)
def test_every_spelling_belongs_to_one_entry_and_looks_like_a_flag(build: str) -> None:
    spellings = [name for entry in parse_help(help_of(build)).entries for name in (*entry.names, *entry.negations)]
    assert [name for name, times in Counter(spellings).items() if times > 1] == []
    assert [name for name in spellings if not re.fullmatch(r"-[a-zA-Z]+(-[a-z]+)?|--[a-z][a-z0-9.-]+", name)] == []


@pytest.mark.parametrize("build", BUILDS)
def test_every_flag_named_in_the_descriptions_as_a_removed_flag_has_advice(build: str) -> None:
    removed = [entry for entry in parse_help(help_of(build)).entries if entry.removed]
    assert len(removed) == help_of(build).count("the argument has been removed") == 5
    assert all(entry.removed and entry.removed.startswith("use ") and "env:" not in entry.removed for entry in removed)


@pytest.mark.parametrize(
    ("name", "names", "negations"),
    [
        ("--kv-offload", ("-kvo", "--kv-offload"), ("-nkvo", "--no-kv-offload")),
        ("--repack", ("--repack",), ("-nr", "--no-repack")),
        ("--kv-unified", ("-kvu", "--kv-unified"), ("-no-kvu", "--no-kv-unified")),
        ("--escape", ("-e", "--escape"), ("--no-escape",)),
        ("--mmproj-auto", ("--mmproj-auto",), ("--no-mmproj", "--no-mmproj-auto")),
        ("--no-host", ("--no-host",), ()),
        ("--threads", ("-t", "--threads"), ()),
        ("-ncmoe", ("-ncmoe", "--n-cpu-moe"), ()),
        ("-ngl", ("-ngl", "--gpu-layers", "--n-gpu-layers"), ()),
    ],
)
def test_names_and_negations(name: str, names: tuple[str, ...], negations: tuple[str, ...]) -> None:
    found = entry(name)
    assert (found.names, found.negations) == (names, negations)
    assert all(entry(spelling) == found for spelling in (*names, *negations))


KV_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("--split-mode", ("none", "layer", "row", "tensor")),
        ("-fa", ("on", "off", "auto")),
        ("--cpu-strict", ("0", "1")),
        ("-ctk", KV_TYPES),
        ("--spec-draft-type-v", KV_TYPES),
        ("--numa", ("distribute", "isolate", "numactl")),
        ("--load-mode", ("auto", "none", "mmap", "mlock", "mmap+mlock", "dio")),
        ("--reasoning-format", ("none", "deepseek", "deepseek-legacy", "auto")),
        # These hints look like lists or ranges but are placeholders.
        ("--poll", None),
        ("--device", None),
        ("--tensor-split", None),
        ("--fit-target", None),
        ("--override-tensor", None),
        ("--cpu-range", None),
        ("--tools", None),
        ("--hf-repo", None),
    ],
)
def test_allowed_values(name: str, allowed: tuple[str, ...] | None) -> None:
    found = entry(name)
    assert found.takes_value
    assert found.allowed == allowed
    assert not found.list_valued


def test_the_speculation_types_may_be_joined_and_differ_between_builds() -> None:
    newer, older = entry("--spec-type"), entry("--spec-type", "b10068")
    assert newer.list_valued
    assert older.list_valued
    assert set(newer.allowed or ()) - set(older.allowed or ()) == {"draft-dspark"}


@pytest.mark.parametrize("name", ["--version", "--swa-full", "--metrics", "-kvo", "--no-warmup", "-cmoe"])
def test_switches_take_no_value(name: str) -> None:
    assert not entry(name).takes_value
    assert entry(name).allowed is None


def test_a_removed_flag_is_found_but_not_known() -> None:
    catalogue = parse_help(help_of("b10434"))
    assert not catalogue.knows("--draft-max")
    assert entry("--draft-max").removed == "use --spec-draft-n-max or --spec-ngram-mod-n-max"
    assert entry("--spec-ngram-size-n").removed is not None
    assert catalogue.knows("--spec-draft-n-max")
    assert not parse_help(help_of("b10068")).knows("--load-mode")


def test_an_older_bare_flash_attention_flag_takes_no_value() -> None:
    (found,) = parse_help(
        "-fa,   --flash-attn                     enable Flash Attention (default: disabled)\n"
    ).entries
    assert found.names == ("-fa", "--flash-attn")
    assert not found.takes_value


def test_allowed_values_may_be_wrapped_over_lines() -> None:
    indent = " " * 40
    text = (
        f"-x,    --exotic TYPE                    kind of thing\n{indent}allowed values: alpha, beta,\n{indent}gamma\n"
    )
    (found,) = parse_help(text + f"{indent}(default: beta)\n{indent}(env: LLAMA_ARG_X)\n").entries
    assert found.allowed == ("alpha", "beta", "gamma")


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    parse_help(text)
    parse_devices(text)
    assert parse_version(text)


def test_devices() -> None:
    text = """ggml_cuda_init: found 1 CUDA devices:
  Device 0: NVIDIA GeForce RTX 3090, compute capability 8.6, VMM: yes
Available devices:
  CUDA0: NVIDIA GeForce RTX 3090 (24126 MiB, 23810 MiB free)
  Vulkan1: AMD Radeon Graphics (RADV RAPHAEL) (512 MiB, 400 MiB free)
  RPC0: 127.0.0.1:50052 (24105 MiB, 24105 MiB free)
"""
    first, second, third = parse_devices(text)
    assert (first.name, first.description) == ("CUDA0", "NVIDIA GeForce RTX 3090")
    assert (first.total_mib, first.free_mib) == (24126, 23810)
    assert (second.name, second.description) == ("Vulkan1", "AMD Radeon Graphics (RADV RAPHAEL)")
    assert (third.name, third.description) == ("RPC0", "127.0.0.1:50052")


@pytest.mark.parametrize("text", ["Available devices:\n  (none)\n", "Available devices:\n", ""])
def test_no_devices(text: str) -> None:
    assert parse_devices(text) == ()


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("version: 1 (571d0d5)\nbuilt with GNU 11.4.0 for Linux x86_64\n", "1 (571d0d5)"),
        ("version: 6123 (abcdef)\n", "6123 (abcdef)"),
        ("version: 0.1.0-dev (build 1, commit 7e4c0a9)\n", "0.1.0-dev (build 1, commit 7e4c0a9)"),
        ("ggml_cuda_init: found 1 CUDA devices:\nversion: 8000 (1234567)\r\n", "8000 (1234567)"),
        ("Segmentation fault\n", "unknown"),
    ],
)
def test_version(text: str, version: str) -> None:
    assert parse_version(text) == version
