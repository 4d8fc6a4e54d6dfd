"""SGLang through the command line: which engine is meant, and what is told of it."""

from __future__ import annotations

import pytest

from tests.sglang_bench import SglangBench, sglang
from tuner.domain.definition import StudyDefinition
from tuner.store.folder import StudyFolder

__all__ = ["sglang"]


def definition(bench: SglangBench) -> StudyDefinition:
    return StudyFolder.existing(bench.studies, "s").definition()


def test_the_doctor_tells_what_would_be_tuned_and_what_not(sglang: SglangBench) -> None:
    said = sglang.tuner("doctor", "--model", str(sglang.model), "--python", str(sglang.interpreter))
    assert said.code == 0, said.err
    assert "engine    sglang 0.5.23" in said.out
    assert "CUDA0: NVIDIA Fake RTX, 32100 of 32607 MiB free" in said.out
    assert "8 layers, 1 for MTP, trained context 262144" in said.out
    will, will_not = said.out.split("Will not be tuned:")
    assert "mem_fraction_static" in will
    assert "max_mamba_cache_size" in will, "its model has recurrent layers"
    assert "calls --disable-cuda-graph deprecated" in will_not
    assert "needs engine.devices > 1; here engine.devices is 1" in will_not


@pytest.mark.parametrize("start", ["python", "sglang", "bare"])
def test_the_engine_is_told_by_what_is_given(sglang: SglangBench, start: str) -> None:
    command = sglang.folder / "sglang"
    command.symlink_to(sglang.interpreter)
    model = str(sglang.model)
    words = {
        "python": ["--", str(sglang.interpreter), "-m", "sglang.launch_server", "--model-path", model, "--tp", "1"],
        "sglang": ["--", "A=b", str(command), "serve", model],
        "bare": ["--model", model, "--binary", str(command)],
    }[start]
    said = sglang.tuner("init", "--name", "s", *words)
    assert said.code == 0, said.err
    made = definition(sglang)
    assert (made.engine, made.model) == ("sglang", (model,))
    assert made.binary == (str(sglang.interpreter if start == "python" else command),)
    assert made.pasted == {"python": ("--model-path", model, "--tp", "1"), "sglang": ("--model-path", model)}.get(start)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--", "docker", "run", "lmsysorg/sglang"], "docker"),
        (["--python", "/bin/false"], "/bin/false"),
        (["--engine", "sglang", "--model", "Nobody/Nothing"], "Nobody/Nothing"),
        (["--engine", "sglang", "--model", "quick.toml"], "takes a model's folder"),
    ],
)
def test_a_mistake_is_told(sglang: SglangBench, words: list[str], told: str) -> None:
    model = [] if "--model" in words else ["--model", str(sglang.model)]
    python = [] if {"--python", "--"} & set(words) else ["--python", str(sglang.interpreter)]
    sglang.file("quick.toml", "")
    engine = [] if "--engine" in words else ["--engine", "sglang"]
    said = sglang.tuner("init", "--name", "s", *engine, *model, *python, *words)
    assert said.code == 2
    assert told in said.err
    assert "Traceback" not in said.err
