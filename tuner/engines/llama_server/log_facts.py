"""Reads from llama-server's log what it really does: placement, attention, speculation, memory.

Buffer sizes, the memory projection and the offload count are logged at `-lv 4`. A log may hold several loads: the fit
pass (`-fit on`) may build a model and contexts without memory to see whether they would fit, the server may load its
model again after sleeping, and a draft model or MTP context is built beside the target. Only lines in their order tell
these apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tuner.domain.measurement import ActualSettings
from tuner.domain.memory import HOST, MemoryProjection

_PREFIX = re.compile(r"^\d+\.\d\d\.\d{3}\.\d{3} [A-Z] ")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_USING_DEVICE = re.compile(r"using device (\S+) \(.*\) \(([0-9a-fA-F]+:[0-9a-fA-F:.]+)\) - \d+ MiB free")
_RPC_DEVICE = re.compile(r"\b(RPC\d+)\s*(?::|\() ?([\w.-]+:\d+)\b")
_RPC_BUFFER = re.compile(r"RPC\d*\[([^\]]+)\]")
_HOST_BUFFER = re.compile(r"CPU|Host|.*_Host|AMX|BLAS|ZenDNN|KleidiAI")
_BUFFER_KIND = re.compile(r"_(?:Mapped|Private|Split)$|-REPACK$")

_BUFFER = re.compile(r":\s+(\S+)\s+(model|KV|RS|output|compute|LoRA) buffer size\s*=\s*([\d.]+) MiB")
_FLASH = re.compile(
    r"Flash Attention (enabled|.*set to (?:enabled|disabled))|flash_attn\s*=\s*(enabled|disabled|[01])\s*$"
)
_KV_TYPES = re.compile(r"llama_kv_cache: size = .*\bK \((\w+)\):.*\bV \((\w+)\):")
_SPLITS = re.compile(r"graph splits = (\d+)|\bsplits = (\d+)(?: / (\d+))?")
_OFFLOADED = re.compile(r"offloaded (\d+/\d+) layers to GPU")
_SPECULATION = (
    ("speculative decoding context initialized", True),
    ("failed to initialize speculative decoding context", False),
    ("no implementations specified for speculative decoding", False),
)

_TABLE_HEAD = re.compile(r"\| memory breakdown \[MiB\]\s*\|")
_DEVICE_ROW = re.compile(r"\|\s+- (\S+) .*?\|\s*(\d+) =\s*(-?\d+) \+ \(\s*(\d+) =")
_HOST_ROW = re.compile(r"\|\s+- (\S+)\s+\|\s*(\d+) =\s*\d+ \+")
_HOST_TOTAL = re.compile(r"projected to use \d+ MiB of host memory vs\. (\d+) MiB of total host memory")
_SPECULATION_ESTIMATE = re.compile(r"\[spec\] estimated memory usage of .* is ([\d.]+) MiB")


_NOT_AS_ASKED: tuple[tuple[str, str], ...] = (
    (
        r"layer (\d+) is assigned to device (\S+) but (?:the )?(.+?) (?:tensor )?is assigned to device (\S+)",
        "layer {0} lies on {1} while its {2} runs on {3}: slow, and often memory that ran short in disguise",
    ),
    (
        r"Flash Attention .*set to disabled",
        "flash attention was switched off by the engine: it cannot run as asked here",
    ),
    (r"flash attention is not supported .*falling back to CPU", "flash attention fell back to the CPU"),
    (
        r"failed to initialize speculative decoding context:? ?(.*)",
        "speculation could not be set up and is off although it was asked for ({0})",
    ),
    (
        r"draft model vocab (?:type )?must|the target and draft vocabs are not compatible",
        "the draft model has another vocabulary than the target: speculation is off or pays for translation",
    ),
    (r"failed to fit params to free device memory: (.*)", "the engine gave up fitting itself into memory ({0})"),
    (r"context size reduced from (\d+) to (\d+)", "the engine cut the context from {0} to {1} tokens to fit memory"),
    (r"Failed to connect to (\S+:\d+)", "the RPC server {0} did not answer and is left out"),
    (r"device lost on (\S+)|ErrorDeviceLost", "the GPU driver reset the device: every later request fails"),
)
"""Pattern of a log line -> sentence, for what makes a run another one than was asked for; `{0}` is the first group."""

_NOTEWORTHY: tuple[tuple[str, str], ...] = (
    (r"(fused .+|Lightning Indexer) not supported, set to disabled", "the engine runs without its {0} operation"),
    (r"low acceptance streak", "the n-gram drafter started over after many refused drafts"),
    (
        r"forcing full prompt re-processing",
        "a prompt was computed again in full because its prefix could not be reused: prefill figures include it",
    ),
    (
        r"retrying without pipeline parallelism",
        "memory was too short for pipeline parallelism: several GPUs take turns, prefill is slower",
    ),
    (
        r"- (\S+) .*: *(\d+) layers \( *([1-9]\d*) overflowing\)",
        "the engine moved parts of {2} layers off {0}",
    ),
    (
        r"the slot context \((\d+)\) exceeds the training context of the model \((\d+)\)",
        "a slot of {0} tokens was capped at the trained context of {1}, while memory is taken for all of it",
    ),
    (r"no usable GPU found", "no GPU was found: everything runs on the CPU"),
    (r"failed to allocate ([\d.]+ M\w+) of pinned memory", "{0} of host memory could not be pinned: loading is slower"),
    (r"failed to allocate memory for prompt cache state", "host memory was too short to save a prompt in the cache"),
    (r"send_error: .*error: (.+)", "a request was answered with an error ({0})"),
)
"""The same for what a person should know, though the run is the one that was asked for."""


def clean_lines(log_text: str) -> list[str]:
    """The lines of a log without colours, time stamp and level."""
    return [_PREFIX.sub("", line.rstrip()) for line in _COLOUR.sub("", log_text).splitlines()]


def rpc_devices(log_text: str) -> dict[str, str]:
    """`host:port` -> the device's name (`RPC1`). Buffer names count within each server and so all begin with RPC0."""
    return {endpoint: name for name, endpoint in _RPC_DEVICE.findall(log_text)}


