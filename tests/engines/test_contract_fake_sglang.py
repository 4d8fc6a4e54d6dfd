"""The contract of engines, over the fake SGLang: as an interpreter, as a command, and as an older build."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from tests.bench import RIGS
from tests.engines.contract import EngineContract
from tests.engines.sglang_values import SPACE, VALUES
from tests.fake_engine.model_folder import write_model_folder
from tuner.engines.sglang import ENGINE

PROGRAM = Path(__file__).parents[1] / "fake_engine" / "sglang_server.py"
ENVIRONMENT = {
    "FAKE_RIG": str(RIGS / "rtx-32gb-sglang.toml"),
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
}


class TestFakeSglang(EngineContract):
    engine = ENGINE()
    space = SPACE
    values = VALUES
    env: ClassVar = ENVIRONMENT
    unseen: ClassVar = {"PYTHONHOME": "/elsewhere"}
    program = "python3-sglang"

    @pytest.fixture(scope="class")
    @classmethod
    def binary(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        link = tmp_path_factory.mktemp("bin") / cls.program
        link.symlink_to(PROGRAM)
        return link

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return write_model_folder(tmp_path_factory.mktemp("model") / "tiny")

    @classmethod
    def size(cls, model: Path) -> int:
        return (model / "model.safetensors").stat().st_size

    @classmethod
    def broken_model(cls, model: Path, folder: Path) -> Path:
        broken = shutil.copytree(model, folder / "broken")
        (broken / "model.safetensors").write_bytes(b"\x08" + bytes(2000))
        return broken


class TestFakeSglangCommand(TestFakeSglang):
    """`sglang serve` instead of an interpreter."""

    program = "sglang"


class TestFakeOlderSglang(TestFakeSglang):
    """Older routes: no tokenizer over HTTP, and no template."""

    env: ClassVar = ENVIRONMENT | {"FAKE_FAULT": "older_build"}
