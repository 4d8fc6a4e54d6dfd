"""A model file's facts are read fast, and whatever else lies at that path is told to the user in words."""

from __future__ import annotations

import os
import struct
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import gguf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.domain.errors import MissingFile
from tuner.engines.llama_server.model_file import read_model


def write(path: Path, fill: Callable[[gguf.GGUFWriter], object] | None = None, arch: str = "qwen35moe") -> Path:
    """A GGUF file of metadata alone, written by the reference implementation."""
    writer = gguf.GGUFWriter(path, arch)
    if fill:
        fill(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def fill_all(writer: gguf.GGUFWriter) -> None:
    writer.add_name("Some Model")
    writer.add_context_length(131072)
    writer.add_token_list([f"token{i}" for i in range(500)])
    writer.add_token_scores([0.5] * 500)
    writer.add_array("qwen35moe.attention.head_count_kv", [1, 2, 3])
    writer.add_bool("tokenizer.ggml.add_bos_token", True)
    writer.add_chat_template("x" * 100_000)
    writer.add_block_count(49)
    writer.add_uint32("qwen35moe.nextn_predict_layers", 1)
    writer.add_expert_count(128)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_K_M)


def test_every_fact_is_read_past_arrays_and_long_strings(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", fill_all)
    facts = read_model(path)
    assert (facts.path, facts.name, facts.architecture) == (str(path), "Some Model", "qwen35moe")
    assert (facts.trained_context, facts.layers, facts.mtp_layers, facts.experts) == (131072, 48, 1, 128)
    assert facts.quantisation == "Q4_K_M"
    assert facts.size_bytes == path.stat().st_size


def test_what_the_file_does_not_say_stays_unknown(tmp_path: Path) -> None:
    facts = read_model(write(tmp_path / "small-q8.gguf", arch="llama"))
    assert (facts.name, facts.architecture) == ("small-q8", "llama")
    assert (facts.trained_context, facts.layers, facts.quantisation) == (None, None, None)
    assert (facts.mtp_layers, facts.experts) == (0, 0)


@pytest.mark.parametrize(
    ("file_type", "name"),
    [(0, "F32"), (1, "F16"), (7, "Q8_0"), (17, "Q5_K_M"), (1024 + 7, "Q8_0"), (1000, None)],
)
def test_quantisation_names(tmp_path: Path, file_type: int, name: str | None) -> None:
    path = write(tmp_path / "m.gguf", lambda writer: writer.add_uint32("general.file_type", file_type))
    assert read_model(path).quantisation == name


def test_a_value_of_another_type_than_expected_is_not_believed(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", lambda writer: writer.add_string("qwen35moe.context_length", "many"))
    assert read_model(path).trained_context is None


def test_a_vocabulary_of_a_quarter_million_is_read_within_a_second(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", lambda writer: writer.add_token_list([f"token{i}" for i in range(262144)]))
    started = time.process_time()
    read_model(path)
    assert time.process_time() - started < 1


def test_a_split_model_is_as_large_as_all_its_parts(tmp_path: Path) -> None:
    first = write(tmp_path / "big-00001-of-00003.gguf")
    for part, size in ((2, 1000), (3, 2000)):
        (tmp_path / f"big-{part:05}-of-00003.gguf").write_bytes(b"x" * size)
    facts = read_model(first)
    assert facts.size_bytes == first.stat().st_size + 3000
    assert facts.name == "big"


def test_a_split_model_without_one_part_names_that_part(tmp_path: Path) -> None:
    first = write(tmp_path / "big-00001-of-00003.gguf")
    (tmp_path / "big-00002-of-00003.gguf").write_bytes(b"x")
    assert "big-00003-of-00003.gguf" in (refusal(first).where or "")


def test_a_later_part_is_refused_with_the_name_of_the_first(tmp_path: Path) -> None:
    assert "big-00001-of-00003.gguf" in (refusal(tmp_path / "big-00002-of-00003.gguf").advice or "")


def refusal(path: Path) -> MissingFile:
    with pytest.raises(MissingFile) as caught:
        read_model(path)
    assert caught.value.where
    assert caught.value.advice
    return caught.value


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "empty"),
        (b"hello", "not a GGUF file"),
        (b"\x00" * 4096, "not a GGUF file"),
        (b"PK\x03\x04....", "zip"),
        (b"\n<!DOCTYPE html><html>", "web page"),
        (b"<HTML>404", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:abc", "Git LFS pointer"),
        (struct.pack("<Q", 100) + b'{"__metadata__":{}}', "safetensors"),
        (b"GGUF", "cut off"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "version 1"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "is not supported"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 0), "no model architecture"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**63), "cut off"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**63), "cut off"),
        (b"GGUF" + struct.pack("<IQQQ1sI", 3, 0, 1, 1, b"k", 99), "value type 99"),
        (b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 8, 2**62), "cut off"),
        (b"GGUF" + struct.pack("<IQQQ1sIIQQ", 3, 0, 1, 1, b"k", 9, 8, 1, 2**62), "cut off"),
        (b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 4, 2**62), "cut off"),
        (b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 9, 1), "array of type 9"),
    ],
)
def test_what_lies_there_instead_is_named(tmp_path: Path, content: bytes, what: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    assert what in refusal(path).what


def test_no_file_a_folder_and_a_device_are_told_apart(tmp_path: Path) -> None:
    assert "not there" in refusal(tmp_path / "none.gguf").what
    assert "folder" in refusal(tmp_path).what
    write(tmp_path / "inside.gguf")
    assert "inside.gguf" in (refusal(tmp_path).advice or "")
    os.mkfifo(tmp_path / "pipe.gguf")
    assert "regular" in refusal(tmp_path / "pipe.gguf").what
    assert "cannot be read" in refusal(tmp_path / ("x" * 5000)).what


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = write(tmp_path / "m.gguf")
    monkeypatch.setattr(Path, "open", denied)  # root may read everything, so the mode bits cannot show it
    assert "Permission denied" in refusal(path).what


with tempfile.TemporaryDirectory() as folder:
    WHOLE = write(Path(folder) / "m.gguf", fill_all).read_bytes()


@given(st.integers(0, 3000))
def test_a_file_cut_anywhere_in_its_metadata_is_refused(length: int) -> None:
    assert len(WHOLE) > 3000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.gguf"
        path.write_bytes(WHOLE[:length])
        refusal(path)


@given(st.binary(max_size=300), st.integers(0, 400))
def test_byte_soup_gives_facts_or_a_refusal_and_never_another_error(soup: bytes, at: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.gguf"
        for content in (
            soup,
            b"GGUF" + soup,
            b"GGUF\x03\x00\x00\x00" + soup,
            WHOLE[:at] + soup + WHOLE[at + len(soup) :],
        ):
            path.write_bytes(content)
            with suppress(MissingFile):
                assert read_model(path).architecture
