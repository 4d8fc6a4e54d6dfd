"""Cards for the tests: see nvml_stub.py for such as the real binding reads, plain_card.py for plain objects."""

from __future__ import annotations

from pathlib import Path

import pytest
from nvml_stub import NvmlStub, built_library


@pytest.fixture
def nvml(tmp_path: Path) -> NvmlStub:
    return NvmlStub(tmp_path, built_library())


@pytest.fixture
def nvml_of_an_old_driver(tmp_path: Path) -> NvmlStub:
    return NvmlStub(tmp_path, built_library(old_driver=True))
