"""What a log says is read as a person would read it: by order, per device, and without guessing what is not there.

The three log files are of a real llama-server (b10068, `-lv 4`): on the CPU, with MTP speculation, and with MTP on two
RPC devices. Only lines about single requests and metadata have been left out.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.engines.llama_server.log_facts import (
    device_of,
    explain_live,
    projected_memory,
    settings_from_log,
)

HERE = Path(__file__).parent


def log(name: str) -> str:
    return (HERE / f"log_{name}.txt").read_text()


def test_settings_of_a_run_on_the_cpu() -> None:
    actual = settings_from_log(log("cpu"))
    assert actual.flash_attention is True
    assert actual.offloaded_layers == "19/19"
    assert actual.speculation is False
    assert actual.buffers_mib == {"CPU": pytest.approx(235.16 + 12.66 + 4.00 + 96.00 + 37.50 + 52.27)}


def test_a_draft_context_counts_and_a_repeated_reservation_does_not() -> None:
    actual = settings_from_log(log("mtp"))
    assert actual.speculation is True
    target = 125.49 + 24.00 + 9.84 + 17.55
    draft = 6.00 + 13.02  # its compute buffer is reserved twice, at the same size
    assert log("mtp").count("compute buffer size =    13.02 MiB") == 2
    assert actual.buffers_mib == {"CPU": pytest.approx(target + draft)}


def test_buffers_of_remote_devices_go_to_the_device_the_engine_named() -> None:
    actual = settings_from_log(log("rpc_mtp"))
    assert actual.offloaded_layers == "18/18"
    assert actual.buffers_mib == {
        "RPC0": pytest.approx(65.71 + 6.00 + 5.74 + 14.05),
        "RPC1": pytest.approx(59.04 + 6.00 + 4.10 + 14.05 + 3.00 + 14.02),
        "CPU": pytest.approx(0.75 + 5.02 + 5.02),
    }


def test_the_last_load_replaces_an_earlier_one() -> None:
    once = settings_from_log(log("mtp"))
    assert settings_from_log(log("mtp") + log("mtp")) == once
    assert settings_from_log(log("rpc_mtp") + log("mtp")) == once


def test_buffers_of_a_fit_pass_are_not_memory() -> None:
    fit = "cmn  common_init_: fitting params to device memory ...\nx: CUDA0 model buffer size = 9999.00 MiB\n"
    fit += "load_tensors: offloaded 99/99 layers to GPU\ncommon_fit_params: fitting params to free memory took 1.0 s\n"
    dry = "llama_model_loader: loaded meta data with 3 key-value pairs\nprint_info: no_alloc         = 1\n"
    dry += "llama_kv_cache: CUDA0 KV buffer size = 5555.00 MiB\n"
    real = "llama_model_loader: loaded meta data with 3 key-value pairs\nprint_info: no_alloc         = 0\n"
    real += "load_tensors: offloaded 3/4 layers to GPU\nload_tensors: CUDA0 model buffer size =   100.00 MiB\n"
    actual = settings_from_log(fit + dry + real)
    assert actual.buffers_mib == {"CUDA0": 100.0}
    assert actual.offloaded_layers == "3/4"


def test_what_the_log_does_not_say_is_none() -> None:
    actual = settings_from_log("0.00.009.288 I srv    load_model: loading model 't.gguf'\n")
    assert actual.flash_attention is None
    assert actual.speculation is None
    assert actual.offloaded_layers is None
    assert actual.buffers_mib == {}
    assert projected_memory("") is None


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("sched_reserve: Flash Attention was auto, set to enabled", True),
        ("sched_reserve: Flash Attention was auto, set to disabled", False),
        ("resolve_fused_ops: Flash Attention not supported, set to disabled", False),
        ("resolve_fused_ops: Flash Attention enabled", True),
        ("llama_context: flash_attn    = enabled", True),
        ("llama_context: flash_attn    = disabled", False),
        ("llama_context: flash_attn    = 0", False),
        ("llama_context: flash_attn    = 1", True),
        ("llama_context: flash_attn    = auto", None),
    ],
)
def test_flash_attention_in_old_and_new_words(line: str, value: bool | None) -> None:
    assert settings_from_log(line).flash_attention is value


def test_attention_of_the_target_counts_and_not_that_of_the_draft() -> None:
    target = "llama_context: constructing llama_context\nresolve_fused_ops: Flash Attention enabled\n"
    draft = (
        "llama_context: constructing llama_context\nresolve_fused_ops: Flash Attention not supported, set to disabled\n"
    )
    assert settings_from_log(target + draft).flash_attention is True


def test_speculation_that_failed_is_off() -> None:
    line = "E srv  load_model: failed to initialize speculative decoding context: the vocabs are not compatible\n"
    assert settings_from_log(line).speculation is False


@pytest.mark.parametrize(
    ("buffer", "device"),
    [
        ("CPU", "CPU"),
        ("CPU_Mapped", "CPU"),
        ("CPU_REPACK", "CPU"),
        ("CUDA_Host", "CPU"),
        ("Vulkan_Host", "CPU"),
        ("ROCm_Host", "CPU"),
        ("CUDA0", "CUDA0"),
        ("Vulkan11", "Vulkan11"),
        ("CUDA1_Split", "CUDA1"),
        ("MTL0_Mapped", "MTL0"),
        ("HTP0-REPACK", "HTP0"),
        ("RPC0[10.0.0.2:50052]", "RPC1"),
        ("RPC0[10.0.0.9:50052]", "RPC0[10.0.0.9:50052]"),
    ],
)
def test_device_of_a_buffer(buffer: str, device: str) -> None:
    assert device_of(buffer, {"10.0.0.2:50052": "RPC1"}) == device


def test_projection_on_the_cpu_is_that_of_the_fit_pass_and_not_of_the_shutdown() -> None:
    projection = projected_memory(log("cpu"))
    assert projection is not None
    assert projection.needed_mib == {"CPU": 408 + 12}
    assert projection.free_mib == {"CPU": 24105}
    assert "|                  420 =" in log("cpu"), "the table printed at shutdown differs"


def test_projection_per_device_leaves_out_the_draft_and_tells_its_size() -> None:
    projection = projected_memory(log("rpc_mtp"))
    assert projection is not None
    assert projection.needed_mib == {"RPC0": 91, "RPC1": 83, "CPU": 5}
    assert projection.free_mib == {"RPC0": 24105, "RPC1": 24105}
    assert projection.speculation_mib == pytest.approx(17.02)


def test_a_dry_run_that_was_stopped_at_the_draft_is_no_projection() -> None:
    stopped, _, _ = log("rpc_mtp").partition("getting device memory data")
    assert "memory breakdown" in stopped
    assert projected_memory(stopped) is None


def test_a_shutdown_without_a_fit_pass_is_no_projection() -> None:
    _, _, end = log("cpu").partition("model loaded")
    assert "memory breakdown" in end
    assert projected_memory(end) is None


def test_the_last_projection_of_several_counts() -> None:
    text = """f: | memory breakdown [MiB]  | total    free     self   model   context   compute       unaccounted |
