"""Waits until the server that was just started is ready, or says why it will not be."""

from __future__ import annotations

import time
from collections.abc import Iterable

from tuner.domain.record import TrialRecord
from tuner.domain.verdict import Explanation, Outcome
from tuner.study.kit import Kit, TrialFiles
from tuner.study.launch import Launch, alias_of
from tuner.study.protocols import Process, RunningClient

_SLOWEST_LOAD_MIB_S = 50.0
"""A model on a slow disk: what a start may take grows with its size."""
_LEAST_START_S = 30.0
_TIMES_SLOWER = 5.0
"""How many times the slowest start of this study another configuration's may take."""
_POLL_S = 0.1
_QUIET_S = 120.0
"""How long an engine of which a part has died may write nothing before it is given up: it waits for the dead."""


def start_deadline_s(size_mib: float, records: Iterable[TrialRecord], first_start_s: float) -> float:
    """Seconds that a start may take: by the model's size at first, then by the slowest start that was seen."""
    generous = first_start_s + size_mib / _SLOWEST_LOAD_MIB_S
    seen = [record.measurement.ready_s for record in records if record.measurement is not None]
    return max(min(_LEAST_START_S, generous), _TIMES_SLOWER * max(seen)) if seen else generous


def wait_until_ready(
    kit: Kit, launch: Launch, process: Process, client: RunningClient, files: TrialFiles
) -> Explanation | None:
    """None once the server that was just started answers; otherwise why it does not."""
    size_mib = max(model.size_bytes for model in kit.frozen.models) / 2**20
    allowed_s = start_deadline_s(size_mib, kit.pool.records(), kit.engine.first_start_s)
    deadline = time.monotonic() + allowed_s
    quiet = _QuietDeath(process, files)
    while process.is_running():
        if client.is_ready():
            answering = client.alias()
            if answering in (None, alias_of(kit, launch)):
                return None
            reason = f"another server ({answering}) answers on the port of this trial"
            return Explanation(outcome=Outcome.CRASHED, reason=reason, repair="stop the other server")
        if (died := quiet.died()) is not None:
            alive = kit.engine.explain_exit(files.log_text(), None)
            if alive.outcome is not Outcome.START_TIMEOUT:
                return alive
            reason = f"{died} died without a word, and the engine waits for it"
            return alive.model_copy(update={"outcome": Outcome.CRASHED, "reason": reason, "repair": None})
        if time.monotonic() > deadline:
            alive = kit.engine.explain_exit(files.log_text(), None)
            return alive.model_copy(update={"reason": f"{alive.reason}, after {allowed_s:.0f} s"})
        time.sleep(_POLL_S)
    return kit.engine.explain_exit(files.log_text(), process.returncode)


class _QuietDeath:
    """Notices a part of an engine that has died while nothing is written any more."""

    def __init__(self, process: Process, files: TrialFiles) -> None:
        self._process = process
        self._files = files
        self._size = -1
        self._since = time.monotonic()

    def died(self) -> str | None:
        """Who died, once the silence has lasted too long."""
        try:
            size = self._files.log_path.stat().st_size
        except OSError:
            size = 0
        if size != self._size:
            self._size, self._since = size, time.monotonic()
        if time.monotonic() - self._since < _QUIET_S:
            return None
        # Asked only now: it looks at every process below.
        dead = self._process.dead_children()
        return ", ".join(dead) if dead else None
