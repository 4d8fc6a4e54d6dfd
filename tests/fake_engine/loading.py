"""Loading: what the log says, in order, until the model is ready or the process ends. Wording as in llama.cpp."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from faults import Faults, die
from journal import Journal
from rig import Measured

MIB = 1024 * 1024
FIT = "common_params_fit_impl"


class LoadFailed(Exception):
    """The model could not be loaded: the process ends with exit code 1."""


def breakdown(journal: Journal, measured: Measured, memory: Mapping[str, Mapping[str, float]], loaded: bool) -> None:
    """The memory table, of a projection or of what is really loaded."""
    devices = {device.name: device for device in measured.rig.devices}
    say, source = journal.more, "common_memory_breakdown_print"
    say(source, "| memory breakdown [MiB] | total   free    self   model   context   compute    unaccounted |")
    for name, parts in memory.items():
        model, context, compute = (round(parts[part]) for part in ("model", "context", "compute"))
        total_self = model + context + compute
        sizes = f"{model:5} + {context:7} + {compute:7}"
        if name in devices:
            device = devices[name]
            free = device.free_mib - (total_self if loaded else 0)
            rest = device.total_mib - free - total_self
            title = f"{name} ({device.description})"
            say(
                source,
                f"|   - {title:<18} | {device.total_mib:5} = {free:5} + ({total_self:5} = {sizes}) + {rest:11} |",
            )
        else:
            say(source, f"|   - {name:<18} | {'':16}{total_self:5} = {sizes}{'':16}|")


def fit(journal: Journal, measured: Measured, settings: Mapping[str, Any]) -> None:
    """The dry run of `--fit on`."""
    say, rig = journal.more, measured.rig
    say("cmn common_init_result", "fitting params to device memory ...")
    say(FIT, "getting device memory data for initial parameters:")
    breakdown(journal, measured, measured.projected, loaded=False)
    used = {name: sum(parts.values()) for name, parts in measured.projected.items() if name != "Host"}
    free = {device.name: device.free_mib for device in rig.devices if device.name in used}
    margins = rig.margins(settings)
    if not used:
        host, total = sum(measured.projected["Host"].values()), rig.machine["host_mib"]
        say(FIT, f"projected to use {host:.0f} MiB of host memory vs. {total} MiB of total host memory")
        say(FIT, f"will leave {total - host:.0f} >= 1024 MiB of system memory, no changes needed")
    else:
        if len(used) > 1:
            say(FIT, "projected memory use with initial parameters [MiB]:")
            for device in rig.devices:
                if device.name in used:
                    rest = device.free_mib - used[device.name]
                    say(
                        FIT,
                        f"  - {device.name} ({device.description}): {device.total_mib:6} total, "
                        f"{used[device.name]:6.0f} used, {rest:6.0f} free vs. target of {margins[device.name]:6.0f}",
                    )
        say(
            FIT,
            f"projected to use {sum(used.values()):.0f} MiB of device memory "
            f"vs. {sum(free.values())} MiB of free device memory",
        )
        _fit_result(journal, measured, used, free, margins)
    if measured.plan.gave_up:
        why = f"failed to fit params to free device memory: {measured.plan.gave_up}"
        journal.say("common_fit_params", why, "W")
    else:
        say("common_fit_params", "successfully fit params to free device memory")
    say("common_fit_params", "fitting params to free memory took 0.31 seconds")


def _fit_result(
    journal: Journal,
    measured: Measured,
    used: Mapping[str, float],
    free: Mapping[str, int],
    margins: Mapping[str, float],
) -> None:
    short = sum(max(0.0, used[name] + margins[name] - free[name]) for name in used)
    if short == 0 and len(used) == 1:
        (name,) = used
        journal.more(
            FIT,
            f"will leave {free[name] - used[name]:.0f} >= {margins[name]:.0f} MiB of free device memory, "
            "no changes needed",
        )
    elif short == 0:
        journal.more(FIT, "targets for free memory can be met on all devices, no changes needed")
    else:
        target = f"target of {next(iter(margins.values())):.0f} MiB" if len(used) == 1 else "targets on all devices"
        journal.more(FIT, f"cannot meet free memory {target}, need to reduce device memory by {short:.0f} MiB")
        for change in measured.plan.changes:
            journal.more(FIT, change)


def check_file(journal: Journal, path: str) -> None:
    """Raises LoadFailed unless the file exists and begins as a GGUF file does."""
    try:
        with Path(path).open("rb") as file:
            magic = file.read(4)
    except OSError as problem:
        journal.say("gguf_init_from_file", f"failed to open GGUF file '{path}' ({problem.strerror})", "E")
    else:
        if magic == b"GGUF":
            return
        if len(magic) < 4:
            journal.say("gguf_init_from_reader", "failed to read magic", "E")
        else:
            shown = magic.decode("latin-1")
            journal.say("gguf_init_from_reader", f"invalid magic characters: '{shown}', expected 'GGUF'", "E")
    _not_loaded(journal, path, f"llama_model_loader: failed to load model from {path}")


def _not_loaded(journal: Journal, path: str, why: str) -> None:
    journal.say("llama_model_load", f"error loading model: {why}", "E")
    journal.say("llama_model_load_from_file_impl", "failed to load model", "E")
    journal.say("srv load_model", f"failed to load model, '{path}'", "E")
    raise LoadFailed


def _no_context(journal: Journal, path: str, why: str) -> None:
    journal.say("llama_init_from_model", why, "E")
    journal.say("cmn common_init_result", f"failed to create context with model '{path}'", "E")
    journal.say("srv load_model", f"failed to load model, '{path}'", "E")
    raise LoadFailed


def _refused_allocation(journal: Journal, device: str, mib: float) -> None:
    size = round(mib * MIB)
    if device.startswith(("CUDA", "ROCm")):
        why = f"allocating {mib:.2f} MiB on device {device[4:]}: cudaMalloc failed: out of memory"
        journal.say("ggml_backend_cuda_buffer_type_alloc_buffer", why, "E")
    elif device.startswith("Vulkan"):
        journal.say("ggml_vulkan", f"Device memory allocation of size {size} failed.", "E")
    else:
        journal.say("ggml_backend_cpu_buffer_type_alloc_buffer", f"failed to allocate buffer of size {size}", "E")


def out_of_memory(journal: Journal, measured: Measured, path: str, what: str, device: str) -> None:
    """The log of a failed allocation of `weights`, `kv` or `compute`. Raises LoadFailed."""
    part = {"weights": "model", "kv": "context", "compute": "compute"}[what]
    mib = measured.memory.get(device, {}).get(part, 0.0)
    buffer = "CPU" if device == "Host" else device
    _refused_allocation(journal, buffer, mib)
    if what == "weights":
        journal.say("alloc_tensor_range", f"failed to allocate {buffer} buffer of size {round(mib * MIB)}", "E")
        _not_loaded(journal, path, f"unable to allocate {buffer} buffer")
    if what == "compute":
        journal.say(
            "ggml_gallocr_reserve_n_impl", f"failed to allocate {buffer} buffer of size {round(mib * MIB)}", "E"
        )
    missing = "buffer for kv cache" if what == "kv" else "compute pp buffers"
    _no_context(journal, path, f"failed to initialize the context: failed to allocate {missing}")


def load(
    journal: Journal, measured: Measured, settings: Mapping[str, Any], path: str, faults: Faults, scale: float
) -> None:
    """Load the model. Raises LoadFailed; may end the process, or never return, where a fault says so."""
    plan, more = measured.plan, journal.more
    journal.say("srv load_model", f"loading model '{path}'")
    check_file(journal, path)
    if settings.get("fit", "on") == "on":
        fit(journal, measured, settings)
    for device in measured.rig.devices:
        if device.name in plan.shares:
            about = f"{device.name} ({device.description}) ({device.bus_id}) - {device.free_mib} MiB free"
            more("llama_prepare_model_devices", f"using device {about}")
    more(
        "llama_model_loader",
        f"loaded meta data with 30 key-value pairs and 291 tensors from {path} (version GGUF V3 (latest))",
    )
    more("print_info", f"n_ctx_train           = {measured.rig.model['trained_context']}")
    more("load_tensors", "loading model tensors, this can take a while... (mmap = true, direct_io = false)")
    faults.die_of_signal("load")
    if "hang_load" in faults:
        while True:
            signal.pause()
    time.sleep(measured.rig.model["load_s"] * scale + (faults.number("slow_start", 1) if "slow_start" in faults else 0))
    if "crash_load" in faults:
        journal.raw("/build/src/llama-model.cpp:3391: GGML_ASSERT(hparams.n_embd_head_k % 32 == 0) failed\n")
        die(signal.SIGABRT)
    if measured.failure in ("weights", "kv", "compute"):
        out_of_memory(journal, measured, path, measured.failure, str(measured.failed_device))
    if "oom_load" in faults:
        out_of_memory(journal, measured, path, "kv", next(iter(plan.shares), "Host"))
    _report_buffers(journal, measured, faults)
    if measured.failure == "quantized_v":
        _no_context(
            journal, path, "failed to initialize the context: quantized V cache requires flash_attn to be enabled"
        )
    _start_speculation(journal, measured, settings, path)


def _report_buffers(journal: Journal, measured: Measured, faults: Faults) -> None:
    more, plan, memory = journal.more, measured.plan, measured.memory
    layers = measured.rig.model["layers"] + 1
    on_device = plan.gpu_layers if measured.rig.devices else layers  # a build without devices counts all as offloaded
    more("load_tensors", f"offloading {max(0, on_device - 1)} repeating layers to GPU")
    more("load_tensors", f"offloaded {on_device}/{layers} layers to GPU")
    for name, parts in memory.items():
        more(
            "load_tensors",
            f"{'CPU_Mapped' if name == 'Host' else name:>12} model buffer size = {parts['model']:8.2f} MiB",
        )
    for key, value in (("n_seq_max", plan.slots), ("n_ctx", plan.context), ("n_ctx_seq", plan.context_per_slot),
                       ("n_batch", plan.batch), ("n_ubatch", plan.ubatch)):  # fmt: skip
        more("llama_context", f"{key:<13} = {value}")
    more("llama_context", f"kv_unified    = {str(plan.unified).lower()}")
    for name, parts in memory.items():
        if parts["context"]:
            more(
                "llama_kv_cache",
                f"{'CPU' if name == 'Host' else name:>10} KV buffer size = {parts['context']:8.2f} MiB",
            )
    size = sum(parts["context"] for parts in memory.values())
    cells = f"{plan.context:6} cells, {layers - 1:3} layers, {plan.slots:2}/{plan.slots} seqs"
    type_k = "f32" if "other_kv_types" in faults else plan.type_k
    halves = f"K ({type_k}): {size / 2:7.2f} MiB, V ({plan.type_v}): {size / 2:7.2f} MiB"
    more("llama_kv_cache", f"size = {size:7.2f} MiB ({cells}), {halves}")
    flash = "Flash Attention enabled" if plan.flash else "Flash Attention not supported, set to disabled"
    if plan.flash or measured.settings.get("flash_attn") != "off":
        more("resolve_fused_ops", flash)
    for name, parts in memory.items():
        more(
            "sched_reserve",
            f"{'CPU' if name == 'Host' else name:>10} compute buffer size = {parts['compute']:8.2f} MiB",
        )
    more("sched_reserve", f"graph nodes  = {30 * layers}")
    on_cpu = layers - on_device + (layers if measured.mixed_kv or "attention_on_cpu" in faults else 0)
    more("sched_reserve", f"graph splits = {1 + bool(measured.rig.devices) + 2 * on_cpu}")


def _start_speculation(journal: Journal, measured: Measured, settings: Mapping[str, Any], path: str) -> None:
    plan = measured.plan
    if settings.get("spec_draft_model"):
        check_file(journal, str(settings["spec_draft_model"]))
    if measured.failure == "no_mtp":
        journal.say("llama_init_from_model", "context type MTP requested but model doesn't contain MTP layers", "E")
        _no_context(journal, path, "failed to create MTP context")
    unified = str(plan.unified).lower()
    sizes = f"n_slots = {plan.slots}, n_ctx_slot = {plan.context_per_slot}"
    journal.say("srv load_model", f"initializing, {sizes}, kv_unified = '{unified}'")
    if plan.spec_failed:
        journal.say("srv load_model", "failed to initialize speculative decoding context", "E")
    elif plan.spec:
        for kind in plan.spec:
            journal.more("spec common_speculative_init", f"adding speculative implementation '{kind}'")
        p_min = float(settings.get("spec_draft_p_min", 0))
        journal.more(
            "spec common_speculative_init",
            f"- n_max={plan.n_max}, n_min={settings.get('spec_draft_n_min', 0)}, p_min={p_min:.2f}",
        )
        journal.say("srv load_model", "speculative decoding context initialized")
    else:
        journal.more("spec common_speculative_init", "no implementations specified for speculative decoding")
