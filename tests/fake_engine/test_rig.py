"""The simulated machines: their landscapes must hold what makes tuning worth while."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fake_engine.rig import KV_BYTES, Rig
from tests.fake_engine.sglang_rig import load_rig

RIGS = Path(__file__).resolve().parent.parent / "rigs"
DEFAULT = Rig.load(RIGS / "default.toml")
BASE = {"ctx_size": 32768, "parallel": 1, "fit": "off"}
MTP = BASE | {"spec_type": "draft-mtp"}


@pytest.mark.parametrize("path", sorted(RIGS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_rig_runs_its_own_defaults(path: Path) -> None:
    measured = load_rig(path).measure({})
    assert measured.outcome == "OK"
    assert measured.prefill_tps(1000) > measured.decode_tps("code", 1000) > 0


def best_n_max(content: str) -> int:
    speeds = {n: DEFAULT.measure(MTP | {"spec_draft_n_max": n}).decode_tps(content, 4000) for n in range(1, 9)}
    return max(speeds, key=lambda n: speeds[n])


def test_the_best_number_of_drafts_differs_by_content() -> None:
    assert best_n_max("code") > best_n_max("prose-en") >= 2


def test_no_configuration_is_best_at_both_prefill_and_decode() -> None:
    space = [
        BASE | {"ubatch_size": ubatch, "cache_type_k": kv, "cache_type_v": kv, "spec_type": spec, "spec_draft_n_max": n}
        for ubatch, kv, spec, n in itertools.product(
            (256, 512, 1024, 2048), ("f16", "q8_0", "q4_0"), ("none", "draft-mtp", "draft-mtp,ngram-mod"), (2, 4, 6)
        )
    ]
    loaded = [m for m in map(DEFAULT.measure, space) if m.outcome == "OK"]
    prefill = max(loaded, key=lambda m: m.prefill_tps(4000))
    decode = max(loaded, key=lambda m: m.decode_tps("code", 4000))
    assert prefill.settings["ubatch_size"] == 1024
    assert prefill.plan.spec == ()
    assert decode.plan.spec == ("draft-mtp", "ngram-mod")
    assert decode.settings["spec_draft_n_max"] == 4


def test_speculation_loses_its_worth_with_parallel_streams() -> None:
    four = BASE | {"parallel": 4}
    gains = [
        DEFAULT.measure(four | {"spec_type": "draft-mtp"}).decode_tps("code", 512, streams)
        / DEFAULT.measure(four).decode_tps("code", 512, streams)
        for streams in (1, 2, 4)
    ]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 1.5


def test_p_min_raises_the_acceptance_rate_whatever_it_does_to_the_speed() -> None:
    plain, picky = (DEFAULT.measure(MTP | {"spec_draft_p_min": p}).drafts("prose-en") for p in (0.0, 0.5))
    assert picky.accepted / picky.drafted > plain.accepted / plain.drafted


@given(st.sampled_from(sorted(KV_BYTES)), st.sampled_from(sorted(KV_BYTES)))
def test_mixed_cache_types_are_never_faster_than_both_matched_pairs(type_k: str, type_v: str) -> None:
    def prefill(k: str, v: str) -> float:
        return DEFAULT.measure(BASE | {"cache_type_k": k, "cache_type_v": v}).prefill_tps(4000)

    if type_k != type_v:
        assert prefill(type_k, type_v) < 0.2 * min(prefill(type_k, type_k), prefill(type_v, type_v))


@given(st.integers(1, 200_000), st.integers(1, 200_000), st.sampled_from([64, 512, 4096]))
def test_memory_never_shrinks_with_context(one: int, other: int, ubatch: int) -> None:
    small, large = (
        sum(DEFAULT.measure(BASE | {"ctx_size": size, "ubatch_size": ubatch}).memory["CUDA0"].values())
        for size in sorted((one, other))
    )
    assert small <= large


def test_too_much_context_is_out_of_memory_and_fit_makes_it_smaller_only_if_it_was_not_asked_for() -> None:
    asked = {"ctx_size": 131072, "parallel": 1}
    assert DEFAULT.measure(asked | {"fit": "off"}).outcome == "OUT_OF_MEMORY"
    cut = DEFAULT.measure({"parallel": 1})
    assert cut.outcome == "OK"
    assert 4096 <= cut.plan.context < 131072
    assert cut.plan.gpu_layers == 33
    moved = DEFAULT.measure(asked)
    assert moved.plan.context == 131072
    assert moved.plan.gpu_layers < 33
    assert DEFAULT.measure(asked | {"gpu_layers": 33}).plan.gave_up


def test_a_deep_prompt_can_run_out_of_memory_that_no_projection_foresees() -> None:
    tight = DEFAULT.measure(BASE | {"ctx_size": 90_000})
    assert tight.outcome == "OK"
    assert tight.max_depth < 90_000


def test_quantised_values_need_flash_attention() -> None:
    assert (
        DEFAULT.measure(BASE | {"cache_type_v": "q8_0", "cache_type_k": "q8_0", "flash_attn": "off"}).failure
        == "quantized_v"
    )


def test_threads_have_an_optimum_at_the_physical_cores() -> None:
    cpu = Rig.load(RIGS / "cpu_only.toml")
    speeds = {threads: cpu.measure({"threads": threads}).decode_tps("code", 100) for threads in (1, 3, 6, 9, 12)}
    assert max(speeds, key=lambda threads: speeds[threads]) == 6


def test_environment_variables_count() -> None:
    cpu = Rig.load(RIGS / "cpu_only.toml")
    assert cpu.measure({}, {"GOMP_SPINCOUNT": "0"}).decode_tps() > cpu.measure({}).decode_tps()


def test_two_devices_share_memory_by_the_split_and_speed_by_their_own() -> None:
    two = Rig.load(RIGS / "two_gpus.toml")
    even, skewed = (two.measure(BASE | {"tensor_split": split}) for split in ("1,1", "3,1"))
    assert even.memory["CUDA0"]["model"] == pytest.approx(even.memory["CUDA1"]["model"])
    assert skewed.memory["CUDA0"]["model"] == pytest.approx(3 * skewed.memory["CUDA1"]["model"])
    assert skewed.decode_tps("code") > even.decode_tps("code")
    assert two.measure(BASE | {"tensor_split": "1,2"}).failed_device == "CUDA1"
    assert two.measure(BASE | {"split_mode": "none", "main_gpu": 1}).failed_device == "CUDA1"


def test_drafting_from_the_model_itself_needs_its_layers_and_a_type_that_exists_here() -> None:
    without = Rig(**{**vars(DEFAULT), "model": DEFAULT.model | {"mtp_layers": 0}})
    assert without.measure(MTP).failure == "no_mtp"
    assert DEFAULT.measure(BASE | {"spec_type": "draft-dflash"}).plan.spec_failed
    assert DEFAULT.measure(MTP | {"spec_draft_n_max": 0}).outcome == "CRASHED"
    assert DEFAULT.measure(BASE | {"spec_draft_model": "draft.gguf"}).plan.spec == ()
