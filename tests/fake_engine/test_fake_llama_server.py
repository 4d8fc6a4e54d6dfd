"""The fake server, run as the program it is: flags, logs, HTTP and speed. Its faults are in `test_faults.py`."""

from __future__ import annotations

import json
import math
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fake_engine import vocabulary
from tests.fake_engine.launched import FAKE, Launched, launched
from tests.fake_engine.rig import Rig

RIGS = Path(__file__).resolve().parent.parent / "rigs"
MTP = ["--spec-type", "draft-mtp", "--spec-draft-n-max", "4"]
NEEDLE = "The secret code of the lighthouse is 7319."
FILLER = "It rained, and the harbour was quiet all day. " * 40


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.gguf"
    path.write_bytes(b"GGUF and nothing more")
    return path


@pytest.fixture(scope="module")
def server(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launched]:
    arguments = ["-m", str(model), "-c", "16384", "-np", "2", "-lv", "4", "--metrics", "--alias", "one,two", *MTP]
    with launched(tmp_path_factory.mktemp("log") / "engine.log", arguments) as running:
        yield running


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*FAKE, *arguments], capture_output=True, text=True, timeout=60, env=env)


def test_the_file_itself_can_be_launched() -> None:
    assert subprocess.run([FAKE[1], "--list-devices"], capture_output=True, timeout=60).returncode == 0