def bus_ids(log_text: str) -> dict[str, str]:
    """Device -> PCI bus id, from `using device CUDA0 (NVIDIA ...) (0000:01:00.0) - 23000 MiB free`."""
    found = (_USING_DEVICE.search(line) for line in clean_lines(log_text))
    return {match[1]: match[2] for match in found if match}


def device_of(buffer: str, rpc: dict[str, str]) -> str:
    """The device that holds a buffer of this type: `CUDA0`, `CPU` for `CPU_Mapped` or `CUDA_Host`, ..."""
    if endpoint := _RPC_BUFFER.fullmatch(buffer):
        return rpc.get(endpoint[1], buffer)
    plain = _BUFFER_KIND.sub("", buffer)
    return HOST if buffer.startswith("CPU") or _HOST_BUFFER.fullmatch(plain) else plain


def settings_from_log(log_text: str) -> ActualSettings:
    """Flash attention, offloaded layers, speculation and buffer sizes of the last load; what the log omits is None.

    Flash attention and offloaded layers are those of the target model. Buffers of a draft count as well: they lie on
    the same devices at the same time.
    """
    rpc = rpc_devices(log_text)
    flash: bool | None = None
    offloaded: str | None = None
    speculation: bool | None = None
    kv_types: str | None = None
    splits: int | None = None
    context = 0
    sizes: dict[tuple[str, str], float] = {}
    for line in _last_load(clean_lines(log_text)):
        if "constructing llama_context" in line:
            context += 1
        elif match := _BUFFER.search(line):
            buffer, kind, mib = match[1], match[2], float(match[3])
            if kind in ("compute", "output"):  # reserved again at will: the latest size replaces the one before
                sizes[buffer, f"{kind} {context}"] = mib
            else:
                sizes[buffer, kind] = sizes.get((buffer, kind), 0.0) + mib
        elif (match := _FLASH.search(line)) and context <= 1:
            flash = (match[1] or match[2]).endswith(("enabled", "1"))
        elif (match := _KV_TYPES.search(line)) and context <= 1:
            kv_types = f"{match[1]}/{match[2]}"
        elif (match := _SPLITS.search(line)) and context <= 1:
            splits = max(splits or 0, *(int(number) for number in match.groups() if number))
        elif (match := _OFFLOADED.search(line)) and offloaded is None:
            offloaded = match[1]
        else:
            speculation = next((value for text, value in _SPECULATION if text in line), speculation)
    buffers: dict[str, float] = {}
    for (buffer, _), mib in sizes.items():
        device = device_of(buffer, rpc)
        buffers[device] = round(buffers.get(device, 0.0) + mib, 2)
    return ActualSettings(
        flash_attention=flash,
        offloaded_layers=offloaded,
        speculation=speculation,
        kv_types=kv_types,
        graph_splits=splits,
        buffers_mib=buffers,
    )


