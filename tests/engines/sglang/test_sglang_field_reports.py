"""What people reported of SGLang, in its own words: the outcome that each report gets here.

Sources are issue threads of SGLang and of its relatives, which share its memory model.
"""

from __future__ import annotations

import json

import pytest

from tuner.domain.measurement import RequestFailure
from tuner.domain.verdict import Outcome
from tuner.engines.sglang.client import _refused
from tuner.engines.sglang.exits import explain_exit
from tuner.engines.sglang.log_facts import observations

LOADED = "[2026-12-01 06:05:16 TP0] Load weight begin. avail mem=21.55 GB\n[2026-12-01 06:05:16 TP0] Load weight end.\n"
READY = LOADED + "[2026-12-01 06:05:18] The server is fired up and ready to roll!\n"
OUT = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 138.00 MiB. GPU 0 has a total capacity of 23.56 GiB "
    "of which 110.50 MiB is free. 22.57 GiB is allocated by PyTorch, with 24.00 MiB allocated in private pools\n"
)
SIGQUIT = "[2026-12-01 06:05:20] Received sigquit from a child process. It usually means the child failed.\n"

DEATHS: dict[str, tuple[str, int | None, Outcome, str, bool | None]] = {
    "sglang 4330, at 0.84": (
        LOADED + "[2026-12-01 06:05:16 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n" + SIGQUIT,
        -9, Outcome.OUT_OF_MEMORY, "leave no room for a KV cache", True,
    ),
    "sglang 4330, at 0.85": (LOADED + OUT + SIGQUIT, -9, Outcome.OUT_OF_MEMORY, "CUDA0", False),
    "a 3090, a long tool response": (READY + OUT + SIGQUIT, -9, Outcome.OUT_OF_MEMORY, "138 MiB asked for", False),
    "sglang 4330, while capturing": (
        LOADED + "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a "
        "total capacity of 44.40 GiB of which 1.10 GiB is free.\nPossible solutions:\n1. set --mem-fraction-static to "
        "a smaller value (e.g., 0.8 or 0.7)\n" + SIGQUIT,
        -9, Outcome.OUT_OF_MEMORY, "CUDA graphs", False,
    ),
    "sglang-omni 292, newer words": (
        LOADED + "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.6. "
        "Raise --mem-fraction-static above 0.716 (minimum viable = 1 - available/pre = 0.7154).\n" + SIGQUIT,
        -9, Outcome.OUT_OF_MEMORY, "0.716", True,
    ),
    "sglang 20287, a rank is killed": (
        LOADED + "RuntimeError: Rank 1 scheduler died during initialization (exit code: -9). If exit code is -9 "
        "(SIGKILL), a common cause is the OS OOM killer.\n",
        1, Outcome.OUT_OF_MEMORY, "killed from outside", None,
    ),
    "sglang 20287, and nobody says so": (LOADED, None, Outcome.START_TIMEOUT, "alive but was not ready", None),
    "sglang 15997": (
        READY + "[2026-12-01 06:06:00] Subprocess scheduler_0 (pid=4711) crashed with exit code -9. Triggering SIGQUIT "
        "for cleanup...\n[2026-12-01 06:06:00] SIGQUIT received. signum=3, frame=None. It usually means one child "
        "failed.\n",
        -9, Outcome.OUT_OF_MEMORY, "killed from outside", None,
    ),
    "sglang 40364": (
        READY + "[2026-12-01 06:06:00 DP0 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        "  File \"scheduler.py\", line 12, in loop\nKeyError: 'bootstrap_room'\n" + SIGQUIT,
        -9, Outcome.CRASHED, "bootstrap_room", None,
    ),
    "the watchdog": (
        READY + "[2026-12-01 06:11:00 TP0] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)\n"
        + SIGQUIT,
        -9, Outcome.STALLED, "longer than 300 s", None,
    ),
    "two cards that cannot talk": (
        LOADED + "RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)\n" + SIGQUIT,
        -9, Outcome.CRASHED, "talk to each other", None,
    ),
}  # fmt: skip
"""Source -> log, exit code, outcome, what the reason must say, and whether it wants a larger static share."""


@pytest.mark.parametrize("source", DEATHS)
def test_a_reported_death_gets_its_outcome(source: str) -> None:
    log, code, outcome, told, larger = DEATHS[source]
    explanation = explain_exit(log, code)
    assert explanation.outcome is outcome, explanation
    assert told in explanation.reason
    wanted = [move.larger for move in explanation.moves if move.flag == "--mem-fraction-static"]
    assert wanted == ([] if larger is None else [larger])


def test_what_was_missing_is_told_in_figures() -> None:
    explanation = explain_exit(READY + OUT, -9)
    assert explanation.device == "CUDA0"
    assert explanation.shortfall_mib == pytest.approx(138 - 110.5)


def test_weights_that_do_not_fit_want_no_other_share() -> None:
    explanation = explain_exit("[2026-12-01 06:05:16 TP0] Load weight begin. avail mem=7.8 GB\n" + OUT, -9)
    assert explanation.outcome is Outcome.OUT_OF_MEMORY
    assert "weights do not fit" in explanation.reason
    assert explanation.moves == ()


def test_the_share_that_the_engine_chose_is_kept_with_its_direction() -> None:
    """sglang 29092: the default is computed, 0.828 on one card and not what the documents say."""
    log = "[2026-12-01 06:05:10] server_args=ServerArgs(model_path='/m', mem_fraction_static=0.828, tp_size=1)\n"
    (move, *_) = explain_exit(log + LOADED + OUT, -9).moves
    assert move.at == 0.828


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            '{"error":{"message":"Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens)."}}',
            "KV pool is too small",
        ),
        (
            '{"object":"error","message":"The input (61709 tokens) is longer than the model\'s context length (40960 '
            'tokens).","type":"BadRequestError","param":null,"code":400}',
            "a larger --context-length",
        ),
        (
            '{"error":{"message":"Requested token count exceeds the model\'s maximum context length of 2048 tokens.",'
            '"type":"invalid_request_error","code":400,"retryable":false}}',
            "a larger --context-length",
        ),
    ],
    ids=["sglang 4048, the pool", "sglang 4048, the context", "input and answer together"],
)
def test_a_prompt_that_is_too_long_names_what_is_too_small(body: str, told: str) -> None:
    failure = _refused(400, body.encode())
    assert isinstance(failure, RequestFailure)
    assert failure.kind == "context_exceeded"
    assert told in failure.detail


def test_any_other_refusal_is_none_of_a_length() -> None:
    assert _refused(503, json.dumps({"error": {"message": "The request queue is full."}}).encode()).kind == "refused"
    assert _refused(500, b"Internal Server Error").kind == "refused"


def test_a_pool_that_ran_full_is_told() -> None:
    log = READY + "[2026-12-01 06:06:01 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 1\n" * 3
    assert len(observations(log)) == 1
    assert "collapse" in observations(log)[0]
