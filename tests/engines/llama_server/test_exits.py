"""Every known way to die is told apart, with its device and size, and nothing survived is taken for the cause."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.domain.verdict import Outcome
from tuner.engines.llama_server.exit_causes import CAUSES, SIGNALS
from tuner.engines.llama_server.exits import explain_exit

OOM, CRASHED, INVALID = Outcome.OUT_OF_MEMORY, Outcome.CRASHED, Outcome.INVALID


@dataclass(frozen=True)
class Death:
    """A log's end and what must be understood from it."""

    log: str
    code: int
    outcome: Outcome
    says: str
    """A part of the reason."""
    device: str | None = None
    mib: float | None = None


def cuda_malloc(mib: float, device: int) -> str:
    """What the CUDA backend, and the HIP one that is built from it, say of an allocation that failed."""
    where = f"allocating {mib:.2f} MiB on device {device}"
    return f"E ggml_backend_cuda_buffer_type_alloc_buffer: {where}: cudaMalloc failed: out of memory\n"


SEEN = {
    "unknown flag": Death("error: invalid argument: --mg", 1, INVALID, "--mg: this build does not know it"),
    "removed flag": Death(
        'error while handling argument "--draft-max": the argument has been removed. use --spec-draft-n-max\n\nusage:\n'
        "--draft, --draft-max N       the argument has been removed. use --spec-draft-n-max\n",
        1,
        INVALID,
        "--draft-max: it has been removed",
    ),
    "bad value": Death(
        'error while handling argument "-ctk": Unsupported cache type: q9_9\n\nusage:\n-ctk,  --cache-type-k TYPE\n',
        1,
        INVALID,
        "the value given to -ctk: Unsupported cache type: q9_9",
    ),
    "value of an inherited variable": Death(
        'error while handling environment variable "LLAMA_ARG_FIT": unknown value', 1, INVALID, "LLAMA_ARG_FIT"
    ),
    "not a number": Death('error while handling argument "-c": stoi', 1, INVALID, "-c: it is not a number"),
    "bad device": Death(
        'error while handling argument "-dev": invalid device: CUDA7', 1, INVALID, "device CUDA7", device="CUDA7"
    ),
    "port": Death(
        "main: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 8391\n"
        "srv    operator (): cleaning up before exit...",
        1,
        CRASHED,
        "port 8391 is in use",
    ),
    "no file": Death(
        "0.00.008.970 E gguf_init_from_file: failed to open GGUF file 'm/x.gguf' (No such file or directory)\n"
        "0.00.009.078 E llama_model_load: error loading model: llama_model_loader: failed to load model from m/x.gguf\n"
        "0.00.009.514 E srv  llama_server: exiting due to model loading error",
        1,
        CRASHED,
        "m/x.gguf cannot be opened",
    ),
    "not gguf": Death("E gguf_init: invalid magic characters: '?M?H', expected 'GGUF'", 1, CRASHED, "not GGUF"),
    "truncated file": Death(
        "error loading model: tensor 'blk.3.ffn_down.weight' data is not within the file bounds, model is corrupted",
        1,
        CRASHED,
        "incomplete",
    ),
    "new architecture": Death(
        "error loading model: unknown model architecture: 'qwen9'\nllama_server: exiting due to model loading error",
        1,
        CRASHED,
        "cannot run the model: qwen9",
    ),
    "missing tensor": Death("error loading model: missing tensor 'blk.0.attn_q.weight'", 1, CRASHED, "missing tensor"),
    "quantised V without attention, then a segfault": Death(
        "0.00.016.324 E llama_init_from_model: V cache quantization requires flash_attn\n"
        "0.00.016.340 E cmn  common_init_: failed to create context with model 't.gguf'",
        139,
        INVALID,
        "quantised V cache",
    ),
    "head size": Death(
        "llama_init_from_model: K cache type q5_1 with block size 32 does not divide n_embd_head_k=80",
        1,
        INVALID,
        "K cache type q5_1",
    ),
    "tensor split": Death("SPLIT_MODE_TENSOR requires flash_attn to be enabled", 1, INVALID, "split mode"),
    "no MTP layers": Death(
        "W llama_init_from_model: context type MTP requested but model doesn't contain MTP layers\n"
        "E common_speculative_init_result: failed to create MTP context\n"
        "E srv    load_model: failed to create MTP context",
        1,
        INVALID,
        "no MTP layers",
    ),
    "MTP context without memory is not a refusal": Death(
        cuda_malloc(512.00, 1) + "E srv    load_model: failed to create MTP context",
        1,
        OOM,
        "CUDA1",
        device="CUDA1",
        mib=512.0,
    ),
    "MTP context for an unknown reason": Death("E srv  load_model: failed to create MTP context", 1, CRASHED, "MTP"),
    "KV on CUDA": Death(
        cuda_malloc(8192.00, 1) + "alloc_tensor_range: failed to allocate CUDA1 buffer of size 8589934592\n"
        "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache",
        1,
        OOM,
        "KV cache does not fit into the memory of CUDA1 (8192 MiB",
        device="CUDA1",
        mib=8192.0,
    ),
    "compute buffers on ROCm": Death(
        "ggml_cuda_init: found 1 ROCm devices:\n"
        + cuda_malloc(3000.50, 0)
        + "ggml_gallocr_reserve_n: failed to allocate ROCm0 buffer of size 3146252288\n"
        "llama_init_from_model: failed to initialize the context: failed to allocate compute pp buffers",
        1,
        OOM,
        "compute buffers",
        device="ROCm0",
        mib=3000.5,
    ),
    "KV on a remote device, then a segfault": Death(
        "0.0.0 I   - RPC0    : 127.0.0.1:50352 (24105 MiB, 24105 MiB free)\n"
        "0.0.0 I   - RPC1    : 127.0.0.1:50353 (24105 MiB, 24105 MiB free)\n"
        "0.07.298.336 E alloc_tensor_range: failed to allocate RPC0[127.0.0.1:50353] buffer of size 9216589824",
        139,
        OOM,
        "RPC1",
        device="RPC1",
        mib=8789.62,
    ),
    "host buffer": Death(
        "ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 2147483648\n"
        "alloc_tensor_range: failed to allocate CPU buffer of size 2147483648",
        1,
        OOM,
        "host memory",
        device="CPU",
        mib=2048.0,
    ),
    "host memory, by exception": Death(
        "E llama_init_from_model: failed to initialize the context: std::bad_alloc", 139, OOM, "host memory", "CPU"
    ),
    "host memory, by assertion": Death(
        "src/ggml.c:1643: GGML_ASSERT(ctx->mem_buffer != NULL) failed", 134, OOM, "host memory", "CPU"
    ),
    "illegal access": Death(
        "CUDA error: an illegal memory access was encountered\n"
        "  current device: 1, in function ggml_backend_cuda_synchronize at ggml-cuda.cu:2981\n"
        "  cudaStreamSynchronize(cuda_ctx->stream())\n",
        134,
        CRASHED,
        "CUDA1 failed while computing: an illegal memory access",
        device="CUDA1",
    ),
    "HIP out of memory while computing": Death(
        "ROCm error: out of memory\n  current device: 0, in function alloc at ggml-cuda.cu:480\n",
        -6,
        OOM,
        "ROCm0 ran out of memory while computing",
        device="ROCm0",
    ),
    "build for other GPUs": Death(
        "ROCm error: invalid device function\n  current device: 0, in function ggml_cuda_compute_forward at x.cu:2313",
        134,
        CRASHED,
        "no code for ROCm0",
        device="ROCm0",
    ),
    "AMD command submission": Death(
        "radv/amdgpu: Not enough memory for command submission.\nggml_vulkan: device lost on Vulkan0\n"
        "llama_model_load: error loading model: vk::Queue::submit: ErrorDeviceLost",
        1,
        OOM,
        "Vulkan0",
        device="Vulkan0",
    ),
    "Vulkan shader": Death("ggml_vulkan: Compute pipeline creation failed for mul_mm_f16", 1, CRASHED, "mul_mm_f16"),
    "remote server gone": Death(
        "0.05.040.408 E send failed (bytes_sent=0, size_to_send=8)\n"
        "src/ggml-rpc.cpp:623: Remote RPC server crashed or returned malformed response",
        134,
        CRASHED,
        "RPC server stopped answering",
    ),
    "unsupported cache type on a device": Death(
        "ggml-backend.cpp:800: pre-allocated tensor (cache_k_l0) in a buffer (Vulkan0) that cannot run the operation",
        134,
        CRASHED,
        "Vulkan0 cannot run an operation on cache_k_l0",
        device="Vulkan0",
    ),
    "assertion with a backtrace": Death(
        "src/llama-context.cpp:2232: GGML_ASSERT(n_outputs_max <= cparams.n_outputs_max) failed\n"
        "[New LWP 4711]\n[Thread debugging using libthread_db enabled]\n0x00007f3c in wait4 () from /lib/libc.so.6\n"
        "#0  0x00007f3c in wait4 () from /lib/libc.so.6\n[Inferior 1 (process 1) detached]",
        134,
        CRASHED,
        "a check of its own: n_outputs_max <= cparams.n_outputs_max",
    ),
    "missing library": Death(
        "llama-server: error while loading shared libraries: libcudart.so.12: cannot open shared object file",
        127,
        CRASHED,
        "libcudart.so.12 is missing",
    ),
    "SYCL": Death("Native API failed: UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY", 1, OOM, "an allocation failed"),
}

