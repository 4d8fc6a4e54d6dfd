"""Studies that several workers share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.bench import bench, tiny_model
from tests.many.postgres_server import programs, server

__all__ = ["bench", "tiny_model"]


@pytest.fixture(scope="session")
def postgres() -> Iterator[int]:
    """The port of a real PostgreSQL."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'llm-engine-tuner[postgresql]'")
    if programs() is None:
        pytest.skip("PostgreSQL's server is not installed: apt install postgresql")
    with server() as port:
        yield port
