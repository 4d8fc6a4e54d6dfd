"""How often a launch warms up and measures each cell, and what it says of the spread."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from itertools import groupby

import pytest

from tests.workload.simulated_server import Asked, SimulatedServer
from tuner.domain.measurement import RequestFailure, RequestTiming
from tuner.domain.quality import Reply
from tuner.domain.workload import Cell, Content, Workload
from tuner.workload.measure import WorkloadResult, WorkloadRun
from tuner.workload.patience import Patience
from tuner.workload.precision import Precision

CODE, PROSE, DEEP = (
    Cell(content=Content.CODE, depth=64),
    Cell(content=Content.PROSE_EN, depth=64),
    Cell(content=Content.CODE, depth=256),
)
PAIR = Cell(content=Content.CODE, depth=64, streams=2)


def steady(_: int, __: Asked) -> float:
    return 50.0


class Run:
    """One pass over a workload on a simulated server, and the requests it logged."""

    def __init__(self, *cells: Cell, speed: Callable[[int, Asked], float] = steady, **precision: object) -> None:
        self.logged: list[tuple[str, bool]] = []
        self.server = SimulatedServer(speed)
        workload = Workload(cells=cells, predict_tokens=32)
        given = {"precision": Precision(**precision)} if precision else {}  # type: ignore[arg-type]
        self.result: WorkloadResult = WorkloadRun(
            self.server, workload, salt_key="s", slots=2, log=self._log, patience=Patience(), **given
        ).measure()

    def _log(self, cell: str, counts: bool, _: RequestTiming | RequestFailure | Reply) -> None:
        self.logged.append((cell, counts))

    @property
    def counted(self) -> list[tuple[str, int]]:
        """Cell and number of its measured requests, in order."""
        names = [name for name, counts in self.logged if counts]
        return [(name, len(list(group))) for name, group in groupby(names)]

    @property
    def warm_ups(self) -> int:
        return self.logged.count(("warm-up", False))


def test_a_server_is_warm_when_it_gets_no_faster() -> None:
    assert Run(CODE).warm_ups == 2
    speeds = [10.0, 30.0, 49.0, 50.0]
    cold = Run(CODE, speed=lambda number, _: speeds[min(number, 3)])
    assert cold.warm_ups == 4
    assert cold.result.cells[0].decode_tps_samples == pytest.approx((50.0,))


def test_a_server_that_gets_faster_for_ever_is_measured_all_the_same() -> None:
    run = Run(CODE, speed=lambda number, _: 10.0 * 2**number)
    assert run.warm_ups == 5
    assert run.counted == [("code@64", 1)]


def test_without_a_wish_cells_are_measured_as_often_as_the_workload_says() -> None:
    assert Run(CODE, PROSE).counted == [("code@64", 1), ("prose-en@64", 1)]


def test_a_cell_is_measured_until_its_repeats_agree_or_there_are_enough() -> None:
    def noisy_prose(number: int, asked: Asked) -> float:
        return 50.0 if asked.prompt.count("code") > asked.prompt.count("essay") else 40.0 + 20 * (number % 2)

    agreeing = Run(CODE, PROSE, least=1, most=8)
    assert agreeing.counted == [("code@64", 3), ("prose-en@64", 3)]
    noisy = Run(CODE, speed=lambda number, _: 40.0 + 20 * (number % 2), least=1, most=8)
    assert noisy.counted == [("code@64", 8)]
    assert Run(CODE, least=5, most=8).counted == [("code@64", 5)]


def test_each_depth_has_one_cold_prefill_however_often_its_cells_are_measured() -> None:
    run = Run(CODE, PROSE, DEEP, least=3, most=3)
    assert run.counted == [("code@64", 3), ("prose-en@64", 3), ("code@256", 3)]
    cold = [not asked.reuse_prefix for asked in run.server.asked[run.warm_ups :]]
    assert cold == [True, *[False] * 5, True, False, False]
    prefixes = [asked.prompt[:200] for asked in run.server.asked[run.warm_ups :]]
    assert len(set(prefixes[:6])) == 1
    assert len({asked.prompt for asked in run.server.asked}) == len(run.server.asked), "no two prompts are alike"
    assert [cell.prefill_tps is None for cell in run.result.cells] == [False, True, False]


def test_losers_are_measured_as_little_as_possible() -> None:
    contenders = {CODE: 49.0, PROSE: 60.0}
    run = Run(CODE, PROSE, DEEP, least=1, most=4, contender_tps=contenders)
    assert run.counted == [("code@64", 3), ("prose-en@64", 1), ("code@256", 1)]


def test_outliers_are_named_and_kept_and_move_nothing() -> None:
    speeds = [50.0, 50.0, 50.2, 49.9, 31.0, 50.1]  # Two warm-ups first.
    run = Run(CODE, speed=lambda number, _: speeds[number % len(speeds)], least=4, most=4)
    (cell,) = run.result.cells
    assert cell.decode_tps_samples == pytest.approx((50.2, 49.9, 31.0, 50.1))
    assert cell.outliers == pytest.approx((31.0,))
    assert cell.decode_tps == pytest.approx(statistics.median(cell.decode_tps_samples))
    assert cell.decode_tps_interval is not None
    low, high = cell.decode_tps_interval
    assert low < cell.decode_tps < high


def test_streams_are_measured_together_and_again() -> None:
    run = Run(PAIR, least=3, most=3)
    (cell,) = run.result.cells
    assert len(cell.decode_tps_samples) == 3
    assert cell.decode_tps == pytest.approx(statistics.median(cell.decode_tps_samples))
    assert cell.generated_tokens == 3 * 2 * 32
    # Every stream's context is filled before all decode together: two fills, two measured requests, three times.
    assert [counts for name, counts in run.logged if name == "code@64x2"] == [False, False, True, True] * 3
    assert Run(PAIR, least=1, most=1).counted == [("code@64x2", 2)]