REPORTED = {
    # What users of llama.cpp have reported, in shortened lines of the same shape.
    "github.com/ollama/ollama/issues/8447": Death(
        cuda_malloc(30500.25, 0) + "llama_model_load: error loading model: unable to allocate CUDA0 buffer\n"
        "llama_load_model_from_file: failed to load model",
        1,
        OOM,
        "weights do not fit into the memory of CUDA0 (30500 MiB",
        device="CUDA0",
        mib=30500.25,
    ),
    "github.com/ikawrakow/ik_llama.cpp/issues/687": Death(
        "kv cache rm [p0, end) | p0=57344\nCUDA error: out of memory\n"
        "  current device: 0, in function alloc at ggml-cuda.cu:384\n  cuMemCreate(&handle, reserve_size, &prop, 0)\n"
        "ggml-cuda.cu:110: CUDA error",
        134,
        OOM,
        "CUDA0 ran out of memory while computing",
        device="CUDA0",
    ),
    "github.com/ggml-org/llama.cpp/issues/29270": Death(
        "ggml_vulkan: Device memory allocation of size 369098752 failed.\n"
        "ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory",
        1,
        OOM,
        "an allocation failed",
        mib=352.0,
    ),
    "github.com/ggml-org/llama.cpp/issues/15974": Death(
        "ggml_vulkan: Device memory allocation of size 1023410176 failed.\n"
        "ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory\n"
        "alloc_tensor_range: failed to allocate Vulkan0 buffer of size 1023410176\n"
        "llama_model_load: error loading model: unable to allocate Vulkan0 buffer",
        1,
        OOM,
        "weights do not fit into the memory of Vulkan0",
        device="Vulkan0",
        mib=976.0,
    ),
    "github.com/Nathanw1014/strix-halo-llamacpp/issues/16": Death(
        "radv/amdgpu: The CS has been cancelled because the context is lost. This context is innocent.\n"
        "E ggml_vulkan: device lost on Vulkan0\n"
        "E srv  update_slots: decode() failed: vk::Queue::submit: ErrorDeviceLost\n"
        "E srv  send_error: task id = 0, error: decode() failed: vk::Queue::submit: ErrorDeviceLost",
        1,
        CRASHED,
        "driver reset Vulkan0",
        device="Vulkan0",
    ),
    "github.com/ggml-org/llama.cpp/issues/19955": Death(
        "terminate called after throwing 'vk::DeviceLostError'\n  what():  vk::Queue::submit: ErrorDeviceLost",
        134,
        CRASHED,
        "device lost",
    ),
    "github.com/ggml-org/llama.cpp/issues/20509": Death(
        "srv  update_slots: all slots are idle\n"
        "srv   prompt_save:  - saving prompt with length 28960, total state size = 3462.850 MiB",
        -9,
        OOM,
        "killed from outside",
        device="CPU",
    ),
    "github.com/ggml-org/llama.cpp/issues/19818": Death(
        "llama_params_fit_impl: projected to use 38404 MiB of device memory vs. 40000 MiB of free device memory\n"
        "srv  llama_server: model loaded\nslot launch_slot_: id  0 | task 0 | processing task",
        137,
        OOM,
        "killed from outside",
        device="CPU",
    ),
    "github.com/thecodacus/llama.cpp/pull/3": Death(
        "W resolve_fused_ops: Flash Attention not supported, set to disabled\n"
        "E llama_init_from_model: quantized V cache was requested, but this requires Flash Attention\n"
        + cuda_malloc(8710.00, 0),
        1,
        INVALID,
        "quantised V cache",
    ),
    "github.com/ggml-org/llama.cpp/issues/26423": Death(
        "ggml-cuda.cu:814: GGML_ASSERT(tensor->nb[0] == ggml_element_size(tensor)) failed",
        134,
        CRASHED,
        "tensor->nb[0] == ggml_element_size(tensor)",
    ),
    "github.com/sudoingX/qwen38-mtp (multi-gpu)": Death(
        "W common_fit_params: failed to fit params: llama_params_fit is not implemented for SPLIT_MODE_TENSOR, abort\n"
        "llama_model_load: error loading model: device CUDA0 does not support split buffers",
        1,
        INVALID,
        "split mode",
    ),
    "github.com/sudoingX/qwen38-mtp (apple-silicon)": Death(
        "ggml_metal_synchronize: error: command buffer 1 failed with status 5\n"
        "error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)\n"
        "ggml-metal-context.m:500: GGML_ASSERT(false) failed",
        134,
        OOM,
        "ran out of memory while computing",
    ),
    "the same without the cause": Death(
        "ggml_metal_synchronize: error: command buffer 1 failed with status 2", 134, CRASHED, "status 2"
    ),
    "github.com/sudoingX/qwen38-mtp (rtx-3090)": Death(
        "srv  update_slots: all slots are idle\nslot launch_slot_: id  0 | task 9 | processing task",
        -11,
        CRASHED,
        "segmentation fault",
    ),
    "github.com/PiDanShouRouZhouXD/Sakura_Launcher_GUI/issues/71": Death(
        "main: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 8080\n"
        "srv operator (): cleaning up before exit...",
        1,
        CRASHED,
        "port 8080 is in use",
    ),
    "github.com/raketenkater/ggrun/issues/5": Death("error: invalid argument: --mg", 1, INVALID, "--mg"),
}
DEATHS = {**SEEN, **REPORTED}


