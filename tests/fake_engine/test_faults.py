"""Every fault switch of the fake server, seen from outside: exit code, log, and what a client meets."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.fake_engine.faults import NAMES, Faults
from tests.fake_engine.launched import Launched, launched

Start = Callable[..., AbstractContextManager[Launched]]
ASK: dict[str, Any] = {"prompt": "The capital of France is", "n_predict": 40, "ignore_eos": True}


@pytest.fixture
def start(tmp_path: Path) -> Start:
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF")

    def begin(fault: str, *arguments: str, ready: bool = True) -> AbstractContextManager[Launched]:
        return launched(
            tmp_path / "log",
            ["-m", str(model), "-c", "8192", "-lv", "4", *arguments],
            {"FAKE_FAULT": fault},
            ready=ready,
        )

    return begin


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        ("oom_load", 1, "failed to allocate buffer for kv cache"),
        ("crash_load", -signal.SIGABRT, "GGML_ASSERT("),
        ("segv", -signal.SIGSEGV, ""),
        ("sigill", -signal.SIGILL, ""),
        ("killed", -signal.SIGKILL, ""),
    ],
)
def test_it_dies_while_loading(start: Start, fault: str, code: int, said: str) -> None:
    with start(fault, ready=False) as server:
        assert server.wait() == code
        assert said in server.log
        assert "listening" not in server.log
        if code == 1:
            assert server.log.rstrip().endswith("exiting due to model loading error")


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        ("crash_request", -signal.SIGABRT, "GGML_ASSERT("),
        ("oom_midprompt@3", -signal.SIGABRT, "CUDA error: out of memory\n  current device: 0, in function"),
        ("killed@request", -signal.SIGKILL, ""),
        ("segv@request", -signal.SIGSEGV, ""),
    ],
)
def test_it_dies_in_a_request(start: Start, fault: str, code: int, said: str) -> None:
    with start(fault) as server:
        with pytest.raises(httpx.RemoteProtocolError):
            server.client.post("/completion", json=ASK)
        assert server.wait() == code
        assert said in server.log


def test_a_prompt_that_is_not_deep_enough_does_not_run_out_of_memory(start: Start) -> None:
    with start("oom_midprompt@1000") as server:
        server.post("/completion", **ASK)
        with pytest.raises(httpx.RemoteProtocolError):
            server.client.post("/completion", json={"prompt": "word " * 1200})


def test_it_never_becomes_ready(start: Start) -> None:
    with start("hang_load", ready=False) as server:
        while "loading model tensors" not in server.log:
            time.sleep(0.01)
        assert server.client.get("/health").status_code == 503
        assert server.process.poll() is None


def test_a_slow_start_takes_its_time(start: Start) -> None:
    started = time.monotonic()
    with start("slow_start@0.7") as server:
        assert time.monotonic() - started > 0.7
        assert server.get("/health") == {"status": "ok"}


def test_a_request_is_never_answered(start: Start) -> None:
    with start("hang_request") as server:
        with pytest.raises(httpx.ReadTimeout):
            server.client.post("/completion", json=ASK, timeout=0.5)
        assert server.get("/health") == {"status": "ok"}


def test_a_stream_stops_in_its_middle(start: Start) -> None:
    tokens: list[str] = []
    with (
        start("stall_midstream@7") as server,
        pytest.raises(httpx.ReadTimeout),
        server.client.stream("POST", "/completion", json=ASK | {"stream": True}, timeout=0.5) as answer,
    ):
        tokens.extend(line for line in answer.iter_lines() if line)
    assert len(tokens) == 7


def test_an_error_instead_of_an_answer(start: Start) -> None:
    with start("http500") as server:
        for ask in (ASK, ASK | {"stream": True}):
            assert server.client.post("/completion", json=ask).status_code == 500


def test_garbage_is_fast_and_wrong(start: Start) -> None:
    def answer(server: Launched) -> tuple[str, float]:
        body = server.post("/completion", **ASK)
        return body["content"], body["timings"]["predicted_per_second"]

    with start("") as server:
        right, speed = answer(server)
    with start("garbage") as server:
        wrong, wrong_speed = answer(server)
    assert "Paris" in right
    assert "Paris" not in wrong
    assert wrong_speed > 1.2 * speed


def test_garbage_only_at_depth(start: Start) -> None:
    question = "The capital of France is"
    with start("garbage_deep@500") as server:
        near = server.post("/completion", prompt=question, n_predict=4)["content"]
        far = server.post("/completion", prompt="word " * 600 + "\n" + question, n_predict=4)["content"]
    assert "Paris" in near
    assert "Paris" not in far


def test_what_the_prompt_said_long_ago_is_forgotten(start: Start) -> None:
    told = "The miller's dog is called Rex. " + "word " * 200 + "\n"
    for fault, remembered in (("", True), ("forgetful", False)):
        with start(fault) as server:
            answers = [
                server.post("/completion", prompt=told + question, n_predict=4)["content"]
                for question in ("The miller's dog is called", "The capital of France is")
            ]
        assert ("Rex" in answers[0]) == remembered
        assert "Paris" in answers[1]


def test_it_goes_round_in_circles(start: Start) -> None:
    for fault, circles in (("", False), ("loops", True)):
        with start(fault) as server:
            text = server.post("/completion", prompt="Tell me a story.", n_predict=120, ignore_eos=True)["content"]
        sentences = [sentence for sentence in text.split(".") if sentence.strip()]
        assert (len(set(sentences[:-1])) == 1) == circles, text


def test_it_tells_no_probabilities(start: Start) -> None:
    for fault, told in (("", True), ("no_probabilities", False)):
        with start(fault) as server:
            body = server.post("/completion", prompt="The capital of France is", n_predict=1, n_probs=5)
        assert bool(body["completion_probabilities"][0].get("top_logprobs")) == told


@pytest.mark.parametrize(
    ("fault", "deep_only"), [("slow", False), ("slow_deep@100", True), ("attention_on_cpu", False)]
)
def test_it_is_slower_than_it_should_be(start: Start, fault: str, deep_only: bool) -> None:
    def speeds(server: Launched) -> list[float]:
        prompts = ("word " * 20, "word " * 400)
        bodies = [server.post("/completion", prompt=prompt, n_predict=4) for prompt in prompts]
        return [body["timings"]["predicted_per_second"] for body in bodies]

    with start("") as server:
        normal = speeds(server)
    with start(fault) as server:
        slow = speeds(server)
        assert server.get("/health") == {"status": "ok"}
    assert slow[1] < normal[1] / 8
    assert (slow[0] > normal[0] / 2) == deep_only


def test_attention_on_the_cpu_shows_in_the_graphs_splits(start: Start) -> None:
    def splits(fault: str) -> int:
        with start(fault) as server:
            return int(re.search(r"graph splits = (\d+)", server.log)[1])  # type: ignore[index]

    assert splits("attention_on_cpu") > 5 * splits("")


def test_it_uses_another_cache_type_than_asked(start: Start) -> None:
    with start("other_kv_types") as server:
        assert "K (f32)" in server.log


def test_half_the_context_is_given(start: Start) -> None:
    with start("cut_context", "-np", "1") as server:
        assert server.get("/props")["default_generation_settings"]["n_ctx"] == 4096


def test_it_runs_on_without_speculation(start: Start) -> None:
    with start("no_speculation", "--spec-type", "draft-mtp") as server:
        assert "failed to initialize speculative decoding context" in server.log
        assert not any(slot["speculative"] for slot in server.get("/slots"))
        assert "draft_n" not in server.post("/completion", **ASK)["timings"]


def test_it_ignores_a_polite_end(start: Start) -> None:
    with start("ignore_sigterm") as server:
        server.process.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(0.5)
        assert server.get("/health") == {"status": "ok"}


def test_it_leaves_a_grandchild(start: Start) -> None:
    with start("grandchild") as server:
        child = psutil.Process(int(re.search(r"grandchild pid (\d+)", server.log)[1]))  # type: ignore[index]
        time.sleep(0.3)  # until the child has set its own handler
        server.process.terminate()
        assert server.wait() == 0
        child.terminate()
        assert child.is_running()
    child.wait(10)  # the group was killed


def test_a_condition_limits_a_fault_to_some_configurations(start: Start) -> None:
    fault = "oom_load?ubatch_size>=2048&cache_type_k=f16"
    with start(fault, "-ub", "2048", "-b", "2048", ready=False) as server:
        assert server.wait() == 1
    for arguments in ([], ["-ub", "2048", "-ctk", "q8_0", "-ctv", "q8_0"]):
        with start(fault, *arguments) as server:
            assert server.get("/health") == {"status": "ok"}


def test_random_faults_meet_their_share_and_the_same_configuration_always_the_same() -> None:
    drawn = [Faults.read("random@0.4", {"ubatch_size": n, "port": n}).active for n in range(1000)]
    assert 340 < sum(map(bool, drawn)) < 460
    assert {name for active in drawn for name in active} == NAMES - {"random"}
    assert drawn == [Faults.read("random@0.4", {"ubatch_size": n, "port": 0, "alias": "x"}).active for n in range(1000)]


@pytest.mark.parametrize("text", ["no_such_fault", "oom_load?ubatch_size"])
def test_a_fault_that_does_not_exist_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="FAKE_FAULT"):
        Faults.read(text, {})


def test_every_fault_is_tried_here() -> None:
    """A switch that nothing tries may as well not exist."""
    assert set(re.findall(r'"(\w+)[@?"]', Path(__file__).read_text())) >= NAMES
