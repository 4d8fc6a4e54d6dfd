"""How a profile scores a measurement."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.builders import DEEP, DEPTHS, SHALLOW, measurement, profile
from tuner.domain.workload import Cell, Content

speeds = st.floats(0.5, 5000)
weights = st.floats(0.01, 10)


@given(
    weights, weights, weights, weights, weights,
    st.dictionaries(st.sampled_from(Content), weights, min_size=1), st.floats(0.1, 10), st.data(),
)  # fmt: skip
def test_everything_k_times_as_fast_scores_log_k_more(
    prefill: float, decode: float, context: float, shallow: float, deep: float,
    contents: dict[Content, float], factor: float, data: st.DataObject,
) -> None:  # fmt: skip
    someone = profile(
        prefill=prefill, decode=decode, context=context, contents=contents, depths={"shallow": shallow, "deep": deep}
    )
    cells = someone.cells(DEPTHS)
    pre = {depth: data.draw(speeds) for depth in DEPTHS}
    dec = {(cell.content, cell.depth): data.draw(speeds) for cell in cells}
    slow = measurement(pre, dec, context=1000, cells=cells)
    fast = measurement(
        {k: v * factor for k, v in pre.items()},
        {k: v * factor for k, v in dec.items()},
        context=round(1000 * factor),
        cells=cells,
    )
    gained = (someone.log_score(fast, DEPTHS) or 0) - (someone.log_score(slow, DEPTHS) or 0)
    assert gained == pytest.approx(math.log(factor), abs=1e-2)


def test_each_metric_counts_by_its_share() -> None:
    weighed = profile(prefill=1, decode=2, context=1, contents={"code": 3, "tool": 1}, depths={"shallow": 1, "deep": 3})
    cells = weighed.cells(DEPTHS)
    decode = {
        (Content.CODE, SHALLOW): 40.0, (Content.TOOL, SHALLOW): 80.0,
        (Content.CODE, DEEP): 20.0, (Content.TOOL, DEEP): 30.0,
    }  # fmt: skip
    measured = measurement({SHALLOW: 1000.0, DEEP: 500.0}, decode, context=16384, cells=cells)
    expected = (
        0.25 * (0.25 * math.log(1000) + 0.75 * math.log(500))
        + 0.5 * 0.25 * (0.75 * math.log(40) + 0.25 * math.log(80))
        + 0.5 * 0.75 * (0.75 * math.log(20) + 0.25 * math.log(30))
        + 0.25 * math.log(16384)
    )
    assert weighed.log_score(measured, DEPTHS) == pytest.approx(expected)


@pytest.mark.parametrize("hole", ["prefill", "decode", "context"])
def test_a_needed_metric_that_is_missing_leaves_no_score(hole: str) -> None:
    given: dict[str, Any] = {hole: None if hole == "context" else {}}
    whole = profile(prefill=1, decode=1, context=1)
    assert whole.log_score(measurement(), DEPTHS) is not None
    assert whole.log_score(measurement(**given), DEPTHS) is None
    # What has no weight need not be known.
    assert whole.model_copy(update={hole: 0.0}).log_score(measurement(**given), DEPTHS) is not None


@pytest.mark.parametrize("speed", [0.0, -1.0])
def test_a_speed_that_is_none_is_never_scored_as_slow(speed: float) -> None:
    assert profile().log_score(measurement(decode=speed), DEPTHS) is None


def test_with_one_depth_shallow_and_deep_are_the_same() -> None:
    both = profile(depths={"shallow": 1, "deep": 3})
    assert both.depth_weights((1024,)) == {1024: 1.0}
    assert both.depth_weights(DEPTHS) == {SHALLOW: 0.25, DEEP: 0.75}
    assert both.cells((1024,)) == [Cell(content=Content.CODE, depth=1024)]


@pytest.mark.parametrize(
    ("depths", "shares"),
    [
        ((1, 2, 3), {1: 0.125, 2: 0.5, 3: 0.375}),
        ((1, 2, 3, 4), {1: 0.125, 2: 0.125, 3: 0.375, 4: 0.375}),
        (tuple(range(1, 9)), dict.fromkeys(range(1, 5), 0.0625) | dict.fromkeys(range(5, 9), 0.1875)),
    ],
)
def test_of_many_depths_each_half_shares_a_weight(depths: tuple[int, ...], shares: dict[int, float]) -> None:
    assert profile(depths={"shallow": 1, "deep": 3}).depth_weights(depths) == pytest.approx(shares)
    deep = profile(depths={"deep": 1}).depth_weights(depths)
    assert sum(deep.values()) == pytest.approx(1)
    assert min(deep) == depths[len(depths) // 2], "what is only deep needs no shallow cells"
    assert list(deep) == sorted(deep)


def test_streams_are_scored_by_cells_of_that_many_streams() -> None:
    two = profile(streams=2, prefill=0)
    assert {cell.streams for cell in two.cells(DEPTHS)} == {2}
    assert two.log_score(measurement(), DEPTHS) is None
    assert two.log_score(measurement(cells=two.cells(DEPTHS)), DEPTHS) == pytest.approx(math.log(50))


def test_needs_are_missed_by_a_share() -> None:
    two = profile(least_context=8192, streams=2)
    assert two.unmet_needs(measurement(context=8192, slots=2)) == {}
    assert two.unmet_needs(measurement(context=2048, slots=1)) == {"context": 0.75, "streams": 0.5}
    assert two.unmet_needs(measurement(context=None, slots=4)) == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"contents": {}},
        {"contents": {"code": 0}},
        {"contents": {"poetry": 1}},
        {"depths": {"deep": -1}},
        {"depths": {"bottom": 1}},
        {"prefill": 0, "decode": 0},
        {"prefill": -1},
        {"least_context": 0},
        {"streams": 0},
        {"weight": 1},
    ],
)
def test_what_is_no_profile_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        profile(**changes)