def test_help_version_and_devices() -> None:
    shown = run("--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "\n-ub,   --ubatch-size N " in shown.stdout
    assert run("--version").stderr.startswith("version: ")
    assert run("--list-devices").stdout == "Available devices:\n  CUDA0: NVIDIA Fake (16384 MiB, 15000 MiB free)\n"
    assert run("--list-devices", FAKE_RIG=str(RIGS / "cpu_only.toml")).stdout == "Available devices:\n  (none)\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--bogus"], "error: invalid argument: --bogus"),
        (["--draft-max", "3"], 'error while handling argument "--draft-max": the argument has been removed. use'),
        (["-ctk", "q9"], 'error while handling argument "-ctk": Unsupported cache type: q9'),
        (["-fa", "maybe"], "unknown value for --flash-attn: 'maybe'"),
        (["-sm", "pile"], 'error while handling argument "-sm": invalid value'),
        (["--ctx_size", "big"], 'error while handling argument "--ctx-size": stoi'),
        (["--spec-draft-p-min", "q"], 'error while handling argument "--spec-draft-p-min": stof'),
        (["-c"], 'error while handling argument "-c": expected value for argument'),
        (["-np", "0"], "invalid value for n_parallel"),
        (["-dev", "CUDA7"], "invalid device: CUDA7"),
        (["--spec-type", "guess"], "unknown speculative type: guess"),
    ],
)
def test_a_bad_argument_ends_it_with_the_real_words(arguments: list[str], said: str) -> None:
    refused = run(*arguments)
    assert refused.returncode == 1
    assert said in refused.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "failed to open GGUF file"), (b"not a model", "invalid magic characters"), (b"GG", "failed to read magic")],
)
def test_a_file_that_is_no_model_ends_it(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "model.gguf"
    if content is not None:
        path.write_bytes(content)
    refused = run("-m", str(path), "--port", "0")
    assert refused.returncode == 1
    assert said in refused.stderr
    assert refused.stderr.rstrip().endswith("exiting due to model loading error")


def test_a_port_that_is_taken_ends_it(model: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = run("-m", str(model), "--port", str(port))
    assert refused.returncode == 1
    assert f"couldn't bind HTTP server socket, hostname: 127.0.0.1, port: {port}" in refused.stderr


def test_variables_of_the_environment_count_unless_the_command_line_says_otherwise(model: Path, tmp_path: Path) -> None:
    env = {"LLAMA_ARG_CTX_SIZE": "8192", "LLAMA_ARG_N_PARALLEL": "4"}
    with launched(tmp_path / "log", ["-m", str(model), "-np", "2"], env) as server:
        props = server.get("/props")
        assert (props["default_generation_settings"]["n_ctx"], props["total_slots"]) == (4096, 2)


def test_context_is_padded_and_shared_by_the_slots_unless_unified(model: Path, tmp_path: Path) -> None:
    for arguments, context in ((["-np", "2"], 512), (["-np", "2", "-kvu"], 1024), ([], 1024)):
        with launched(tmp_path / "log", ["-m", str(model), "-c", "1000", *arguments]) as server:
            assert server.get("/props")["default_generation_settings"]["n_ctx"] == context


def test_it_answers_503_while_it_loads(model: Path, tmp_path: Path) -> None:
    with launched(tmp_path / "log", ["-m", str(model)], {"FAKE_FAULT": "slow_start@1"}, ready=False) as server:
        statuses = set()
        while 200 not in statuses:
            try:
                statuses.add(server.client.get("/health").status_code)
            except httpx.TransportError:  # before the port is bound
                time.sleep(0.01)
        assert statuses == {503, 200}


def test_signals(model: Path, tmp_path: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with launched(tmp_path / "log", ["-m", str(model)]) as server:
            server.process.send_signal(number)
            assert server.wait() == 0
            assert "cleaning up before exit..." in server.log
    with launched(tmp_path / "log", ["-m", str(model)], {"FAKE_FAULT": "hang_load"}, ready=False) as server:
        while "loading model" not in server.log:
            time.sleep(0.01)
        server.process.terminate()
        assert server.wait() == -signal.SIGTERM


@given(st.text())
def test_every_text_survives_its_tokens(text: str) -> None:
    clean = text.encode("utf-8", "replace").decode()
    assert vocabulary.decode(vocabulary.encode(clean)) == clean


def test_tokenize_sizes_a_prompt_exactly(server: Launched) -> None:
    text = "Counting, 1234 words: 春江水暖!\n\nAnd so on. " * 5
    tokens = server.post("/tokenize", content=text, add_special=True)["tokens"]
    assert server.post("/detokenize", tokens=tokens)["content"] == text
    timings = server.post("/completion", prompt=tokens, n_predict=1, cache_prompt=False)["timings"]
    assert timings["prompt_n"] == len(tokens)
    assert server.post("/completion", prompt=text, n_predict=1)["tokens_evaluated"] == len(tokens)


def test_a_slot_reuses_the_common_beginning_only_when_asked(server: Launched) -> None:
    prefix = server.post("/tokenize", content="A long beginning of many words. " * 50)["tokens"]
    ask = {"n_predict": 4, "id_slot": 0}
    cold = server.post("/completion", prompt=prefix, cache_prompt=False, **ask)["timings"]
    again = server.post("/completion", prompt=prefix, cache_prompt=True, **ask)["timings"]
    longer = server.post("/completion", prompt=[*prefix[:100], *prefix[:50]], cache_prompt=True, **ask)["timings"]
    assert (cold["cache_n"], cold["prompt_n"]) == (0, len(prefix))
    assert (again["cache_n"], again["prompt_n"]) == (len(prefix) - 1, 1)  # one token is always computed
    assert longer["cache_n"] >= 100
    assert again["prompt_ms"] < cold["prompt_ms"] / 10


def test_a_stream_brings_the_same_text_and_timings_as_one_answer(server: Launched) -> None:
    ask = {"prompt": "Tell a story about rain.", "n_predict": 24, "ignore_eos": True}
    whole = server.post("/completion", **ask)
    events = [json.loads(event) for event in server.events("/completion", **ask)]
    assert "".join(event["content"] for event in events) == whole["content"]
    assert [event["stop"] for event in events] == [False] * 24 + [True]
    assert (whole["stop_type"], events[-1]["timings"]["predicted_n"]) == ("limit", 24)
    chat = server.events("/v1/chat/completions", messages=[{"role": "user", "content": "Hello"}], max_tokens=5)
    assert chat[-1] == "[DONE]"
    assert json.loads(chat[-2])["timings"]["predicted_n"] == 5


def test_too_long_a_prompt_is_refused_and_too_long_an_answer_cut(server: Launched) -> None:
    refused = server.client.post("/completion", json={"prompt": "word " * 9000, "stream": True})
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert (error["type"], error["n_prompt_tokens"], error["n_ctx"]) == ("exceed_context_size_error", 9001, 8192)
    cut = server.post("/completion", prompt="word " * 8100, n_predict=500, ignore_eos=True)
    assert cut["truncated"]
    assert cut["tokens_predicted"] < 100


@pytest.mark.parametrize(
    ("prompt", "answer"),
    [
        ("The capital of France is", " Paris"),
        ("Q: What is 12 + 30?\nA:", " 42"),
        (f"{FILLER}{NEEDLE} {FILLER}The secret code of the lighthouse is", " 7319"),
        (f"{FILLER}{NEEDLE} {FILLER}\nWhat is the secret code of the lighthouse?", " 7319"),
    ],
)
def test_it_knows_what_it_should(server: Launched, prompt: str, answer: str) -> None:
    body = server.post("/completion", prompt=prompt, n_predict=8, temperature=0, n_probs=5)
    assert body["content"].startswith(answer)
    assert body["stop_type"] == "eos"
    first = body["completion_probabilities"][0]
    logprobs = [token["logprob"] for token in first["top_logprobs"]]
    assert first["id"] == first["top_logprobs"][0]["id"]
    assert logprobs == sorted(logprobs, reverse=True)
    assert sum(map(math.exp, logprobs)) <= 1


def test_a_quantised_cache_changes_probabilities_a_little_and_the_shape_of_batches_not_at_all(
    model: Path, tmp_path: Path
) -> None:
    def chances(*arguments: str) -> dict[int, float]:
        with launched(tmp_path / "log", ["-m", str(model), "-c", "4096", *arguments]) as server:
            body = server.post("/completion", prompt="The capital of France is", n_predict=1, n_probs=20)
            return {token["id"]: token["logprob"] for token in body["completion_probabilities"][0]["top_logprobs"]}

    def divergence(left: dict[int, float], right: dict[int, float]) -> float:
        return sum(math.exp(left[token]) * (left[token] - right[token]) for token in left.keys() & right.keys())

    plain = chances()
    assert chances("-ub", "1024", "-t", "2") == plain
    q8, q4 = (chances("-ctk", kind, "-ctv", kind) for kind in ("q8_0", "q4_0"))
    assert 0 < abs(divergence(plain, q8)) < abs(divergence(plain, q4))


@pytest.mark.parametrize("arguments", [[], MTP, ["-ub", "1024", "-ctk", "q8_0", "-ctv", "q8_0"], ["-ngl", "10"]])
def test_reported_speed_is_what_the_rig_says(model: Path, tmp_path: Path, arguments: list[str]) -> None:
    flags = {"--spec-type": "spec_type", "--spec-draft-n-max": "spec_draft_n_max", "-ub": "ubatch_size",
             "-ctk": "cache_type_k", "-ctv": "cache_type_v", "-ngl": "gpu_layers"}  # fmt: skip
    settings = {flags[flag]: value for flag, value in zip(arguments[::2], arguments[1::2], strict=True)}
    expected = Rig.load(RIGS / "default.toml").measure({"ctx_size": 8192, "parallel": 1, **settings})
    prompt = "Please write a Python function that sorts. " * 100
    with launched(
        tmp_path / "log", ["-m", str(model), "-c", "8192", "-np", "1", *arguments], {"FAKE_NOISE": "0"}
    ) as server:
        timings = server.post("/completion", prompt=prompt, n_predict=100, ignore_eos=True)["timings"]
        depth = timings["prompt_n"]
        assert timings["prompt_per_second"] == pytest.approx(expected.prefill_tps(depth), rel=1e-6)
        decode_tps = 1000 * (timings["predicted_n"] - 1) / timings["predicted_ms"]
        assert decode_tps == pytest.approx(expected.decode_tps("code", depth), rel=1e-6)
        assert ("draft_n" in timings) == bool(expected.plan.spec)
        assert server.get("/slots")[0]["speculative"] == bool(expected.plan.spec)


def test_noise_repeats_with_its_seed(model: Path, tmp_path: Path) -> None:
    def times(seed: str) -> list[float]:
        env = {"FAKE_SEED": seed, "FAKE_NOISE": "0.05"}
        with launched(tmp_path / "log", ["-m", str(model), "-c", "4096"], env) as server:
            return [
                server.post("/completion", prompt="Hello", n_predict=9, cache_prompt=False)["timings"]["predicted_ms"]
                for _ in range(3)
            ]

    first = times("a")
    assert first == times("a")
    assert first != times("b")
    assert len(set(first)) == 3


def median_times(model: Path, log: Path, alias: str, count: int = 5, **env: str) -> list[float]:
    with launched(log, ["-m", str(model), "-c", "4096", "--alias", alias], {"FAKE_NOISE": "0", **env}) as server:
        asked = [server.post("/completion", prompt="Hello", n_predict=9, cache_prompt=False) for _ in range(count)]
        return [answer["timings"]["predicted_ms"] for answer in asked]


def test_launches_requests_and_hours_can_differ(model: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    (usual,) = set(median_times(model, log, "a"))
    several = [median_times(model, log, alias, FAKE_LAUNCH_NOISE="0.05") for alias in "abc"]
    assert [len(set(times)) for times in several] == [1, 1, 1]
    assert len({times[0] for times in several}) == 3
    outlying = median_times(model, log, "a", 40, FAKE_OUTLIERS="0.2", FAKE_SEED="1")
    assert {round(time / usual, 6) for time in outlying} == {1.0, 1.5}
    assert 2 <= sum(time > usual for time in outlying) <= 16
    drifted = median_times(model, log, "a", FAKE_DRIFT="0.02@10@0")
    assert drifted == [pytest.approx(1.02 * usual)] * 5


def test_a_seeded_study_can_be_had_again(model: Path, tmp_path: Path) -> None:
    def times(alias: str) -> list[float]:
        return median_times(model, tmp_path / "log", alias, FAKE_NOISE="0.05", FAKE_SEED="1")

    assert times("tuner-0123456789ab-confirm-0003") == times("tuner-ba9876543210-confirm-0003")
    assert times("tuner-0123456789ab-confirm-0003") != times("tuner-0123456789ab-confirm-0004")


def in_parallel(server: Launched, count: int, **ask: object) -> list[dict[str, float]]:
    found: list[dict[str, float]] = []
    threads = [
        threading.Thread(target=lambda: found.append(server.post("/completion", **ask)["timings"]))
        for _ in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_streams_slow_each_other_and_a_busy_slot_makes_others_wait(model: Path, tmp_path: Path) -> None:
    ask = {"prompt": "Tell a story.", "n_predict": 90, "ignore_eos": True}
    env = {"FAKE_TIME_SCALE": "0.1", "FAKE_NOISE": "0"}
    with launched(tmp_path / "log", ["-m", str(model), "-c", "4096", "-np", "2"], env) as server:
        (alone,) = in_parallel(server, 1, **ask)
        both = in_parallel(server, 2, **ask)
    assert min(each["predicted_ms"] for each in both) > 1.1 * alone["predicted_ms"]
    with launched(tmp_path / "log", ["-m", str(model), "-c", "4096", "-np", "1"], env) as server:
        started = time.monotonic()
        in_parallel(server, 1, **ask)
        single = time.monotonic() - started
        started = time.monotonic()
        queued = in_parallel(server, 2, **ask)
        assert time.monotonic() - started > 1.5 * single
    assert queued[0]["predicted_ms"] == pytest.approx(queued[1]["predicted_ms"])


def test_a_shared_cache_that_is_full_fails_every_running_request(model: Path, tmp_path: Path) -> None:
    arguments = ["-m", str(model), "-c", "1024", "-np", "2", "-kvu"]
    with launched(tmp_path / "log", arguments, {"FAKE_TIME_SCALE": "0.05"}) as server:
        statuses = []

        def ask() -> None:
            body = {"prompt": "word " * 400, "n_predict": 500, "ignore_eos": True}
            statuses.append(server.client.post("/completion", json=body).status_code)

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert statuses == [500, 500]


def test_metrics_and_slots_only_when_switched_on(server: Launched, model: Path, tmp_path: Path) -> None:
    assert "llamacpp:tokens_predicted_total" in server.client.get("/metrics").text
    with launched(tmp_path / "log", ["-m", str(model), "-c", "4096", "--no-slots"]) as other:
        assert other.client.get("/metrics").status_code == 501
        assert other.client.get("/slots").status_code == 501


def test_the_projection_comes_before_anything_is_loaded(model: Path, tmp_path: Path) -> None:
    with launched(tmp_path / "log", ["-m", str(model), "-lv", "4"], {"FAKE_FAULT": "hang_load"}, ready=False) as server:
        while "loading model tensors" not in server.log:
            time.sleep(0.01)
        log = server.log
    assert "context size reduced from 131072 to" in log
    assert "MiB of device memory vs. 15000 MiB of free device memory" in log
    assert "|   - CUDA0 (NVIDIA Fake) | 16384 = 15000 + (" in log
    assert "buffer size" not in log
