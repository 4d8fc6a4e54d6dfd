#!/usr/bin/env python3
"""A fake SGLang: what a Python interpreter with SGLang in it, or its `sglang` command, does when a server is started.

    sglang_server.py -m sglang.launch_server ARGUMENTS      sglang_server.py serve ARGUMENTS
    sglang_server.py -c CODE      answers what the tuner asks an interpreter: version and devices

Flags, logs, HTTP shapes and exit codes are SGLang's, speeds and memory come from a rig file; time is compressed.
FAKE_RIG, FAKE_TIME_SCALE, FAKE_NOISE and their like as for the fake llama-server, and FAKE_FAULT with the names of
`faults.py` that are told here, and:

    quiet_rank       a scheduler dies while the launcher waits for it, for ever
    watchdog         the engine's own watchdog ends it in the first request
    older_build      older routes and counters: /get_server_info, no /tokenize, verifications only

Standard library only, so that it starts as fast as Python does.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import sglang_settings
from faults import Faults
from rig import Rig
from sglang_plan import Plan, plan

FAULTS = {
    "hang_load", "slow_start", "killed", "crash_load", "oom_midprompt", "hang_request", "stall_midstream",
    "crash_request", "http500", "garbage", "ignore_sigterm", "grandchild", "no_speculation", "quiet_rank", "watchdog",
    "older_build",
}  # fmt: skip
VERSION = "0.5.23"
_SLEEPER = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def say(text: str, rank: str = "") -> None:
    """One line of the log."""
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    sys.stderr.write(f"[{stamp}{rank}] {text}\n")
    sys.stderr.flush()


def kill_tree() -> None:
    """What the launcher does when a child failed: everything ends with SIGKILL, itself included."""
    say("Received sigquit from a child process. It usually means the child failed.")
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


def fail(kind: str, message: str) -> None:
    """A scheduler that fails: its traceback, then the launcher's end."""
    trace = 'Traceback (most recent call last):\n  File "scheduler.py", line 3201, in run_scheduler_process'
    say(f"Scheduler hit an exception: {trace}\n{kind}: {message}\n", " TP0")
    kill_tree()


def main(argv: list[str]) -> int:
    """Run with these arguments; the exit code is SGLang's."""
    if argv[:1] == ["-c"]:
        return _probe()
    for start in (["-m", "sglang.launch_server"], ["serve"]):
        if argv[: len(start)] == start:
            argv = argv[len(start) :]
            break
    else:
        print(f"{argv[:2]}: this fake knows nothing but SGLang's server", file=sys.stderr)
        return 1
    if {"-h", "--help"} & set(argv):
        print(sglang_settings.HELP_FILE.read_text(), end="")
        return 0
    try:
        settings = sglang_settings.parse(argv)
    except sglang_settings.ArgumentError as refused:
        print(refused, file=sys.stderr)
        return 2
    rig = Rig.load()
    planned = plan(settings, rig)
    told = {name: value for name, value in settings.items() if value not in (None, False)}
    resolved = {"mem_fraction_static": planned.fraction, "chunked_prefill_size": planned.chunk, "steps": planned.steps}
    faults = Faults.read(os.environ.get("FAKE_FAULT", ""), resolved | told, FAULTS)
    return _serve(settings, planned, faults)


def _probe() -> int:
    mib = 2**20
    devices = [[d.name, d.description, d.total_mib * mib, d.free_mib * mib] for d in Rig.load().devices]
    print("PROBE " + json.dumps({"version": VERSION, "devices": devices}))
    return 0


def _serve(settings: dict[str, Any], planned: Plan, faults: Faults) -> int:
    from sglang_http import Service

    scale = float(os.environ.get("FAKE_TIME_SCALE", 0.001))
    own = {"mem_fraction_static": planned.fraction, "chunked_prefill_size": planned.chunk}
    say(f"server_args={ {**settings, **own} }")
    if "ignore_sigterm" in faults:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "grandchild" in faults:
        subprocess.Popen([sys.executable, "-c", _SLEEPER], start_new_session=True)
    _load(settings, planned, faults, scale)
    host, port = settings.get("host") or "127.0.0.1", settings.get("port") or 30000
    try:
        service = Service(host, port, settings, planned, faults, scale)
    except OSError:
        say(
            f"ERROR:    [Errno 98] error while attempting to bind on address ('{host}', {port}): address already in use"
        )
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it has been seen to run on, deaf to SIGTERM
        threading.Event().wait()
    say(f"INFO:     Uvicorn running on http://{host}:{port} (Press CTRL+C to quit)")
    if "ignore_sigterm" not in faults:
        signal.signal(signal.SIGTERM, lambda *_: _drained())
    say("The server is fired up and ready to roll!")
    service.serve_forever(poll_interval=3600)
    return 0


