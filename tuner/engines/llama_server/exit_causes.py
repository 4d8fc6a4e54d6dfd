"""The ways in which llama-server is known to fail: what it writes, or with which signal it ends, and what that means.

The texts are those of llama.cpp's own code and of its backends (CUDA and HIP, Vulkan, Metal, SYCL, RPC, CPU). The most
specific row stands first: an out-of-memory error is often followed by three vaguer messages.

In the texts `{device_or_gpu}` and `{on_device}` stand for the device that the log names near by, if it does.
"""

from __future__ import annotations

from tuner.domain.memory import HOST
from tuner.domain.verdict import Outcome
from tuner.engines.cause import Cause, by_signal

_SMALLER = "a smaller context or ubatch, a smaller KV cache type, or fewer layers on the device"
_FILE = "check the path, and download or convert the file again"


_OOM, _CRASH, _REFUSED = Outcome.OUT_OF_MEMORY, Outcome.CRASHED, Outcome.INVALID

CAUSES: tuple[Cause, ...] = (
    # What the engine refuses before it loads anything.
    Cause(
        r'error while handling (?:argument|environment variable) "(?P<flag>[^"]+)": (?:error: )?'
        r"the argument has been removed\.? ?(?P<advice>.*)",
        _REFUSED,
        "the engine refuses {flag}: it has been removed from this build",
        "{advice}",
    ),
    Cause(
        r"invalid device: (?P<device>\S+)",
        _REFUSED,
        "the engine refuses the device {device}: this build does not see it",
        "name a device that --list-devices shows; an RPC device needs --rpc before it",
    ),
    Cause(
        r'error while handling (?:argument|environment variable) "(?P<flag>[^"]+)": sto\w+$',
        _REFUSED,
        "the engine refuses the value given to {flag}: it is not a number",
    ),
    Cause(
        r'error while handling (?:argument|environment variable) "(?P<flag>[^"]+)": (?:error: )?(?P<why>.*)',
        _REFUSED,
        "the engine refuses the value given to {flag}: {why}",
        "use a value that this build's --help lists for {flag}",
    ),
    Cause(
        r"error: (?:invalid|unknown) argument: (?P<flag>\S+)",
        _REFUSED,
        "the engine refuses {flag}: this build does not know it",
        "use the spelling that this build's --help lists, or leave the flag out",
    ),
    # Combinations that the engine refuses. Without flash attention it may also run out of memory: not the cause.
    Cause(
        r"quantized V cache .*requires? [Ff]lash|V cache quantization requires flash_attn",
        _REFUSED,
        "the engine refuses a quantised V cache without flash attention",
        "switch flash attention on, or use f16 for the V cache",
    ),
    Cause(
        r"(?P<which>[KV]) cache type (?P<type>\S+) with block size \d+ does not divide (?P<size>\S+)",
        _REFUSED,
        "the engine refuses the {which} cache type {type}: its blocks do not divide the model's head size ({size})",
        "use f16 or another type for that cache",
    ),
    Cause(
        r"SPLIT_MODE_TENSOR (?:requires flash_attn|needs|not implemented)|does not support split buffers",
        _REFUSED,
        "the engine refuses this split mode here",
        "use --split-mode layer; tensor split needs flash attention and a supported architecture",
    ),
    Cause(
        r"context type MTP requested but model doesn't contain MTP layers",
        _REFUSED,
        "the engine refuses MTP speculation: the model file has no MTP layers",
        "use a model file with MTP layers, give a separate one as the draft model, or choose another speculation type",
    ),
    # Device memory.
    Cause(
        r"kIOGPUCommandBufferCallbackErrorOutOfMemory|Insufficient Memory",
        _OOM,
        "the GPU{on_device} ran out of memory while computing",
        "smaller batch and ubatch, or a smaller context",
    ),
    Cause(
        r"(?:CUDA|ROCm|MUSA) error: out of memory",
        _OOM,
        "{device_or_gpu} ran out of memory while computing",
        "a smaller ubatch or context; memory still grows after the load, so leave some free",
    ),
    Cause(
        r"Not enough memory for command submission",
        _OOM,
        "{device_or_gpu} ran out of memory while computing, and the driver reset it",
        _SMALLER,
    ),
    Cause(
        r"failed to allocate buffer for (?:kv|rs) cache",
        _OOM,
        "the KV cache does not fit into the memory of {device_or_gpu}",
        "a smaller context, fewer slots or a smaller KV cache type",
    ),
    Cause(
        r"failed to allocate compute (?:pp |tg )?buffers|failed to allocate compute graph",
        _OOM,
        "the compute buffers do not fit into the memory of {device_or_gpu}",
        "a smaller ubatch, or flash attention on",
    ),
    Cause(
        r"unable to allocate \S+ buffer",
        _OOM,
        "the model's weights do not fit into the memory of {device_or_gpu}",
        "fewer layers on the device, another tensor split, or a smaller quantisation",
    ),
    Cause(
        r"ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer",
        _OOM,
        "host memory ran out",
        "a smaller context, or less of the model on the CPU",
        device=HOST,
    ),
    Cause(
        r"cudaMalloc failed: out of memory|failed to allocate (?!host)\S+ buffer of size"
        r"|Device memory allocation of size \d+ failed|ErrorOutOfDeviceMemory|failed to allocate Metal buffer"
        r"|ggml_metal\S*: error: failed to allocate buffer|UR_RESULT_ERROR_OUT_OF_\w*MEMORY"
        r"|failed to allocate output buffer|Requested buffer size exceeds device buffer size limit",
        _OOM,
        "an allocation failed on {device_or_gpu}",
        _SMALLER,
    ),
    Cause(
        r"std::bad_alloc|ctx->mem_buffer != NULL|ErrorOutOfHostMemory",
        _OOM,
        "host memory ran out",
        "a smaller context or batch, or less of the model on the CPU",
        device=HOST,
    ),
    # The device or its driver.
    Cause(
        r"device lost on (?P<device>\S+)|ErrorDeviceLost|DeviceLostError|the context is lost",
        _CRASH,
        "the driver reset {device_or_gpu} (device lost)",
        "a smaller ubatch at this depth; if it happens with many configurations, suspect driver or hardware",
    ),
    Cause(
        r"(?:CUDA|ROCm|MUSA) error: (?P<why>no kernel image is available|invalid device function)",
        _CRASH,
        "this build has no code for {device_or_gpu}: {why}",
        "use a build made for this GPU's architecture",
    ),
    Cause(
        r"(?:CUDA|ROCm|MUSA) error: (?P<why>.+)",
        _CRASH,
        "{device_or_gpu} failed while computing: {why}",
    ),
    Cause(
        r"command buffer \d+ failed with status (?P<why>\d+)",
        _CRASH,
        "the GPU failed while computing: command buffer status {why}",
    ),
    Cause(
        r"Compute pipeline creation failed for (?P<why>\S+)",
        _CRASH,
        "the Vulkan driver could not build the shader {why}",
        "a newer driver or another build",
    ),
    Cause(
        r"Remote RPC server crashed or returned malformed response",
        _CRASH,
        "an RPC server stopped answering",
        "look at that server's own log: most often it ran out of memory",
    ),
    Cause(
        r"pre-allocated tensor \((?P<what>[^)]+)\) in a buffer \((?P<device>[^)]+)\) that cannot run the operation",
        _CRASH,
        "{device} cannot run an operation on {what}",
        "another KV cache type, or keep that part on another device",
    ),
    Cause(
        r"failed to create MTP context",
        _CRASH,
        "the context for MTP speculation could not be set up",
        "another build, or another speculation type",
    ),
    # The surroundings.
    Cause(
        r"couldn't bind (?:HTTP )?server socket.*?port: (?P<port>\d+)",
        _CRASH,
        "port {port} is in use",
        "use a free port; says nothing about the configuration",
    ),
    Cause(
        r"error while loading shared libraries: (?P<library>[^:]+):",
        _CRASH,
        "the engine cannot start: the library {library} is missing",
        "install the library, or set LD_LIBRARY_PATH to its folder",
    ),
    # The model file.
    Cause(
        r"failed to open GGUF file '?(?P<file>[^'(]+?)'? \(",
        _CRASH,
        "the file {file} cannot be opened",
        _FILE,
    ),
    Cause(
        r"invalid magic characters|failed to read (?:magic|key-value pairs|tensor info)"
        r"|data is not within the file bounds",
        _CRASH,
        "a model file is damaged, incomplete or not GGUF",
        _FILE,
    ),
    Cause(
        r"unknown model architecture: '(?P<what>[^']+)'|(?P<other>unknown pre-tokenizer type\b.*|missing tensor.*"
        r"|wrong number of tensors.*)",
        _CRASH,
        "this build cannot run the model: {what}{other}",
        "use a newer build, or a model file made for this one",
    ),
    Cause(
        r"GGML_ASSERT\((?P<why>.*)\) failed|GGML_ABORT\((?P<other>.*)\)|: (?P<fatal>fatal error)$",
        _CRASH,
        "the engine stopped at a check of its own: {why}{other}{fatal}",
    ),
)

SIGNALS = by_signal(
    {
        "SIGKILL": Cause(
            "",
            _OOM,
            "killed from outside without a word in the log, most likely by the kernel because host memory ran out",
            "less of the model or its caches in host memory; `dmesg` says whether it was the kernel",
            device=HOST,
        ),
        "SIGILL": Cause(
            "",
            _CRASH,
            "the binary is built for other CPU features than this machine has (illegal instruction)",
            "use a build for this CPU, or compile it here",
            device=HOST,
        ),
        "SIGSEGV": Cause("", _CRASH, "the engine crashed (segmentation fault)"),
        "SIGBUS": Cause(
            "",
            _CRASH,
            "the engine crashed (bus error)",
            "the model file may have been cut or changed while it was mapped",
        ),
        "SIGABRT": Cause("", _CRASH, "the engine aborted"),
        "SIGFPE": Cause("", _CRASH, "the engine crashed (arithmetic error)"),
        "SIGTERM": Cause("", _CRASH, "stopped from outside (SIGTERM)"),
        "SIGINT": Cause("", _CRASH, "stopped from outside (SIGINT)"),
        "SIGHUP": Cause("", _CRASH, "stopped from outside (SIGHUP)"),
    }
)
