"""Why an SGLang process ended: the log decides, since its exit code says next to nothing."""

from __future__ import annotations

import pytest

from tuner.domain.verdict import Outcome
from tuner.engines.sglang.exits import explain_exit

USAGE = "usage: sglang serve [-h] --model-path MODEL_PATH\nlaunch_server.py: error: "


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("unrecognized arguments: --cuda-graph-max-bs 8", "--cuda-graph-max-bs 8"),
        ("argument --kv-cache-dtype: invalid choice: 'q8_0' (choose from 'auto', 'fp8_e4m3')", "q8_0 for --kv-cache"),
        ("argument --tp-size/--tensor-parallel-size: invalid int value: 'two'", "--tp-size"),
        ("ambiguous option: --cuda-graph could match --cuda-graph-bs-decode, --cuda-graph-config", "--cuda-graph:"),
        ("the following arguments are required: --model-path/--model", "--model-path"),
    ],
)
def test_what_argparse_refuses_is_invalid(message: str, told: str) -> None:
    explanation = explain_exit(USAGE + message + "\n", 2)
    assert explanation.outcome is Outcome.INVALID
    assert told in explanation.reason


def test_a_combination_that_is_refused_is_invalid_before_it_serves_and_a_crash_afterwards() -> None:
    refused = (
        "Traceback (most recent call last):\nValueError: --enable-hisparse does not support --enable-mixed-chunk\n"
    )
    ready = "[2026-12-01 06:05:18] The server is fired up and ready to roll!\n"
    assert explain_exit(refused, 1).outcome is Outcome.INVALID
    assert explain_exit(ready + refused, -9).outcome is Outcome.CRASHED


def test_an_error_that_was_survived_is_no_cause_of_death() -> None:
    log = (
        "[2026-12-01 06:05:10] ValueError: nothing to worry about\n"
        "[2026-12-01 06:05:18] The server is fired up and ready to roll!\n"
    )
    assert "killed from outside" in explain_exit(log, -9).reason


def test_a_port_that_is_taken_is_told_though_nothing_ends() -> None:
    log = (
        "ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 31000): address already in use\n"
    )
    explanation = explain_exit(log, None)
    assert explanation.outcome is Outcome.CRASHED
    assert "the port 31000 is in use" in explanation.reason
    assert "waits on" in explanation.reason


def test_host_memory_that_ran_out_is_told_with_its_size() -> None:
    log = (
        "[2026-12-01 06:05:16] Load weight begin. avail mem=9 GB\n[2026-12-01 06:05:16] Load weight end.\n"
        "RuntimeError: [enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory: you "
        "tried to allocate 21474836480 bytes. Error code 12 (Cannot allocate memory)\n"
    )
    explanation = explain_exit(log, -9)
    assert (explanation.outcome, explanation.device) == (Outcome.OUT_OF_MEMORY, "CPU")
    assert explanation.shortfall_mib == 20480
    assert not explanation.moves[0].larger


@pytest.mark.parametrize("soft", [True, False])
def test_a_soft_watchdog_ends_nothing(soft: bool) -> None:
    log = f"[2026-12-01 06:11:00] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft={soft})\n"
    assert (explain_exit(log, -9).outcome is Outcome.STALLED) is not soft