@pytest.mark.parametrize("death", DEATHS.values(), ids=list(DEATHS))
def test_cause_device_and_size(death: Death) -> None:
    told = explain_exit(death.log, death.code)
    assert told.outcome is death.outcome
    assert death.says in told.reason
    assert told.device == death.device
    assert told.shortfall_mib == death.mib
    assert told.line
    assert told.line in death.log


def test_every_row_of_the_table_has_a_death_above() -> None:
    lines = [explain_exit(death.log, death.code).line or "" for death in DEATHS.values()]
    used = {next((c.pattern for c in CAUSES if re.search(c.pattern, line)), None) for line in lines}
    assert [cause.pattern for cause in CAUSES if cause.pattern not in used] == []


@pytest.mark.parametrize("cause", [*CAUSES, *SIGNALS.values()], ids=lambda cause: cause.reason)
def test_a_text_names_only_what_can_be_filled_in(cause: object) -> None:
    assert isinstance(cause, type(CAUSES[0]))
    known = {*re.compile(cause.pattern).groupindex, "device", "device_or_gpu", "on_device"}
    assert set(re.findall(r"\{(\w+)\}", cause.reason + (cause.repair or ""))) <= known


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("as_code", [lambda number: -number, lambda number: 128 + number], ids=["python", "shell"])
def test_a_signal_alone_is_told_by_its_number_in_both_notations(number: int, as_code: object) -> None:
    assert callable(as_code)
    told = explain_exit("srv    load_model: loading model 'm.gguf'", as_code(number))
    assert (told.outcome, told.reason) == (SIGNALS[number].outcome, SIGNALS[number].reason)


