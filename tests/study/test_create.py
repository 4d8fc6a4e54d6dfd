"""What a study is held to, looked up by the real adapter from the fake engine and from real model files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders import MACHINE
from tests.fake_engine.tiny_gguf import write_tiny_gguf
from tests.search.spaces import SHIPPED
from tuner import __version__
from tuner.domain.definition import StudyDefinition
from tuner.domain.errors import BadInput, EngineNotFound, MissingFile, UnknownFlag
from tuner.domain.frozen import FrozenStudy
from tuner.domain.record import Owner
from tuner.domain.sampling import GREEDY, Sampling
from tuner.domain.space import SearchSpace
from tuner.domain.workload import INSTRUCTION_TOKENS, Cell, Content
from tuner.engines.llama_server.engine import LlamaServer
from tuner.gpus.machine_cards import MachineCards
from tuner.search.space import complete, violations
from tuner.study.create import Sources, Surveyed, freeze, survey
from tuner.workload.texts import fingerprint

TESTS = Path(__file__).resolve().parents[1]
BINARY = TESTS / "fake_engine" / "llama_server.py"
SOURCES = Sources(
    SHIPPED / "llama_server.toml",
    SHIPPED / "profiles.toml",
    lambda devices: MACHINE.model_copy(update={"gpus": tuple(device.name for device in devices)}),
    MachineCards(Owner(host="desk", boot_id="b", pid=1)),
    winners=lambda _: [],
)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("models")
    return {
        "plain": str(write_tiny_gguf(folder / "plain.gguf", layers=2, embd=64, vocab=300)),
        "mtp": str(write_tiny_gguf(folder / "mtp.gguf", arch="qwen35", layers=4, embd=64, vocab=300, mtp=1)),
        "short": str(write_tiny_gguf(folder / "short.gguf", layers=2, embd=64, vocab=300, context=8192)),
    }


_surveyed: dict[tuple[Any, ...], Surveyed] = {}


def frozen(*model: str, rig: str = "cpu_only", **asked: Any) -> FrozenStudy:
    """The study of a definition; what was found out about the same files is not looked up twice."""
    values: dict[str, Any] = {
        "engine": "llama_server", "binary": (str(BINARY),), "model": model, "profiles": ("coding-agent",),
        "env": {"FAKE_RIG": str(TESTS / "rigs" / f"{rig}.toml")},
    }  # fmt: skip
    made = StudyDefinition(**values | asked)
    engine = LlamaServer()
    key = (made.binary, made.model, rig)
    if key not in _surveyed:
        _surveyed[key] = survey(engine, made, SOURCES)
    return freeze(engine, made, _surveyed[key], SOURCES)


def dropped(space: SearchSpace) -> dict[str, str]:
    return {one.name: one.reason for one in space.dropped}


def depths(study: FrozenStudy) -> tuple[int, ...]:
    return study.workload.depths


# ---- what is looked at -----------------------------------------------------------------------------------------------


def test_everything_is_looked_up_once_and_frozen(models: dict[str, str]) -> None:
    study = frozen(models["mtp"], rig="two_gpus")
    (engine,) = study.engines
    assert [device.name for device in engine.devices] == ["CUDA0", "CUDA1"]
    assert engine.flags.knows("--ctx-size")
    assert study.machine.gpus == ("CUDA0", "CUDA1")
    assert (study.models[0].path, study.models[0].mtp_layers) == (models["mtp"], 1)
    # What a comparison with another study will ask.
    assert (study.tuner_version, study.texts) == (__version__, fingerprint())
    assert {"device", "split_mode", "tensor_split", "spec_draft_n_max"} <= study.space.by_name.keys()
    assert FrozenStudy.model_validate_json(study.model_dump_json()) == study
    assert frozen(models["mtp"], rig="two_gpus").study_id != study.study_id


def test_a_machine_without_a_gpu_is_tuned_by_its_threads(models: dict[str, str]) -> None:
    study = frozen(models["plain"])
    names = study.space.by_name.keys()
    assert {"threads", "threads_batch", "batch_size"} <= names
    assert not {"device", "n_gpu_layers", "spec_draft_n_max"} & names
    assert "engine.devices is 0" in dropped(study.space)["device"]
    assert study.space.by_name["threads"].default == MACHINE.physical_cores
    assert violations(study.space, complete(study.space, {})) == []


def test_of_several_files_the_least_counts_and_the_file_becomes_a_parameter(models: dict[str, str]) -> None:
    study = frozen(models["mtp"], models["plain"], models["short"])
    assert study.space.by_name["model"].choices == (models["mtp"], models["plain"], models["short"])
    assert study.space.with_role("context").default == 8192  # type: ignore[union-attr]
    assert "spec_type=draft-mtp" in dropped(study.space)


def test_what_is_missing_is_told(models: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(EngineNotFound):
        frozen(models["plain"], binary=(str(tmp_path / "none"),))
    with pytest.raises(MissingFile):
        frozen(str(tmp_path / "none.gguf"))
    (tmp_path / "text.gguf").write_text("not a model")
    with pytest.raises(MissingFile):
        frozen(str(tmp_path / "text.gguf"))
    with pytest.raises(MissingFile):
        frozen(models["plain"], space=str(tmp_path / "none.toml"))


# ---- the user's own arguments ----------------------------------------------------------------------------------------


def test_without_arguments_the_baseline_is_the_engine_as_it_comes(models: dict[str, str]) -> None:
    study = frozen(models["plain"])
    assert (study.baseline, study.fixed, study.baseline_arguments) == ({}, (), ())


def test_a_fixed_flag_is_in_every_launch_and_not_searched(models: dict[str, str]) -> None:
    study = frozen(models["plain"], fixed=("-b", "512", "--jinja"))
    assert study.fixed == study.baseline_arguments == ("-b", "512", "--jinja")
    assert "batch_size" not in study.space.by_name
    assert "fixed by your own arguments" in dropped(study.space)["batch_size"]
    assert study.baseline == {}
    # The rule that compares with it forbids nothing any more.
    assert violations(study.space, complete(study.space, {"ubatch_size": 2048})) == []


def test_a_pasted_command_is_the_baseline_and_its_tunable_flags_are_tuned(models: dict[str, str]) -> None:
    pasted = ("-m", models["plain"], "-ub", "300", "-ctk", "q8_0", "--jinja", "-np", "1", "--top-k", "20")
    study = frozen(models["plain"], pasted=pasted)
    assert study.baseline == {"ubatch_size": 300, "cache_type_k": "q8_0", "parallel": 1}
    assert 300 in (study.space.by_name["ubatch_size"].choices or ())
    assert study.space.by_name["ubatch_size"].default == 300
    assert study.fixed == ("--jinja", "--top-k", "20")
    assert study.baseline_arguments == pasted[2:]
    complete(study.space, study.baseline)


def test_fixed_and_pasted_together(models: dict[str, str]) -> None:
    study = frozen(models["plain"], fixed=("-t", "4"), pasted=("-ub", "128", "-t", "6"))
    assert "threads" not in study.space.by_name
    assert study.baseline == {"ubatch_size": 128}
    assert study.baseline_arguments == ("-t", "4", "-ub", "128", "-t", "6")


def test_what_the_space_does_not_search_here_stays_as_it_was_written(models: dict[str, str]) -> None:
    study = frozen(models["plain"], pasted=("-ngl", "all", "-sm", "layer", "-ub", "128"))
    assert study.baseline == {"ubatch_size": 128}
    assert study.fixed == ("-ngl", "all", "-sm", "layer")


def test_a_flag_that_the_binary_does_not_know_is_told(models: dict[str, str]) -> None:
    for place in ("fixed", "pasted"):
        asked: dict[str, Any] = {place: ("--ubatchsize", "1")}
        with pytest.raises(UnknownFlag, match="--ubatchsize"):
            frozen(models["plain"], **asked)


# ---- profiles and contexts -------------------------------------------------------------------------------------------


def least(study: FrozenStudy) -> list[int]:
    return [profile.least_context for profile in study.profiles]


def test_profiles_ask_for_no_more_context_than_there_is(models: dict[str, str]) -> None:
    both = ("coding-agent", "chat")
    study = frozen(models["short"], profiles=both)
    assert least(study) == [8192, 8192]
    assert study.notes == ("least context lowered to 8192 tokens, all there is: coding-agent",)
    assert least(frozen(models["plain"], profiles=both)) == [32768, 8192]
    assert least(frozen(models["plain"], profiles=both, fixed=("-c", "4096"))) == [4096, 4096]


def test_ctx_min_is_the_users_word_whatever_the_profiles_say(models: dict[str, str]) -> None:
    for asked in (2048, 65536):
        study = frozen(models["plain"], profiles=("coding-agent", "chat"), ctx_min=asked)
        assert least(study) == [asked, asked]
        context = study.space.with_role("context")
        assert context is not None
        assert context.choices is not None
        assert context.choices[0] == asked
    for fixed, cap in (((), 8192), (("-c", "4096"), 4096)):
        with pytest.raises(BadInput, match=f"{cap}"):
            frozen(models["short"], ctx_min=16384, fixed=fixed)


def test_a_depth_that_was_asked_for_raises_the_context_that_profiles_need(models: dict[str, str]) -> None:
    both = ("coding-agent", "chat")
    study = frozen(models["plain"], profiles=both, depths=(512, 16384))
    assert least(study) == [32768, 16896]
    assert study.notes == ("least context raised to 16896 tokens, for the deepest of --depths: chat",)
    assert depths(study) == (512, 16384)
    # Not beyond what there is, and not against the user's own word.
    with pytest.raises(BadInput, match="A depth of 16384 tokens does not fit"):
        frozen(models["short"], profiles=both, depths=(512, 16384))
    with pytest.raises(BadInput, match="A depth of 16384 tokens does not fit"):
        frozen(models["plain"], profiles=both, depths=(512, 16384), ctx_min=8192)


def test_a_profile_of_ones_own_and_one_that_is_not_there(models: dict[str, str], tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text("schema_version = 1\n[profiles.mine]\ndecode = 1\ncontents = { math = 1 }\ndepths = { deep = 1 }\n")
    study = frozen(models["plain"], profiles=("mine",), profiles_file=str(own))
    assert [profile.name for profile in study.profiles] == ["mine"]
    assert {cell.content for cell in study.workload.cells} == {Content.MATH}
    with pytest.raises(BadInput, match="nobody"):
        frozen(models["plain"], profiles=("nobody",))
    assert len(frozen(models["plain"], profiles=()).profiles) >= 4


# ---- the workload ----------------------------------------------------------------------------------------------------


def test_the_workload_is_the_union_of_what_the_profiles_need(models: dict[str, str]) -> None:
    study = frozen(models["plain"], profiles=("coding-agent", "chat", "two-users"), depths=(512, 2048))
    cells = set(study.workload.cells)
    for profile in study.profiles:
        assert set(profile.cells((512, 2048))) <= cells
        # Prefill is measured with one stream, also for two users.
        assert set(profile.depth_weights((512, 2048))) <= {c.depth for c in cells if c.streams == 1}
    assert len(cells) == len(study.workload.cells)
    assert Cell(content=Content.CODE, depth=512, streams=2) in cells
    assert study.workload.context_needed <= min(least(study))


def test_depths_suit_the_machine_and_the_least_context(models: dict[str, str]) -> None:
    assert depths(frozen(models["plain"])) == (256, 1024)
    assert depths(frozen(models["plain"], rig="two_gpus")) == (512, 8192)
    room = 8192 - 256 - INSTRUCTION_TOKENS
    assert depths(frozen(models["short"], rig="two_gpus")) == (512, room)
    assert depths(frozen(models["plain"], ctx_min=512)) == (512 - 128 - INSTRUCTION_TOKENS,)
    assert depths(frozen(models["plain"], depths=(2048, 512))) == (512, 2048)
    assert depths(frozen(models["plain"], depths=(512, 512))) == (512,)
    many = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)
    assert depths(frozen(models["plain"], depths=tuple(reversed(many)))) == many
    ordered = [(cell.streams, cell.depth) for cell in frozen(models["plain"], depths=many).workload.cells]
    assert ordered == sorted(ordered)


def test_answers_are_longer_where_a_gpu_makes_them_cheap(models: dict[str, str]) -> None:
    assert frozen(models["plain"]).workload.predict_tokens == 128
    assert frozen(models["plain"], rig="two_gpus").workload.predict_tokens == 256


def test_streams_are_cells_of_the_profiles_that_ask_for_them(models: dict[str, str], tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        "schema_version = 1\n"
        + "".join(
            f"[profiles.s{n}]\ndecode = 1\ncontents = {{ code = 1 }}\ndepths = {{ shallow = 1 }}\nstreams = {n}\n"
            for n in (1, 2, 4)
        )
    )
    study = frozen(models["plain"], profiles=("s1", "s2", "s4"), profiles_file=str(own), depths=(256, 1024))
    assert [cell.name for cell in study.workload.cells] == ["code@256", "code@256x2", "code@256x4"]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"depths": (8192,)}, "leaves room for 7808"),
        ({"depths": (512, 8000)}, "8000"),
        ({"depths": (8,)}, "too small"),
        ({"ctx_min": 300}, "too small"),
        ({"predict_tokens": 9000}, "too small"),
    ],
)
def test_a_depth_that_cannot_be_measured_is_told(models: dict[str, str], asked: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        frozen(models["short"], **asked)


def test_how_it_is_measured_is_as_it_was_asked(models: dict[str, str]) -> None:
    workload = frozen(models["plain"], predict_tokens=32, repeats=3, decode_limit_s=5.0).workload
    assert (workload.predict_tokens, workload.repeats, workload.decode_limit_s) == (32, 3, 5.0)
    assert workload.sampling == GREEDY
    sampled = frozen(models["plain"], sampling={"temperature": 0.7, "top_p": 0.95})
    assert sampled.workload.sampling == Sampling(temperature=0.7, top_p=0.95)
    assert "sampling: temperature 0.7, top_p 0.95" in sampled.notes


# ---- prompts of one's own --------------------------------------------------------------------------------------------


def prompts_file(folder: Path, *texts: str) -> str:
    path = folder / "mine.jsonl"
    path.write_text("".join(json.dumps({"messages": [{"role": "user", "content": text}]}) + "\n" for text in texts))
    return str(path)


def test_own_prompts_become_a_content_and_are_frozen_with_the_study(models: dict[str, str], tmp_path: Path) -> None:
    study = frozen(models["plain"], profiles=("chat",), prompts=prompts_file(tmp_path, "One?", "Two?"))
    (tmp_path / "mine.jsonl").unlink()
    assert [profile.name for profile in study.profiles] == ["chat", "own-prompts"]
    again = FrozenStudy.model_validate_json(study.model_dump_json())
    assert [each.messages[0].content for each in again.workload.conversations] == ["One?", "Two?"]
    assert {cell.depth for cell in study.workload.cells if cell.content is Content.OWN} == {256, 1024}
    assert any("2 prompts of your own" in note for note in study.notes)
    everything = frozen(models["plain"], profiles=(), prompts=prompts_file(tmp_path, "One?"))
    assert "own-prompts" in [profile.name for profile in everything.profiles]
    assert "own-prompts" not in [profile.name for profile in frozen(models["plain"], profiles=()).profiles]
    with pytest.raises(BadInput, match="needs prompts"):
        frozen(models["plain"], profiles=("own-prompts",))


def test_a_profile_that_weighs_own_prompts_takes_the_place_of_the_shipped_one(
    models: dict[str, str], tmp_path: Path
) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        "schema_version = 1\n[profiles.mine]\ndecode = 1\ncontents = { own = 3, code = 1 }\ndepths = { deep = 1 }\n"
    )
    asked = {"prompts": prompts_file(tmp_path, "One?"), "profiles_file": str(own)}
    assert [p.name for p in frozen(models["plain"], profiles=("chat",), **asked).profiles] == ["chat", "mine"]
    assert [p.name for p in frozen(models["plain"], profiles=("mine",), **asked).profiles] == ["mine"]
    with pytest.raises(BadInput, match="needs prompts"):
        frozen(models["plain"], profiles=("mine",), profiles_file=str(own))


def test_a_long_prompt_leaves_less_room_for_depth(models: dict[str, str], tmp_path: Path) -> None:
    long = prompts_file(tmp_path, "word " * 3000, "short")
    study = frozen(models["plain"], profiles=("chat",), prompts=long, depths=(512,))
    assert 512 + 128 + 3000 < study.workload.context_needed <= 8192
    with pytest.raises(BadInput, match="for your longest prompt"):
        frozen(models["plain"], profiles=("chat",), prompts=long, depths=(4096,), ctx_min=4096)
    with pytest.raises(BadInput, match="longest prompt no more fits"):
        frozen(models["plain"], profiles=("chat",), prompts=prompts_file(tmp_path, "word " * 30000))


# ---- a space of one's own --------------------------------------------------------------------------------------------

OWN = """
schema_version = 1
engine = "llama_server"
[parameters.ub]
flag = "--ubatch-size"
choices = [128, 512]
default = 512
about = "chunks"
"""


def test_a_space_of_ones_own_is_taken_strictly(models: dict[str, str], tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(OWN)
    study = frozen(models["plain"], space=str(own), pasted=("-ub", "128", "-b", "512"))
    assert list(study.space.by_name) == ["ub"]
    assert (study.baseline, study.fixed) == ({"ub": 128}, ("-b", "512"))
    own.write_text(OWN.replace("--ubatch-size", "--ubatchsize"))
    with pytest.raises(UnknownFlag, match="--ubatchsize"):
        frozen(models["plain"], space=str(own))
    own.write_text(OWN.replace('engine = "llama_server"', 'engine = "other"'))
    with pytest.raises(BadInput, match="other"):
        frozen(models["plain"], space=str(own))
