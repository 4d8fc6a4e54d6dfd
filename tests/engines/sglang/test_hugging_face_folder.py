"""What a model's folder says of itself, and where it is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fake_engine.model_folder import write_model_folder
from tuner.domain.errors import MissingFile
from tuner.engines.sglang.model_folder import find_model, read_model


def test_layers_context_and_kinds_are_read(tmp_path: Path) -> None:
    model = read_model(write_model_folder(tmp_path / "m", layers=8, recurrent=6, mtp=1, num_experts=64))
    assert (model.layers, model.recurrent_layers, model.mtp_layers, model.experts) == (8, 6, 1, 64)
    assert (model.trained_context, model.size_bytes, model.quantisation) == (8192, 4096, "bfloat16")


def test_a_multimodal_model_tells_its_text_part(tmp_path: Path) -> None:
    text = {"num_hidden_layers": 64, "max_position_embeddings": 262144, "layer_types": None}
    folder = write_model_folder(
        tmp_path / "m", text_config=text, quantization_config={"quant_method": "awq", "bits": 4}
    )
    model = read_model(folder)
    assert (model.layers, model.trained_context, model.quantisation) == (64, 262144, "awq 4 bit")
    assert model.recurrent_layers is None, "unknown, and not none"


@pytest.mark.parametrize("lacks", ["config.json", "model.safetensors"])
def test_an_incomplete_download_is_named(tmp_path: Path, lacks: str) -> None:
    folder = write_model_folder(tmp_path / "m")
    (folder / lacks).unlink()
    with pytest.raises(MissingFile, match=r"config\.json|weights"):
        read_model(folder)


def test_a_name_on_the_hub_is_found_in_the_cache_and_never_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(MissingFile, match="Qwen/Tiny"):
        find_model("Qwen/Tiny")
    snapshot = write_model_folder(tmp_path / "models--Qwen--Tiny" / "snapshots" / "abc")
    assert find_model("Qwen/Tiny") == snapshot
    assert find_model(str(snapshot)) == snapshot