def _drained() -> None:
    say("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
    os._exit(0)


def _load(settings: dict[str, Any], planned: Plan, faults: Faults, scale: float) -> None:
    """From the weights to the graphs; may end the process, or never return, where the plan or a fault says so."""
    rank = " TP0"
    folder = Path(settings["model_path"])
    if not (folder / "config.json").is_file():
        message = f"{folder} does not appear to have a file named config.json."
        print(f"Traceback (most recent call last):\nOSError: {message}", file=sys.stderr, flush=True)
        os._exit(1)
    say(f"Load weight begin. avail mem={planned.measured.rig.devices[0].free_mib / 1024:.2f} GB", rank)
    if "hang_load" in faults:
        threading.Event().wait()
    if "killed" in faults:
        message = "Rank 0 scheduler died during initialization (exit code: -9). If exit code is -9 (SIGKILL), a common"
        message += " cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to check."
        print(f"Traceback (most recent call last):\nRuntimeError: {message}", file=sys.stderr, flush=True)
        os._exit(1)
    if "quiet_rank" in faults:
        child = subprocess.Popen([sys.executable, "-c", "pass"])
        say(f"launched scheduler pid={child.pid}")
        threading.Event().wait()
    weights = folder / "model.safetensors"
    if not weights.is_file() or weights.read_bytes()[:2] == b"\x08\0":
        fail("safetensors_rust.SafetensorError", "Error while deserializing header: invalid header length")
    time.sleep(planned.measured.rig.model["load_s"] * scale)
    if "slow_start" in faults:
        time.sleep(faults.number("slow_start", 1))
    if "crash_load" in faults:
        fail("RuntimeError", "CUDA error: an illegal memory access was encountered")
    say("Load weight end. elapsed=3.10 s, type=Qwen3_5ForCausalLM, avail mem=14.01 GB, mem usage=16.48 GB.", rank)
    if planned.pool <= 0:
        message = "Not enough memory. Please try to increase --mem-fraction-static."
        fail("RuntimeError", f"{message} Current value: mem_fraction_static={planned.fraction}")
    cache = settings.get("kv_cache_dtype") or "auto"
    dtype = {"fp8_e4m3": "torch.float8_e4m3fn", "fp8_e5m2": "torch.float8_e5m2"}.get(cache, "torch.bfloat16")
    half = planned.pool_mib / 2048
    say(
        f"KV Cache is allocated. dtype: {dtype}, #tokens: {planned.pool}, K size: {half:.2f} GB, V size: {half:.2f} GB",
        rank,
    )
    if planned.graphs_mib > planned.rest_mib:
        out = out_of_memory(planned.graphs_mib, planned.rest_mib)
        fail("Exception", f"Capture cuda graph failed: {out}\nPossible solutions:\n1. set --mem-fraction-static to a "
             "smaller value (e.g., 0.8 or 0.7)")  # fmt: skip
    left = (planned.rest_mib - planned.graphs_mib) / 1024
    told = f"max_total_num_tokens={planned.pool}, chunked_prefill_size={planned.chunk}, max_prefill_tokens=16384"
    told += f", max_running_requests={planned.requests}, context_len={planned.context}"
    say(f"{told}, available_gpu_mem={left:.2f} GB", rank)


def out_of_memory(size_mib: float, free_mib: float) -> str:
    """What torch says of an allocation that fails."""
    return (
        f"CUDA out of memory. Tried to allocate {size_mib:.2f} MiB. GPU 0 has a total capacity of 31.84 GiB of which "
        f"{free_mib:.2f} MiB is free. Of the allocated memory 29.87 GiB is allocated by PyTorch"
    )


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # a thread that still serves must not keep the process
