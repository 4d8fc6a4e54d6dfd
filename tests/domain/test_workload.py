"""The cells of a workload and their order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tuner.domain.workload import INSTRUCTION_TOKENS, Cell, Content, Workload

cells = st.builds(
    Cell,
    content=st.sampled_from([Content.CODE, Content.MATH, Content.PROSE_ZH]),
    depth=st.sampled_from([256, 512, 8192]),
    streams=st.integers(1, 3),
)


@given(st.lists(cells, min_size=1, max_size=6))
def test_cells_come_by_streams_then_depth_or_not_at_all(given_cells: list[Cell]) -> None:
    order = [(cell.streams, cell.depth) for cell in given_cells]
    if order == sorted(order):
        assert Workload(cells=tuple(given_cells), predict_tokens=8).cells == tuple(given_cells)
    else:
        with pytest.raises(ValidationError, match="ordered"):
            Workload(cells=tuple(given_cells), predict_tokens=8)


def test_no_cells_are_no_workload() -> None:
    with pytest.raises(ValidationError):
        Workload(cells=(), predict_tokens=8)


@given(st.lists(cells, min_size=2, max_size=2, unique=True))
def test_two_cells_never_have_one_name(two: list[Cell]) -> None:
    assert two[0].name != two[1].name


def test_depths_are_those_of_single_streams_and_the_deepest_cell_sets_the_context() -> None:
    code, chinese = Content.CODE, Content.PROSE_ZH
    workload = Workload(
        cells=(
            Cell(content=code, depth=256),
            Cell(content=chinese, depth=256),
            Cell(content=code, depth=512),
            Cell(content=code, depth=4096, streams=2),
        ),
        predict_tokens=100,
    )
    assert workload.depths == (256, 512)
    assert workload.context_needed == 4096 + 100 + INSTRUCTION_TOKENS
    assert [cell.name for cell in workload.cells] == ["code@256", "prose-zh@256", "code@512", "code@4096x2"]
