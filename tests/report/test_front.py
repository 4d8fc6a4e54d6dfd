"""The Pareto front."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.builders import frozen, measurement, record
from tests.search_benchmark.volume import hypervolume
from tuner.domain.record import Stage, TrialRecord
from tuner.domain.verdict import Outcome
from tuner.report.front import front

SPEEDS = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 3)), min_size=1, max_size=12)


def trials(points: list[tuple[int, int, int]]) -> list[TrialRecord]:
    return [
        record(i, {"chunk": i}, measurement(100.0 * p, 10.0 * d, context=4096 * c), stage=Stage.SEARCH)
        for i, (p, d, c) in enumerate(points)
    ]


@given(SPEEDS)
def test_exactly_what_nothing_else_beats_is_on_it(points: list[tuple[int, int, int]]) -> None:
    found = [points[one.record.number] for one in front(frozen(), trials(points))]
    assert len(found) == len(set(found)), "of alike ones the first"
    for point in set(points):
        beaten = any(all(a >= b for a, b in zip(other, point, strict=True)) and other != point for other in points)
        assert (point in found) is not beaten
    assert [d for _, d, _ in found] == sorted((d for _, d, _ in found), reverse=True)


def test_what_did_not_run_well_is_not_on_it() -> None:
    good, bad, unfit = trials([(1, 1, 1), (5, 5, 3), (4, 4, 3)])
    bad = record(1, {"chunk": 1}, bad.measurement, outcome=Outcome.DEGRADED)
    unfit = record(2, {"chunk": 2}, unfit.measurement, constraints={"context": 0.5})
    assert [one.record for one in front(frozen(), [good, bad, unfit])] == [good]


@given(SPEEDS)
def test_the_volume_under_a_front_is_that_of_the_cells_it_reaches(points: list[tuple[int, int, int]]) -> None:
    """Against counting: with whole numbers the volume is the number of unit cubes below some point."""
    reached = {(x, y, z) for p, d, c in points for x in range(p) for y in range(d) for z in range(c)}
    assert hypervolume([tuple(map(float, p)) for p in points], (0.0, 0.0, 0.0)) == len(reached)  # type: ignore[misc]
