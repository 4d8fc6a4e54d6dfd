"""What people reported, in the engine's own words: the outcome that each report gets here.

Sources are issue threads of llama.cpp and of tools around it. Reports that name no text of the engine (speeds, power,
advice) have nothing to be read from and are not in this list.
"""

from __future__ import annotations

import json

import pytest

from tuner.domain.verdict import Outcome
from tuner.engines.llama_server.client import _refusal
from tuner.engines.llama_server.exits import explain_exit
from tuner.engines.llama_server.log_facts import explain_live, not_as_asked, projected_memory

DEATHS: dict[str, tuple[str, int, Outcome, str, str | None]] = {
    "ollama 8447": (
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 35533.34 MiB on device 0: cudaMalloc failed: "
        "out of memory\nllama_model_load: error loading model: unable to allocate CUDA0 buffer\n"
        "llama_load_model_from_file: failed to load model\n",
        1, Outcome.OUT_OF_MEMORY, "35533 MiB", "CUDA0",
    ),
    "ik_llama.cpp, cache grows": (
        "kv cache rm [p0, end) | p0=57344\nCUDA error: out of memory\n  current device: 0, in function alloc at "
        "/src/ggml-cuda.cu:384\n  cuMemCreate(&handle, reserve_size, &prop, 0)\n",
        -6, Outcome.OUT_OF_MEMORY, "while computing", "CUDA0",
    ),
    "llama.cpp 12817": (
        "ggml_vulkan: Device memory allocation of size 3959422976 failed.\n"
        "ggml_vulkan: Requested buffer size exceeds device memory allocation limit: ErrorOutOfDeviceMemory\n",
        1, Outcome.OUT_OF_MEMORY, "3776 MiB", None,
    ),
    "llama.cpp, two Vulkan cards": (
        "ggml_vulkan: Device memory allocation of size 1023846400 failed.\n"
        "ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory\n"
        "llama_model_load: error loading model: unable to allocate Vulkan1 buffer\n",
        1, Outcome.OUT_OF_MEMORY, "weights", "Vulkan1",
    ),
    "llama.cpp, Strix Halo": (
        "radv/amdgpu: The CS has been cancelled because the context is lost. This context is guilty.\n"
        "terminate called after throwing an instance of 'vk::DeviceLostError'\n"
        "  what():  vk::Queue::submit: ErrorDeviceLost\n",
        -6, Outcome.CRASHED, "device lost", None,
    ),
    "llama.cpp 20509": (
        "main: model loaded\nsrv  prompt_save:  - saving prompt with length 28960, total state size = 3462.850 MiB\n",
        -9, Outcome.OUT_OF_MEMORY, "killed from outside", "CPU",
    ),
    "llama.cpp, V cache without flash attention": (
        "W resolve_fused_ops: Flash Attention not supported, set to disabled\n"
        "E llama_init_from_model: failed to initialize the context: "
        "quantized V cache requires flash_attn to be enabled\n",
        1, Outcome.INVALID, "flash attention", None,
    ),
    "llama.cpp 26423": (
        "main: model loaded\n/src/ggml-cuda.cu:814: GGML_ASSERT(tensor->nb[0] == ggml_element_size(tensor)) failed\n",
        -6, Outcome.CRASHED, "tensor->nb[0]", None,
    ),
    "qwen38-mtp, split by row": (
        "llama_model_load: error loading model: device CUDA0 does not support split buffers\n",
        1, Outcome.INVALID, "split mode", None,
    ),
    "llama.cpp, Metal": (
        "ggml_metal_synchronize: error: command buffer 1 failed with status 5\n"
        "error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)\n",
        -6, Outcome.OUT_OF_MEMORY, "while computing", None,
    ),
    "llama.cpp, port": (
        "main: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 8080\n"
        "srv    operator(): cleaning up before exit...\nmain: exiting due to HTTP server error\n",
        1, Outcome.CRASHED, "port 8080 is in use", None,
    ),
    "ggrun 5": (
        "error: invalid argument: --mg\n", 1, Outcome.INVALID, "--mg", None,
    ),
}  # fmt: skip
"""Source -> log, exit code, outcome, what the reason must say, and the device."""