@pytest.mark.parametrize("code", [132, -4])
def test_a_binary_for_another_cpu_is_told_without_any_log(code: int) -> None:
    told = explain_exit("", code)
    assert told.outcome is CRASHED
    assert "CPU features" in told.reason
    assert told.line is None


def test_a_text_outweighs_the_signal_it_ended_with() -> None:
    assert explain_exit("CUDA error: unspecified launch failure", -signal.SIGABRT).reason.endswith("launch failure")


RETRY = (
    cuda_malloc(12710.31, 0) + "E graph_reserve: failed to allocate compute buffers\n"
    "W sched_reserve: compute buffer allocation failed, retrying without pipeline parallelism\n"
)


@pytest.mark.parametrize("later", ["", "I srv  llama_server: model loaded\n"])
def test_an_allocation_that_was_retried_is_never_the_cause(later: str) -> None:
    told = explain_exit(RETRY + later + "slot launch_slot_: id 0 | task 3 | processing task\n", 1)
    assert told.outcome is CRASHED
    assert told.line == "slot launch_slot_: id 0 | task 3 | processing task"


def test_an_allocation_that_fails_again_after_the_retry_is_the_cause() -> None:
    assert explain_exit(RETRY + RETRY.splitlines()[0].replace("12710.31", "9000.00"), 1).shortfall_mib == 9000.0


