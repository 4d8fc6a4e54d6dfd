"""Waiting until cards hold no more than before."""

from __future__ import annotations

import time

import pytest
from plain_card import PlainCard

from tuner.domain.gpu import GpuProcess, GpuReading
from tuner.gpus.idle import idle_readings, wait_until_drained


def using(*mib: float | None) -> PlainCard:
    """A card that reads these in turn, and the last one for ever."""
    card = PlainCard(name="Card")
    card.readings = [GpuReading(used_mib=each) for each in mib]
    card.reading = card.readings[-1]
    return card


IDLE = [GpuReading(used_mib=500)]


def test_idle_reading() -> None:
    assert idle_readings([using(500), using(None)]) == (GpuReading(used_mib=500), GpuReading())


@pytest.mark.parametrize("mib", [[500], [600], [300], [None]])
def test_a_card_that_is_back_is_not_waited_for(mib: list[float | None]) -> None:
    began = time.monotonic()
    assert wait_until_drained([using(*mib)], IDLE, tolerance_mib=100, deadline_s=20) == []
    assert time.monotonic() - began < 5


def test_what_was_not_told_before_is_not_waited_for() -> None:
    assert wait_until_drained([using(9000)], [GpuReading()], deadline_s=20) == []


def test_it_waits_for_the_slowest() -> None:
    quick, slow = using(9000, 500), using(9000, 9000, 9000, 550)
    assert wait_until_drained([quick, slow], IDLE * 2, tolerance_mib=100, deadline_s=20) == []
    assert slow.readings == []


def test_a_card_that_is_lost_meanwhile_is_not_waited_for() -> None:
    assert wait_until_drained([using(9000, None)], IDLE, deadline_s=20) == []


def test_what_does_not_come_back_is_told_with_who_holds_it() -> None:
    free, held = using(500), using(4596)
    held.held_by = [
        GpuProcess(pid=1, used_mib=96, name="Xorg"),
        GpuProcess(pid=2, used_mib=4000, name="python3"),
        GpuProcess(pid=3),
    ]
    began = time.monotonic()
    (left,) = wait_until_drained([free, held], IDLE * 2, deadline_s=0.2)
    assert 0.2 <= time.monotonic() - began < 5
    assert (left.card, left.over_mib, [holder.pid for holder in left.holders]) == (1, 4096, [2, 1, 3])
    assert str(left) == (
        "Card holds 4096 MiB more than before; memory is held by: python3 2 (4000 MiB), Xorg 1 (96 MiB), process 3"
    )


def test_a_driver_that_does_not_tell_who_holds_it() -> None:
    (left,) = wait_until_drained([using(9000)], IDLE, deadline_s=0)
    assert str(left).endswith("not told")