def projected_memory(log_text: str) -> MemoryProjection | None:
    """The last projection of the fit pass before weights are loaded; None if the log has none.

    The engine prints the same table when it shuts down, with what was used: that one is not a projection.
    """
    lines = clean_lines(log_text)
    rows: list[str] = []
    in_table = False
    host_total: float | None = None
    speculation: float | None = None
    for line in lines:
        if re.search(r"fitting params to \w+ memory took|model loaded|cleaning up before exit", line):
            break
        if _TABLE_HEAD.search(line):
            rows, in_table = [], True
        elif in_table and re.search(r"\|\s+- ", line):
            rows.append(line)
        else:
            in_table = False
        if match := _HOST_TOTAL.search(line):
            host_total = float(match[1])
        if match := _SPECULATION_ESTIMATE.search(line):
            speculation = float(match[1])
            rows = []  # the table before this line was the draft's
    needed: dict[str, float] = {}
    free: dict[str, float] = {}
    for row in rows:
        if match := _DEVICE_ROW.search(row):
            needed[match[1]] = float(match[4])
            free[match[1]] = float(match[3])
        elif match := _HOST_ROW.search(row):
            device = device_of(match[1], {})
            needed[device] = needed.get(device, 0.0) + float(match[2])
    if not needed:
        return None
    if host_total is not None:
        free[HOST] = host_total
    return MemoryProjection(needed_mib=needed, free_mib=free, speculation_mib=speculation)


def explain_live(log_text: str) -> list[str]:
    """What a person should know of a server that is up, one sentence each, in order of appearance.

    None of these stops the server or turns `/health` red.
    """
    return _signs(log_text, _NOT_AS_ASKED + _NOTEWORTHY)


def not_as_asked(log_text: str) -> list[str]:
    """The signs of `explain_live` that make the run another one than was asked for."""
    return _signs(log_text, _NOT_AS_ASKED)


def _signs(log_text: str, patterns: tuple[tuple[str, str], ...]) -> list[str]:
    # A dictionary for its order: how often a sign shows differs from launch to launch, and means nothing.
    signs: dict[str, None] = {}
    drafting: bool | None = None
    for line in clean_lines(log_text):
        for pattern, sentence in patterns:
            if match := re.search(pattern, line):
                told = sentence.format(*(group or "" for group in match.groups())).replace(" ()", "")
                signs[told] = None
        if "loading draft model" in line:
            drafting = False
        elif "adding speculative implementation" in line:
            drafting = True
        elif "no implementations specified for speculative decoding" in line and drafting is False:
            signs["a draft model was loaded but no kind of speculation was chosen: it only takes memory"] = None
    return list(signs)


def _last_load(lines: list[str]) -> Iterator[str]:
    """The lines of the server's last load, without what its fit pass says of models that it does not keep."""
    starts = [i for i, line in enumerate(lines) if "load_model: loading model '" in line]
    fitting = dry = False
    for line in lines[starts[-1] if starts else 0 :]:
        if "fitting params to device memory" in line:
            fitting = True
        elif "fitting params to free memory took" in line:
            fitting = False
        elif match := re.search(r"no_alloc\s+= ([01])", line):
            dry = match[1] == "1"
        elif "loaded meta data with" in line:
            dry = False
        if not (fitting or dry):
            yield line
