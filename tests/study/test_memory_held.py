"""Memory as a graded constraint: by how much the most that a launch held misses what there is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.builders import engine_facts, frozen, measurement, record
from tuner.domain.facts import Device
from tuner.domain.gpu import GpuIdentity, GpuUse
from tuner.domain.measurement import Measurement
from tuner.domain.memory import HOST, MemoryProjection
from tuner.domain.record import TrialRecord
from tuner.study.kit import Kit
from tuner.study.memory import MemoryLimits, worst_memory

CARD = GpuIdentity(vendor="NVIDIA", name="a card", uuid="GPU-1", total_mib=10_000.0, source="a test")


def kit(*, gpu: bool, records: tuple[TrialRecord, ...] = ()) -> Kit:
    devices = (Device(name="CUDA0", description="a card", total_mib=10_000),) if gpu else ()
    base = frozen(engines=(engine_facts(devices=devices),))
    study = base.model_copy(update={"machine": base.machine.model_copy(update={"cards": (CARD,) if gpu else ()})})
    return cast(Kit, SimpleNamespace(frozen=study, pool=SimpleNamespace(records=lambda: list(records))))


def held(**use: Any) -> Measurement:
    return measurement(gpus=(GpuUse(key=CARD.key, name=CARD.name, device="CUDA0", samples=9, **use),))


@pytest.mark.parametrize(
    ("use", "over"),
    [
        ({"memory_peak_mib": 9_000.0}, -1_000.0),
        ({"memory_peak_mib": 9_990.0, "spill_growth_mib": 100.0}, -10.0),
        ({"memory_peak_mib": 9_990.0, "spill_growth_mib": 700.0}, 700.0),
    ],
    ids=["room", "transfer buffers are no spill", "spill"],
)
def test_on_a_card_its_peak_counts_and_what_spilled_from_it(use: dict[str, float], over: float) -> None:
    assert worst_memory(kit(gpu=True), record(1, {}, held(**use))) == ("CUDA0", over)


def test_a_card_that_is_not_certain_to_be_the_device_says_nothing() -> None:
    unsure = held(memory_peak_mib=9_000.0).model_copy(
        update={"gpus": (GpuUse(key=CARD.key, name=CARD.name, samples=9, memory_peak_mib=9_000.0),)}
    )
    assert worst_memory(kit(gpu=True), record(1, {}, unsure)) is None


def test_without_a_card_the_budget_is_host_memory() -> None:
    """The builder's machine has 64,000 MiB."""
    for rss, over in ((4_000.0, -60_000.0), (70_000.0, 6_000.0)):
        assert worst_memory(kit(gpu=False), record(1, {}, measurement(host_rss_peak_mib=rss))) == (HOST, over)
    assert worst_memory(kit(gpu=False), record(1, {}, measurement(host_rss_peak_mib=None))) is None


def test_the_projections_error_is_learned_from_the_drivers_peak_rather_than_the_engines_own_sum() -> None:
    projection = MemoryProjection(needed_mib={"CUDA0": 5_000.0}, free_mib={"CUDA0": 9_900.0})
    seen = held(memory_peak_mib=6_100.0, memory_idle_mib=100.0)
    done = record(1, {}, seen).model_copy(update={"projection": projection})
    limits = MemoryLimits.learned([done])
    assert limits.errors == {("CUDA0", False): [1_000.0]}
