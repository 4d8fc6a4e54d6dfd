"""From the options of a command to a study's definition."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders import definition
from tuner.domain.definition import StudyDefinition
from tuner.domain.errors import BadInput, EngineNotFound, MissingFile
from tuner.engines.llama_server.engine import LlamaServer
from tuner.study.define import Options, default_name, define

Define = Callable[..., StudyDefinition]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that a person works in: models and a program of their own; another program on PATH."""
    for place in ("home/models", "home/build", "bin"):
        (tmp_path / place).mkdir(parents=True)
    for program in ("bin/llama-server", "home/build/llama-server"):
        (tmp_path / program).write_text("#!/bin/sh\n")
        (tmp_path / program).chmod(0o755)
    for name in ("models/a b.gguf", "models/q8.gguf", "draft.gguf", "space.toml", "profiles.toml"):
        (tmp_path / "home" / name).write_text("x")
    (tmp_path / "home" / "link.gguf").symlink_to("models/q8.gguf")
    monkeypatch.chdir(tmp_path / "home")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "home"


@pytest.fixture
def on_path(home: Path) -> str:
    return str(home.parent / "bin" / "llama-server")


def defined(**options: Any) -> StudyDefinition:
    return define(LlamaServer(), Options(**options), {})


@pytest.mark.usefixtures("home")
class TestModels:
    def test_paths_become_absolute_and_links_stay(self, home: Path) -> None:
        made = defined(
            model=[Path("models/a b.gguf"), Path("link.gguf")],
            space=Path("space.toml"),
            profiles_file=Path("profiles.toml"),
        )
        assert made.model == (str(home / "models/a b.gguf"), str(home / "link.gguf"))
        assert (made.space, made.profiles_file) == (str(home / "space.toml"), str(home / "profiles.toml"))

    @pytest.mark.parametrize(
        "words", [["-m", "draft.gguf"], ["--model", "draft.gguf", "-c", "8"], ["-c", "8", "--model=draft.gguf"]]
    )
    def test_the_model_is_found_in_the_command(self, home: Path, words: list[str]) -> None:
        for options in ({"pasted": ["llama-server", *words]}, {"pasted": words}, {"fixed": " ".join(words)}):
            assert defined(**options).model == (str(home / "draft.gguf"),)
            named = defined(model=[Path("link.gguf")], **options)
            assert named.model == (str(home / "link.gguf"),)

    @pytest.mark.parametrize("options", [{}, {"pasted": ["llama-server", "-c", "8"]}, {"pasted": ["-c", "8"]}])
    def test_none_is_told(self, options: dict[str, Any]) -> None:
        with pytest.raises(MissingFile, match="No model"):
            defined(**options)

    @pytest.mark.parametrize(
        "options",
        [
            {"model": [Path("no.gguf")]},
            {"model": [Path("models")]},
            {"pasted": ["-m", "no.gguf"]},
            {"model": [Path("draft.gguf"), Path("no.gguf")]},
            {"model": [Path("draft.gguf")], "space": Path("no.toml")},
            {"model": [Path("draft.gguf")], "profiles_file": Path("no.toml")},
            {"model": [Path("draft.gguf")], "prompts": Path("no.jsonl")},
        ],
    )
    def test_a_file_that_is_not_there_is_named(self, options: dict[str, Any]) -> None:
        with pytest.raises(MissingFile, match=r"no\.|models"):
            defined(**options)


class TestPrograms:
    def test_it_is_the_one_on_path(self, home: Path, on_path: str) -> None:
        assert defined(model=[home / "draft.gguf"]).binary == (on_path,)
        assert defined(pasted=["llama-server", "-m", "draft.gguf"]).binary == (on_path,)

    def test_it_is_the_one_of_the_pasted_command(self, home: Path) -> None:
        assert defined(pasted=["./build/llama-server", "-m", "draft.gguf"]).binary == (
            str(home / "build/llama-server"),
        )

    def test_those_that_are_named_come_before_the_pasted_one(self, home: Path, on_path: str) -> None:
        made = defined(binary=["build/llama-server", "llama-server"], pasted=["llama-server", "-m", "draft.gguf"])
        assert made.binary == (str(home / "build/llama-server"), on_path)

    @pytest.mark.usefixtures("home")
    @pytest.mark.parametrize(
        "options", [{"binary": ["no-server"]}, {"binary": ["./draft.gguf"]}, {"pasted": ["no-server", "-c", "8"]}]
    )
    def test_one_that_does_not_run_is_told(self, options: dict[str, Any]) -> None:
        with pytest.raises(EngineNotFound) as caught:
            defined(model=[Path("draft.gguf")], **options)
        assert "--binary" in (caught.value.advice or "")


