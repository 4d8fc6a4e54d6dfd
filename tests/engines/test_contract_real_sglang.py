"""The contract of engines, over a real SGLang on the CPU. By name: each of its starts takes half a minute."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import ClassVar

import pytest

from tests.engines.contract import EngineContract
from tests.engines.sglang_values import SPACE, VALUES
from tests.real_sglang.installed import ENVIRONMENT, FIXED, interpreter, write_model
from tuner.engines.sglang import ENGINE


@pytest.mark.by_name
@pytest.mark.timeout(900)
class TestRealSglang(EngineContract):
    engine = ENGINE()
    space = SPACE
    values = VALUES
    fixed = FIXED
    env = ENVIRONMENT
    patience_s = 300.0
    unseen: ClassVar = {"PYTHONHOME": "/elsewhere"}

    @pytest.fixture(scope="class")
    @classmethod
    def binary(cls) -> Path:
        return interpreter()

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return write_model(tmp_path_factory.mktemp("model") / "tiny")

    @classmethod
    def size(cls, model: Path) -> int:
        return (model / "model.safetensors").stat().st_size

    @classmethod
    def broken_model(cls, model: Path, folder: Path) -> Path:
        broken = shutil.copytree(model, folder / "broken")
        (broken / "model.safetensors").write_bytes(b"\x08" + bytes(2000))
        return broken
