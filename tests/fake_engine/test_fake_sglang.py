"""The fake SGLang's rigs, against what the owners of the real machines measured."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import sglang_plan  # noqa: E402
from rig import Rig  # noqa: E402

RTX = Rig.load(HERE.parent / "rigs" / "rtx-32gb-sglang.toml")
R9700 = Rig.load(HERE.parent / "rigs" / "r9700-sglang.toml")
FP8: dict[str, Any] = {"kv_cache_dtype": "fp8_e4m3"}


def drafting(steps: int) -> dict[str, Any]:
    return {**FP8, "speculative_algorithm": "NEXTN", "speculative_num_steps": steps}


@pytest.mark.parametrize(
    ("settings", "usable", "code", "prose"),
    [(FP8, 123000, 41.5, 41.5), (drafting(3), 45423, 89.3, 59.7), (drafting(5), 10403, 108.7, None)],
    ids=["plain", "three drafts", "five drafts"],
)
def test_a_32_gb_card_has_its_owners_figures(
    settings: dict[str, Any], usable: int, code: float, prose: float | None
) -> None:
    plan = sglang_plan.plan(settings, RTX)
    assert plan.usable == pytest.approx(usable, rel=0.03)
    assert plan.decode_tps("code", 512, 1) == pytest.approx(code, rel=0.07)
    if prose is not None:
        assert plan.decode_tps("prose-en", 512, 1) == pytest.approx(prose, rel=0.07)


def test_its_prompts_and_its_two_streams_as_well() -> None:
    plain, drafts = sglang_plan.plan(FP8, RTX), sglang_plan.plan(drafting(3), RTX)
    assert plain.prefill_tps(123000) == pytest.approx(1199, rel=0.05)
    assert 1680 < plain.prefill_tps(512) < 1915
    assert drafts.prefill_tps(512) == pytest.approx(1775, rel=0.05)
    assert 2 * plain.decode_tps("code", 512, 2) == pytest.approx(82.9, rel=0.05)
    assert 2 * drafts.decode_tps("code", 512, 2) == pytest.approx(170.5, rel=0.07)


@pytest.mark.parametrize(
    ("depth", "prefill", "decode"),
    [(14664, 1539, None), (48784, 1040, None), (65536, 785, 25.8), (131072, 468, 25.7), (196608, 334, 25.7),
     (262144, 259, 25.7)],
)  # fmt: skip
def test_a_card_of_another_vendor_has_its_owners_figures(depth: int, prefill: float, decode: float | None) -> None:
    plan = sglang_plan.plan({**FP8, "num_continuous_decode_steps": 16, "max_running_requests": 1}, R9700)
    assert plan.prefill_tps(depth) == pytest.approx(prefill, rel=0.1)
    assert plan.usable >= 262144
    if decode is not None:
        assert plan.decode_tps("prose-en", depth, 1) == pytest.approx(decode, rel=0.04)


def test_too_small_and_too_large_a_share_fail_in_opposite_ways() -> None:
    assert sglang_plan.plan({**FP8, "mem_fraction_static": 0.6}, RTX).pool <= 0
    large = sglang_plan.plan({**FP8, "mem_fraction_static": 0.99}, RTX)
    assert large.graphs_mib > large.rest_mib
    between = sglang_plan.plan({**FP8, "mem_fraction_static": 0.97, "max_running_requests": 1}, RTX)
    assert between.graphs_mib < between.rest_mib
    wide = {**FP8, "mem_fraction_static": 0.97, "max_running_requests": 1, "chunked_prefill_size": 8192}
    assert sglang_plan.plan(wide, RTX).out_of_memory_at() < 8192
