"""Twenty whole studies of each kind on the fake engine, with noise, outliers and drift: how often a claim is right.

By name: some minutes. `tests/report/test_claims.py` simulates the same thousands of times.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import bench_in
from tests.study.test_claims_fake import TRUTH, claimed

pytestmark = [pytest.mark.by_name, pytest.mark.timeout(3600)]

RUNS = 20
SAME, FASTER = 40, 100
"""Values of the one parameter: the first changes nothing, the second makes decoding `TRUTH` times as fast."""


def intervals(other: int, folder: Path, model: Path) -> list[tuple[float, float]]:
    """The claimed interval of every run's candidate."""
    found = []
    for run in range(RUNS):
        own = folder / f"{other}-{run}"
        own.mkdir()
        with pytest.MonkeyPatch.context() as patch, bench_in(own, model, patch) as bench:
            profile, _ = claimed(bench, other, seed=run)
        low, high = profile["candidate_gain_interval"]
        print(f"{other} run {run}: {low:.3f} to {high:.3f}", flush=True)
        found.append((low, high))
    return found


def test_the_same_under_two_names_is_told_apart_at_most_once_in_twenty(tmp_path: Path, tiny_model: Path) -> None:
    assert sum(low > 1 for low, _ in intervals(SAME, tmp_path, tiny_model)) <= 1


def test_five_per_cent_are_found_in_eighteen_and_covered_in_seventeen(tmp_path: Path, tiny_model: Path) -> None:
    found = intervals(FASTER, tmp_path, tiny_model)
    assert sum(low > 1 for low, _ in found) >= 18
    assert sum(low <= TRUTH <= high for low, high in found) >= 17
