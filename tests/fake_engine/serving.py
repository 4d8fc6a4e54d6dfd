"""From a checked command line to a server that answers: bind, load, serve until a signal comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import loading
from faults import Faults
from http_service import Model, Service
from journal import Journal
from noise import Noise
from rig import Measured, Rig, effective_settings
from slots import Slots

GRANDCHILD = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def serve(settings: dict[str, Any], rig: Rig) -> int:
    """Bind, load, answer until a signal comes. Returns only when it could not start."""
    journal = Journal(9 if settings.get("verbose") else settings.get("verbosity", 3), settings.get("log_file"))
    measured, faults = plan(settings, rig)
    if "ignore_sigterm" in faults:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "grandchild" in faults:
        child = subprocess.Popen([sys.executable, "-c", GRANDCHILD])
        journal.say("srv llama_server", f"grandchild pid {child.pid}")
    greet(journal, measured)
    host, port = settings.get("host", "127.0.0.1"), settings.get("port", 8080)
    try:
        service = Service(host, port)
    except OSError:
        journal.say("srv start", f"couldn't bind HTTP server socket, hostname: {host}, port: {port}", "E")
        return _give_up(journal, "HTTP server error")
    threading.Thread(target=service.serve_forever, kwargs={"poll_interval": 3600}, daemon=True).start()
    path = settings.get("model", "")
    scale = float(os.environ.get("FAKE_TIME_SCALE", 0.001))
    try:
        loading.load(journal, measured, settings, path, faults, scale)
    except loading.LoadFailed:
        return _give_up(journal, "model loading error")
    _end_on_signals(journal, measured, ignore_sigterm="ignore_sigterm" in faults)  # before /health is 200
    service.model = _loaded(settings, measured, faults, journal, path, scale)
    for slot in service.model.slots.all:
        journal.say("slot load_model", f"id {slot.id:2} | task -1 | new slot, n_ctx = {service.model.slots.context}")
    journal.say("srv llama_server", "model loaded")
    journal.say("srv llama_server", f"server is listening on http://{host}:{service.server_port}")
    journal.say("srv update_slots", "all slots are idle")
    while True:
        signal.pause()


def plan(settings: dict[str, Any], rig: Rig) -> tuple[Measured, Faults]:
    """What will run on this rig, with the faults that change it already in it."""
    measured = rig.measure(settings, os.environ)
    resolved = effective_settings(measured.plan, rig.machine)
    faults = Faults.read(os.environ.get("FAKE_FAULT", ""), resolved | settings)
    if "no_speculation" in faults and measured.plan.spec:
        measured = rig.measure(settings | {"spec_type": "none"}, os.environ)
        measured = replace(measured, plan=replace(measured.plan, spec_failed=True))
    if "cut_context" in faults:
        measured = replace(measured, plan=replace(measured.plan, context=measured.plan.context // 2))
    return measured, faults


def greet(journal: Journal, measured: Measured) -> None:
    """The first lines of the log."""
    journal.say(
        "cmn common_params_print_info",
        f"common_params_print_info: verbosity = {journal.verbosity} (adjust with the `-lv N` CLI arg)",
    )
    cores, host = measured.rig.machine["cores"], measured.rig.machine["host_mib"]
    journal.more("cmn common_params_print_info", "device_info:")
    for device in measured.rig.devices:
        about = f"{device.description} ({device.total_mib} MiB, {device.free_mib} MiB free)"
        journal.more("cmn common_params_print_info", f"  - {device.name:<8}: {about}")
    journal.more("cmn common_params_print_info", f"  - CPU     : simulated ({host} MiB, {host} MiB free)")
    journal.more(
        "cmn common_params_print_info", f"system_info: n_threads = {cores} (n_threads_batch = {cores}) / {cores}"
    )
    if "parallel" not in measured.settings:
        journal.more("srv llama_server", "n_parallel is set to auto, using n_parallel = 4 and kv_unified = true")


def _loaded(
    settings: dict[str, Any], measured: Measured, faults: Faults, journal: Journal, path: str, scale: float
) -> Model:
    aliases = [name for name in str(settings.get("alias", "")).split(",") if name] or [Path(path).name]
    slots = Slots(
        measured.plan.slots, measured.plan.context_per_slot, measured.plan.context if measured.plan.unified else None,
        measured, faults, journal, scale, Noise.read(aliases[0], measured.rig),
    )  # fmt: skip
    return Model(
        aliases, path, slots, measured, metrics=bool(settings.get("metrics", False)),
        endpoint_slots=bool(settings.get("slots", True)), cache_prompt=bool(settings.get("cache_prompt", True)),
    )  # fmt: skip


def _end_on_signals(journal: Journal, measured: Measured, ignore_sigterm: bool) -> None:
    def end(_number: int, _frame: object) -> None:
        journal.say("srv operator()", "operator(): cleaning up before exit...")
        loading.breakdown(journal, measured, measured.memory, loaded=True)
        os._exit(0)  # requests that are still running are dropped, and their threads do not count

    signal.signal(signal.SIGINT, end)
    if not ignore_sigterm:
        signal.signal(signal.SIGTERM, end)


def _give_up(journal: Journal, why: str) -> int:
    journal.say("srv operator()", "operator(): cleaning up before exit...")
    journal.say("srv llama_server", f"exiting due to {why}", "E")
    return 1
