"""Each test gets families of real processes, and none may be left after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from families import Families


@pytest.fixture
def families(tmp_path: Path) -> Iterator[Families]:
    made = Families(tmp_path)
    yield made
    left = made.living()
    for pid in left:
        psutil.Process(pid).kill()
    assert not left, "processes were left behind"
