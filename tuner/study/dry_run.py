"""Asks the engine what a launch would need, in about a second, before anything is loaded."""

from __future__ import annotations

import time

from tuner.domain.command import LaunchCommand
from tuner.domain.memory import HOST, MemoryProjection
from tuner.study.kit import Kit, TrialFiles

_LONGEST_S = 30.0
_POLL_S = 0.05
_PLENTY = 4.0
"""A machine with so many times the memory that the baseline needs is not asked again and again."""


def project_memory(kit: Kit, command: LaunchCommand, files: TrialFiles, *, marker: str) -> MemoryProjection | None:
    """What the command would need; None where the engine cannot say or there is no reason to ask."""
    if _has_plenty(kit):
        return None
    dry_run = kit.engine.dry_run(command, kit.engine_facts(command.argv[0]), port=kit.free_port(), alias="dry-run")
    if dry_run is None:
        return None
    inherited, _ = kit.engine.clean_environment(kit.environment)
    deadline = time.monotonic() + _LONGEST_S
    with kit.start_process(dry_run.argv, {**inherited, **dry_run.env}, files.dry_run_log_path, marker) as process:
        while True:
            alive = process.is_running()
            projection = kit.engine.projection(files.dry_run_log_text())
            if projection is not None or not alive or time.monotonic() > deadline:
                return projection and _within_limits(kit, projection)
            time.sleep(_POLL_S)


def _within_limits(kit: Kit, projection: MemoryProjection) -> MemoryProjection:
    """The engine sees all memory of the machine; a control group may allow less."""
    host = projection.free_mib.get(HOST)
    if host is None or host <= kit.frozen.machine.memory_mib:
        return projection
    free = {**projection.free_mib, HOST: float(kit.frozen.machine.memory_mib)}
    return projection.model_copy(update={"free_mib": free})


def _has_plenty(kit: Kit) -> bool:
    """Whether the baseline's own log shows memory to spare on every device; only asked of a machine without GPUs.

    A GPU that is nearly empty now can be filled by one long context.
    """
    if any(facts.devices for facts in kit.frozen.engines):
        return False
    model_mib = max(model.size_bytes for model in kit.frozen.models) / 2**20
    return kit.frozen.machine.memory_mib > _PLENTY * 2 * model_mib + 4096