f: |   - CUDA0 (RTX 5060 Ti) | 15841 = 15630 + (19302 = 14736 +    4072 +     493) + 17592186029324 |
f: |   - Host                |                   6371 =  6362 +       0 +       9                   |
f: context size reduced from 131072 to 32768 -> need 4000 MiB less memory in total
f: | memory breakdown [MiB]  | total    free     self   model   context   compute       unaccounted |
f: |   - CUDA0 (RTX 5060 Ti) | 15841 = 15630 + (15302 = 14736 +      72 +     493) + 17592186029324 |
f: |   - Host                |                   6000 =  5991 +       0 +       9                   |
"""
    projection = projected_memory(text)
    assert projection is not None
    assert projection.needed_mib == {"CUDA0": 15302, "CPU": 6000}
    assert projection.free_mib == {"CUDA0": 15630}


@pytest.mark.parametrize("name", ["cpu", "mtp", "rpc_mtp"])
def test_a_healthy_log_shows_no_signs(name: str) -> None:
    assert explain_live(log(name)) == []


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (  # github.com/ggml-org/llama.cpp/issues/27162
            "W resolve_fused_ops: layer 0 is assigned to device CPU but fused Gated Delta Net (chunked) is assigned to "
            "device CUDA0 (usually due to missing support)",
            "layer 0 lies on CPU while its fused Gated Delta Net (chunked) runs on CUDA0",
        ),
        (
            "layer 3 is assigned to device CUDA0 but the Flash Attention tensor is assigned to device CPU (usually",
            "layer 3 lies on CUDA0 while its Flash Attention runs on CPU",
        ),
        ("W resolve_fused_ops: Flash Attention not supported, set to disabled", "flash attention was switched off"),
        ("W sched_reserve: Flash Attention was auto, set to disabled", "flash attention was switched off"),
        ("W resolve_fused_ops: fused Gated Delta Net (chunked) not supported, set to disabled", "Gated Delta Net"),
        ("attn: flash attention is not supported by the current backend; falling back to CPU", "fell back to the CPU"),
        ("E srv  load_model: failed to initialize speculative decoding context: no vocab", "is off although"),
        (
            "spec common_specu: draft model vocab must closely match target model to use speculation but target vocab "
            "size 151936 does not match draft vocab size 32000",
            "another vocabulary",
        ),
        ("W the target and draft vocabs are not compatible", "another vocabulary"),
        # github.com/ggml-org/llama.cpp/pull/22168
        ("ngram_mod: low acceptance streak (3) - resetting", "n-gram drafter started over"),
        (  # github.com/ggml-org/llama.cpp/issues/21831
            "slot update_slots: id 0 | task 20 | forcing full prompt re-processing due to lack of cache data (likely)",
            "computed again in full",
        ),
        ("W sched_reserve: compute buffer allocation failed, retrying without pipeline parallelism", "pipeline"),
        (  # github.com/sudoingX/qwen38-mtp (multi-gpu)
            "W failed to fit params to free device memory: llama_params_fit is not implemented for SPLIT_MODE_TENSOR",
            "gave up fitting itself into memory (llama_params_fit is not implemented for SPLIT_MODE_TENSOR)",
        ),
        (  # github.com/ggml-org/llama.cpp/pull/18070
            "fit: context size reduced from 131072 to 24064 -> need 900 MiB less memory in total",
            "cut the context from 131072 to 24064 tokens",
        ),
        (  # github.com/ggml-org/llama.cpp/issues/22442
            "fit:   - CUDA0 (NVIDIA GeForce RTX 5060 Ti): 41 layers (14 overflowing),  15302 MiB used,    328 MiB free",
            "moved parts of 14 layers off CUDA0",
        ),
        (
            "srv  load_model: the slot context (262144) exceeds the training context of the model (131072) - capping",
            "a slot of 262144 tokens was capped at the trained context of 131072",
        ),
        ("warning: no usable GPU found, --gpu-layers option will be ignored", "no GPU was found"),
        ("E Failed to connect to 127.0.0.1:50399", "RPC server 127.0.0.1:50399 did not answer"),
        ("E ggml_vulkan: device lost on Vulkan0", "reset the device"),
        ("ggml_cuda_host_malloc: failed to allocate 1900.00 MiB of pinned memory: invalid argument", "1900.00 MiB"),
        ("E srv alloc: failed to allocate memory for prompt cache state: std::bad_alloc", "too short to save a prompt"),
        (  # github.com/spiritbuun/buun-llama-cpp/issues/60
            "srv send_error: task id = 4470, error: request (24743 tokens) exceeds the available context size",
            "answered with an error (request (24743 tokens) exceeds the available context size)",
        ),
    ],
)
def test_a_sign_of_collapse_is_told_in_words(line: str, told: str) -> None:
    (sign,) = explain_live(f"{log('mtp')}0.09.000.000 {'' if line[:2] in ('W ', 'E ') else 'I '}{line}\n")
    assert told in sign
    assert "{" not in sign


@pytest.mark.parametrize(
    "line",
    [
        "common_init_result: fitting params to device memory ...",
        "fit:   - CUDA0 (NVIDIA GeForce RTX 5060 Ti): 41 layers ( 0 overflowing),  15302 MiB used,    328 MiB free",
        "I srv    load_model: speculative decoding context initialized",
    ],
)
def test_ordinary_lines_are_no_signs(line: str) -> None:
    assert explain_live(line) == []


def test_a_repeated_sign_is_told_once() -> None:
    assert len(explain_live("forcing full prompt re-processing\n" * 7)) == 1


def test_a_draft_model_without_a_kind_of_speculation_only_takes_memory() -> None:
    loading = "common_speculative_init_result: loading draft model 'd.gguf'\n"
    none = "spec common_specu: no implementations specified for speculative decoding\n"
    assert "only takes memory" in explain_live(loading + none)[0]
    assert explain_live(none) == []
    assert explain_live(loading + "adding speculative implementation 'draft-simple'\n") == []


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    settings_from_log(text)
    projected_memory(text)
    explain_live(text)
