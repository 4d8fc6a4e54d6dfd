"""What shows that a launch collapsed in silence."""

from __future__ import annotations

from typing import Any

from tests.builders import DEEP, SHALLOW, measurement
from tuner.domain.gpu import GpuUse
from tuner.domain.measurement import Measurement
from tuner.domain.workload import Cell, Content
from tuner.study.collapse import collapse_signs, slow_everywhere
from tuner.study.machine_state import crept

LAYERS = 32
CODE, PROSE = Content.CODE, Content.PROSE_EN
CELLS = [Cell(content=content, depth=depth) for depth in (SHALLOW, DEEP) for content in (CODE, PROSE)]


def measured(shallow: float = 50.0, deep: float = 40.0, prefill: float = 1000.0, **actual: Any) -> Measurement:
    decode = {(c.content, c.depth): shallow if c.depth == SHALLOW else deep for c in CELLS}
    made = measurement({SHALLOW: prefill, DEEP: prefill * 0.8}, decode, cells=CELLS)
    return made.model_copy(update={"actual": made.actual.model_copy(update=actual)})


BASELINE = measured(graph_splits=2, offloaded_layers="33/33")


def signs(of: Measurement) -> list[str]:
    return collapse_signs(of, BASELINE, LAYERS)


def test_an_even_change_of_speed_is_no_collapse() -> None:
    for factor in (0.1, 0.7, 1.0, 1.6):
        assert signs(measured(50 * factor, 40 * factor, 1000 * factor)) == []


def test_a_cell_far_below_its_neighbours_is_named() -> None:
    (sign,) = collapse_signs(measured(50, 4), BASELINE, LAYERS)[:1]
    assert "decode in code@8192 is 10 times slower" in sign or "decode in prose-en@8192 is 10 times slower" in sign


def test_what_the_baseline_does_too_is_no_cliff() -> None:
    """Depth makes every engine slower: only what exceeds the baseline's own fall counts."""
    steep = measured(50, 4)
    assert collapse_signs(steep, steep, LAYERS) == []


def test_many_more_graph_splits_on_the_same_placement_are_a_fallback() -> None:
    (sign,) = signs(measured(graph_splits=2 + 2 * LAYERS, offloaded_layers="33/33"))
    assert "66 pieces" in sign
    assert signs(measured(graph_splits=3, offloaded_layers="33/33")) == []
    assert signs(measured(graph_splits=2 + 2 * LAYERS, offloaded_layers="0/33")) == [], "another placement"
    assert signs(measured(graph_splits=None, offloaded_layers="33/33")) == []


def test_swapping_is_named_unless_the_baseline_swaps_as_well() -> None:
    swapping = BASELINE.model_copy(update={"swap_growth_mib": 3000.0})
    (sign,) = signs(swapping)
    assert "3000 MiB" in sign
    assert collapse_signs(swapping, swapping, LAYERS) == []


def test_a_launch_that_is_slow_everywhere_is_explained_and_not_condemned() -> None:
    slow = measured(5, 4, 100)
    assert signs(slow) == []
    assert [told.split()[0] for told in slow_everywhere(slow, BASELINE)] == ["prefill", "decode"]
    assert slow_everywhere(BASELINE, BASELINE) == []


def test_without_a_baseline_nothing_is_said() -> None:
    assert collapse_signs(measured(50, 1), None, LAYERS) == slow_everywhere(measured(1, 1), None) == []


def gpu(measured: Measurement, **use: float) -> Measurement:
    return measured.model_copy(update={"gpus": (GpuUse(key="1", name="a card", device="CUDA0", samples=9, **use),)})


def test_memory_that_the_driver_put_into_the_host_is_named() -> None:
    (sign,) = signs(gpu(BASELINE, spill_growth_mib=900.0))
    assert "CUDA0 ran short: its driver put 900 MiB into host memory" in sign
    assert signs(gpu(BASELINE, spill_growth_mib=100.0)) == []
    usual = gpu(BASELINE, spill_growth_mib=900.0)
    assert collapse_signs(usual, usual, LAYERS) == [], "the baseline does so too"


def test_traffic_counts_only_where_it_also_slows_down() -> None:
    """Nobody tells of spilled memory on these cards; and a prompt that is computed from host weights reads much too."""
    base = gpu(BASELINE, pcie_rx_peak_mib_s=600.0)

    def told(decode: float, rx: float) -> list[str]:
        half = gpu(measured(50 * decode, 40 * decode, graph_splits=2, offloaded_layers="33/33"), pcie_rx_peak_mib_s=rx)
        return collapse_signs(half, base, LAYERS)

    (sign,) = told(0.4, 11_000.0)
    assert "11000 MiB/s over PCIe" in sign
    assert told(0.4, 900.0) == []
    assert told(1.0, 11_000.0) == []


def test_memory_that_creeps_between_launches_is_told() -> None:
    base = gpu(BASELINE, memory_idle_mib=300.0)
    assert crept(gpu(BASELINE, memory_idle_mib=600.0).gpus, base) == []
    (told,) = crept(gpu(BASELINE, memory_idle_mib=1_400.0).gpus, base)
    assert "1100 MiB more" in told
    assert crept(base.gpus, None) == []
