"""The contract of engines, over the fake llama-server."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from tests.bench import FAKE, RIGS
from tests.engines.contract import EngineContract
from tests.engines.llama_server_values import SPACE, VALUES
from tuner.engines.llama_server import ENGINE


class TestFakeLlamaServer(EngineContract):
    engine = ENGINE()
    space = SPACE
    values = VALUES
    unseen: ClassVar = {"LLAMA_ARG_CTX_SIZE": "512"}
    env: ClassVar = {
        "FAKE_RIG": str(RIGS / "cpu_only.toml"),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }

    @pytest.fixture(scope="class")
    @classmethod
    def binary(cls) -> Path:
        return FAKE