def test_of_several_failed_allocations_the_last_one_ended_it() -> None:
    told = explain_exit(cuda_malloc(900, 0) + "trying elsewhere\n" * 5 + cuda_malloc(700, 1), 1)
    assert (told.device, told.shortfall_mib) == ("CUDA1", 700.0)


def test_an_error_before_the_last_sign_of_health_yields_to_a_later_one() -> None:
    log = "ggml_vulkan: Device memory allocation of size 1048576 failed.\nsrv  update_slots: all slots are idle\n"
    assert explain_exit(log + "CUDA error: unspecified launch failure\n", 134).outcome is CRASHED
    assert explain_exit(log, -11).reason == SIGNALS[signal.SIGSEGV].reason
    assert explain_exit(log, 1).outcome is OOM, "with nothing else to blame, the survived error is the best guess"


def test_killed_while_saving_a_prompt_names_the_prompt_cache() -> None:
    told = explain_exit(REPORTED["github.com/ggml-org/llama.cpp/issues/20509"].log, 137)
    assert "--cache-ram" in (told.repair or "")
    assert "--cache-ram" not in (explain_exit("I srv  llama_server: model loaded", 137).repair or "")


def test_alive_at_the_deadline() -> None:
    log = "I srv    load_model: loading model 'm.gguf'\n" + "I srv  log_server_r: GET /health 127.0.0.1 503\n" * 3
    told = explain_exit(log, None)
    assert told.outcome is Outcome.START_TIMEOUT
    assert "GET /health 127.0.0.1 503" in told.reason
    assert explain_exit("", None).outcome is Outcome.START_TIMEOUT
    blamed = explain_exit("ggml_vulkan: device lost on Vulkan1\nsomething later\n", None)
    assert (blamed.outcome, blamed.line) == (Outcome.START_TIMEOUT, "ggml_vulkan: device lost on Vulkan1")


def test_an_unknown_end_shows_the_last_line_that_says_something() -> None:
    log = (
        "\x1b[31m0.00.010.000 E srv  load_model: a fault nobody knows\x1b[0m\n#0 0x7f in foo ()\n#1 0x7f in bar ()\n"
        "srv    operator(): cleaning up before exit...\nsrv  llama_server: exiting due to model loading error\n\n"
    )
    told = explain_exit(log, 3)
    assert told.outcome is CRASHED
    assert told.line == "srv  load_model: a fault nobody knows"
    assert "exit code 3" in told.reason


def test_a_log_that_is_all_backtrace_is_shortened_to_its_first_line() -> None:
    assert explain_exit("#0 0x00007f in foo ()\n#1 0x00007f in bar ()\n", 1).line == "#0 0x00007f in foo ()"


def test_a_very_long_line_is_shortened() -> None:
    assert len(explain_exit("x" * 5000, 1).line or "") == 300


@given(st.text(), st.one_of(st.none(), st.integers(-70, 300)))
def test_any_log_and_code_is_explained(log: str, code: int | None) -> None:
    told = explain_exit(log, code)
    assert told.reason
    assert told.outcome in (OOM, CRASHED, INVALID, Outcome.START_TIMEOUT)
