"""Why a request of a trial failed."""

from __future__ import annotations

import time

from tuner.domain.measurement import RequestFailure
from tuner.domain.verdict import Explanation, Outcome
from tuner.study.kit import Kit, TrialFiles
from tuner.study.protocols import Process
from tuner.workload.measure import WorkloadResult

_LAST_WORDS_S = 5.0
"""How long a process that dropped a connection may take to die and say why."""
_POLL_S = 0.1

_FAILED_REQUESTS = {
    "no_first_token": Explanation(outcome=Outcome.STALLED, reason="", repair="the engine is alive and silent"),
    "stalled": Explanation(outcome=Outcome.STALLED, reason="", repair="the engine is alive and silent"),
    "connection_lost": Explanation(outcome=Outcome.CRASHED, reason=""),
    "refused": Explanation(outcome=Outcome.CRASHED, reason=""),
    "context_exceeded": Explanation(outcome=Outcome.DEGRADED, reason="", repair="more context"),
}

_WORDS = {
    "no_first_token": "the server never began to answer",
    "stalled": "the server fell silent",
    "connection_lost": "the connection was lost, though the server is alive",
    "refused": "the server answered with an error",
    "context_exceeded": "the prompt does not fit the context that the server gives",
}


def explain_failure(kit: Kit, process: Process, files: TrialFiles, result: WorkloadResult) -> Explanation:
    """Why a request failed: the process's own last words if it died of it."""
    failure = result.failure
    assert failure is not None
    at = f"in cell {result.failed_cell}"
    if failure.kind in ("connection_lost", "refused"):
        deadline = time.monotonic() + _LAST_WORDS_S
        while process.is_running() and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        if not process.is_running():
            died = kit.engine.explain_exit(files.log_text(), process.returncode)
            return died.model_copy(update={"reason": f"{died.reason}, {at}"})
    return _FAILED_REQUESTS[failure.kind].model_copy(update={"reason": _told(failure, at)})


def _told(failure: RequestFailure, at: str) -> str:
    return f"{_WORDS[failure.kind]} {at} ({failure.detail})"
