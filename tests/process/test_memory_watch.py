"""The highest reading is kept, however short it lasted."""

from __future__ import annotations

import gc
import weakref

import pytest
from families import Families, wait_for

from tuner.process import memory_watch
from tuner.process.memory_watch import MemoryWatch


def test_the_peak_stays_when_the_memory_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_watch, "_PERIOD_S", 0.01)
    held = 100.0
    watch = MemoryWatch(lambda: held)
    watch.start()
    held = 900.0
    wait_for(lambda: watch.peak().rss_mib == 900)
    held = 50.0
    watch.stop()
    assert watch.peak().rss_mib == 900


def test_what_is_unknown_is_not_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_watch, "_swapped_mib", lambda: None)
    peak = MemoryWatch(lambda: None).peak()
    assert peak.rss_mib is None
    assert peak.swap_growth_mib is None


def test_only_growth_of_swap_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    swapped = iter([500.0, 700.0, 400.0])
    monkeypatch.setattr(memory_watch, "_swapped_mib", lambda: next(swapped))
    watch = MemoryWatch(lambda: 1.0)
    assert watch.peak().swap_growth_mib == 200
    assert watch.peak().swap_growth_mib == 200


def test_an_engine_tells_its_trees_peak(families: Families) -> None:
    with families.engine("launcher", "worker:own-session", "worker2:fat") as engine:
        families.wait_until_ready("launcher")
        peak = engine.memory_peak().rss_mib
        assert peak is not None
        assert 64 < peak < 200
    assert engine.memory_peak().rss_mib == peak


def test_the_watch_does_not_keep_an_engine_from_being_forgotten(families: Families) -> None:
    engine = families.engine("server")
    engine.start()
    forgotten = weakref.ref(engine)
    del engine
    gc.collect()
    wait_for(lambda: forgotten() is None)
    wait_for(lambda: not families.living())