@pytest.mark.parametrize("source", DEATHS)
def test_a_reported_death_gets_its_outcome(source: str) -> None:
    log, code, outcome, told, device = DEATHS[source]
    explanation = explain_exit(log, code)
    assert explanation.outcome is outcome, explanation
    assert told in explanation.reason
    assert explanation.device == device


def test_a_start_that_answers_503_for_ever_is_a_timeout() -> None:
    """llama.cpp 15128."""
    explanation = explain_exit("srv log_server_r: request: GET /health 127.0.0.1 503\n" * 40, None)
    assert explanation.outcome is Outcome.START_TIMEOUT


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (
            "layer 0 is assigned to device CPU but fused Gated Delta Net (chunked) is assigned to device CUDA0 "
            "(usually due to missing support)",
            "memory that ran short in disguise",
        ),
        ("resolve_fused_ops: Flash Attention not supported, set to disabled", "flash attention was switched off"),
        ("llama_params_fit: failed to fit params to free device memory: n_gpu_layers already set", "gave up fitting"),
    ],
    ids=["llama.cpp 27162", "llama.cpp, flash attention", "llama.cpp, fit gives up"],
)
def test_a_reported_sign_of_another_run_degrades_it(log: str, told: str) -> None:
    assert told in "; ".join(not_as_asked(log))


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (
            "slot update_slots: id  0 | task 20 | forcing full prompt re-processing due to lack of cache data "
            "(likely due to SWA or hybrid/recurrent memory)",
            "computed again in full",
        ),
        (
            "srv    send_error: task id = 4470, error: request (24743 tokens) exceeds the available context size "
            "(24064 tokens), try increasing it",
            "24743 tokens",
        ),
    ],
    ids=["llama.cpp, hybrid model", "a fork, per-slot context"],
)
def test_a_reported_oddity_is_told(log: str, told: str) -> None:
    assert told in "; ".join(explain_live(log))
    assert not_as_asked(log) == []


@pytest.mark.parametrize(
    "body",
    [
        '{"error":{"code":400,"message":"the request exceeds the available context size. try increasing the context '
        'size or enable context shift","type":"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192}}',
        '{"error":{"code":400,"message":"request (24743 tokens) exceeds the available context size (24064 tokens), try '
        'increasing it","type":"invalid_request_error"}}',
        '{"error":{"code":500,"message":"the request exceeds the available context size. try increasing the context '
        'size or enable context shift","type":"server_error"}}',
    ],
    ids=["llama.cpp 15780", "newer words", "older type"],
)
def test_a_prompt_that_is_too_long_is_no_crash(body: str) -> None:
    code = json.loads(body)["error"]["code"]
    assert _refusal(code, body.encode()).kind == "context_exceeded"


def test_a_unified_pool_that_ran_full_is_another_failure() -> None:
    body = b'{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}'
    assert _refusal(500, body).kind == "refused"


def test_a_projection_with_unlike_views_of_one_device_is_read_as_the_engine_says_it() -> None:
    """llama.cpp b8131 on ROCm: the engine saw 6368 MiB free where another backend saw all of the shared memory."""
    log = (
        "llama_params_fit_impl: projected to use 38404 MiB of device memory vs. 6368 MiB of free device memory\n"
        "llama_memory_breakdown_print: | memory breakdown [MiB] | total    free    self   model   context   compute    "
        "unaccounted |\n"
        "llama_memory_breakdown_print: |   - ROCm0 (8060S)   | 98304 = 6368 + (38404 = 36000 +    2048 +     356) +   "
        "        0 |\n"
    )
    projection = projected_memory(log)
    assert projection is not None
    assert projection.needed_mib["ROCm0"] == 38404
    assert projection.free_mib["ROCm0"] == 6368