class TestCommand:
    def test_it_is_the_baseline_without_its_program(self, home: Path) -> None:
        line = "env CUDA_VISIBLE_DEVICES=0 llama-server -m draft.gguf -c 8192 --jinja"
        for words in (line.split(), [line]):
            made = defined(pasted=words)
            assert made.pasted == ("-m", str(home / "draft.gguf"), "-c", "8192", "--jinja")
            assert made.env == {"CUDA_VISIBLE_DEVICES": "0"}

    def test_a_program_alone_is_an_empty_command_and_no_words_are_none(self, home: Path) -> None:
        assert defined(model=[home / "draft.gguf"], pasted=["llama-server"]).pasted == ()
        assert defined(model=[home / "draft.gguf"]).pasted is None

    def test_only_files_that_exist_are_made_absolute(self, home: Path) -> None:
        words = ["-md", "draft.gguf", "-ot", r"\.ffn=CPU", "--chat-template-file", "no.jinja", "--host", "models"]
        made = defined(model=[home / "link.gguf"], fixed=" ".join(words).replace("\\", "\\\\"), pasted=words)
        expected = ("-md", str(home / "draft.gguf"), *words[2:])
        assert made.fixed == expected
        assert made.pasted == expected

    @pytest.mark.usefixtures("home")
    def test_quotes_are_read_and_open_ones_told(self) -> None:
        assert defined(model=[Path("draft.gguf")], fixed="--alias 'a b'").fixed == ("--alias", "a b")
        with pytest.raises(BadInput, match="--fixed"):
            defined(model=[Path("draft.gguf")], fixed="--alias 'a b")

    @pytest.mark.usefixtures("home")
    def test_variables_of_the_option_come_over_those_of_the_command(self) -> None:
        made = defined(pasted=["A=1", "B=2", "llama-server", "-m", "draft.gguf"], env=["B=3=4", "C="])
        assert made.env == {"A": "1", "B": "3=4", "C": ""}
        for wrong in ("A", "=1", ""):
            with pytest.raises(BadInput, match="--env"):
                defined(model=[Path("draft.gguf")], env=[wrong])


@pytest.mark.usefixtures("home")
class TestNumbers:
    @pytest.mark.parametrize(
        ("text", "depths"),
        [
            (None, ()),
            ("", ()),
            ("512", (512,)),
            ("512,8192", (512, 8192)),
            ("1,2,3,4,5,6,7,8", (1, 2, 3, 4, 5, 6, 7, 8)),
        ],
    )
    def test_depths(self, text: str | None, depths: tuple[int, ...]) -> None:
        assert defined(model=[Path("draft.gguf")], depths=text).depths == depths

    @pytest.mark.parametrize("text", ["1,2,3,4,5,6,7,8,9", "deep", "512,", "0", "-1,512", "1.5", "512;8192"])
    def test_depths_that_are_none(self, text: str) -> None:
        with pytest.raises(BadInput, match="--depths"):
            defined(model=[Path("draft.gguf")], depths=text)

    @pytest.mark.parametrize(
        ("text", "sampling"),
        [
            ("", {}),
            ("temperature=0.7,top_p=0.95", {"temperature": 0.7, "top_p": 0.95}),
            (
                " temperature = 1 , top_k=40, min_p=0.05,seed=7 ",
                {"temperature": 1, "top_k": 40, "min_p": 0.05, "seed": 7},
            ),
            ("temperature=0", {"temperature": 0}),
            ("repeat_penalty=1.1", {"repeat_penalty": 1.1}),
        ],
    )
    def test_sampling(self, text: str, sampling: dict[str, float]) -> None:
        assert defined(model=[Path("draft.gguf")], sampling=text).sampling.given() == sampling

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("0.7", "not understood"), ("temperature", "not understood"), ("temperature=warm", "temperature=warm"),
            ("temperature=-1", "temperature=-1"), ("temperature=nan", "temperature=nan"),
            ("temperature=1,top_p=1.5", "top_p=1.5"), ("temperature=1,topp=0.9", "no setting `topp`"),
            ("top_p=0.9", "without a temperature"), ("temperature=0,top_k=5", "without a temperature"),
        ],
    )  # fmt: skip
    def test_sampling_that_is_none(self, text: str, told: str) -> None:
        with pytest.raises(BadInput, match="--sampling") as caught:
            defined(model=[Path("draft.gguf")], sampling=text)
        assert told in caught.value.what

    @pytest.mark.parametrize(
        ("option", "value"),
        [
            *(("hours", value) for value in (0.0, -1.0, math.inf, math.nan)),
            *(("decode_limit_s", value) for value in (0.0, -1.0, math.inf, math.nan)),
            *(("trials", value) for value in (0, -3)),
            *(("ctx_min", value) for value in (0, -4096)),
            ("confirm_rounds", 1), ("predict_tokens", 1), ("repeats", 0),
        ],
    )  # fmt: skip
    def test_what_no_study_can_have_is_told_by_its_option(self, option: str, value: float) -> None:
        with pytest.raises(BadInput) as caught:
            defined(model=[Path("draft.gguf")], **{option: value})
        assert f"--{option.replace('_', '-')}" in caught.value.what

    def test_what_was_not_said_is_left_to_the_defaults(self) -> None:
        plain = defined(model=[Path("draft.gguf")])
        fields = ("hours", "trials", "confirm_rounds", "predict_tokens", "repeats", "decode_limit_s", "ctx_min")
        for name in fields:
            assert getattr(plain, name) == StudyDefinition.model_fields[name].default
        said = {
            "hours": 1.5,
            "trials": 7,
            "confirm_rounds": 4,
            "predict_tokens": 32,
            "repeats": 2,
            "decode_limit_s": 9.0,
        }
        made = defined(model=[Path("draft.gguf")], **said, ctx_min=4096, profiles=["chat", "mine"])
        assert {name: getattr(made, name) for name in said} == said
        assert (made.ctx_min, made.profiles) == (4096, ("chat", "mine"))


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("/m/Qwen3-8B.Q4_K_M.gguf", "Qwen3-8B.Q4_K_M"),
        ("/m/my model (new).gguf", "my-model-new"),
        ("/m/日本.gguf", "study"),
        ("/m/...gguf", "study"),
        (f"{os.sep}-x-.gguf", "x"),
    ],
)
def test_a_study_is_named_after_its_model(model: str, name: str) -> None:
    from tuner.store.folder import StudyFolder

    assert default_name(definition(model=(model,))) == name
    StudyFolder.in_(Path("/studies"), name)
