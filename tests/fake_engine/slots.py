"""Slots: who decodes when, what each still remembers of its last prompt, and how long everything takes."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import answers
from faults import Faults, die
from journal import Journal
from noise import Noise
from rig import Measured

ENDLESS = 256
"""Tokens after which an answer without a limit of its own ends."""


class RequestRefused(Exception):
    """A request that is answered with an error: HTTP status and llama-server's `error` object."""

    def __init__(self, status: int, kind: str, message: str, **more: int) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"code": status, "message": message, "type": kind, **more}}


@dataclass
class Slot:
    """One place to decode in; it keeps the tokens of its last request."""

    id: int
    tokens: list[int] = field(default_factory=list)
    busy: bool = False
    last_used: float = 0.0
    last_task: dict[str, Any] | None = None


@dataclass
class Generation:
    """One request while it runs, and its figures afterwards. Times are nominal milliseconds."""

    prompt: list[int]
    text: str
    n_predict: int
    ignore_eos: bool = False
    cache_prompt: bool = True
    id_slot: int = -1
    n_probs: int = 0
    slot: int = -1
    cached: int = 0
    predicted: int = 0
    prompt_ms: float = 0.0
    predicted_ms: float = 0.0
    draft_n: int = 0
    draft_accepted: int = 0
    stop_type: str = "limit"
    truncated: bool = False

    def timings(self) -> dict[str, Any]:
        """In llama-server's shape; tokens a second are n over time, as release builds of 2025 count them."""
        new = len(self.prompt) - self.cached
        spent = max(self.predicted_ms, 0.001)
        timings = {
            "cache_n": self.cached, "prompt_n": new, "prompt_ms": self.prompt_ms,
            "prompt_per_token_ms": self.prompt_ms / new, "prompt_per_second": 1000 * new / self.prompt_ms,
            "predicted_n": self.predicted, "predicted_ms": spent,
            "predicted_per_token_ms": spent / self.predicted if self.predicted else None,
            "predicted_per_second": 1000 * self.predicted / spent,
        }  # fmt: skip
        if self.draft_n > 0:
            timings |= {"draft_n": self.draft_n, "draft_n_accepted": self.draft_accepted}
        return timings


class Slots:
    """All slots of the server. `run` queues a request, and then yields its tokens at the rig's speed."""

    def __init__(
        self, count: int, context: int, pool: int | None, measured: Measured, faults: Faults, journal: Journal,
        time_scale: float, noise: Noise,
    ) -> None:  # fmt: skip
        self.all = [Slot(i) for i in range(count)]
        self.context = context
        self.pool = pool
        """Tokens that all slots share, or None where each has its own."""
        self.measured, self.faults, self.journal = measured, faults, journal
        self._scale, self._noise = time_scale, noise
        self._free = threading.Condition()
        self._requests = 0
        self._overflows = 0
        self.totals = dict.fromkeys(("prompt_tokens", "prompt_ms", "predicted", "predicted_ms", "n_max"), 0.0)

    @property
    def busy(self) -> int:
        return sum(slot.busy for slot in self.all)

    def run(self, task: Generation) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """Token numbers with their top probabilities (empty unless asked for). Raises RequestRefused."""
        if len(task.prompt) >= self.context:
            raise RequestRefused(
                400, "exceed_context_size_error",
                f"request ({len(task.prompt)} tokens) exceeds the available context size ({self.context} tokens), "
                "try increasing it", n_prompt_tokens=len(task.prompt), n_ctx=self.context,
            )  # fmt: skip
        with self._slot(task) as slot:
            self._faults_of_a_request(len(task.prompt))
            noise = self._next_noise()
            overflows = self._overflows
            self._prefill(task, noise)
            slot.tokens = list(task.prompt)
            for token, chances in self._decode(task, noise):
                slot.tokens.append(token)
                self._check_pool(overflows)
                yield token, chances
            slot.tokens = slot.tokens[:-1]  # the last one was sampled, but never decoded
            self._account(task, slot)

    @contextmanager
    def _slot(self, task: Generation) -> Iterator[Slot]:
        wanted = task.id_slot if 0 <= task.id_slot < len(self.all) else None
        with self._free:
            while True:
                idle = [slot for slot in self.all if not slot.busy and wanted in (None, slot.id)]
                if idle:
                    break
                self._free.wait()
            slot = max(idle, key=lambda each: (self._similar(each, task), -each.last_used))
            slot.busy = True
        task.slot = slot.id
        task.cached = min(_common(slot.tokens, task.prompt), len(task.prompt) - 1) if task.cache_prompt else 0
        try:
            yield slot
        finally:
            with self._free:
                slot.busy, slot.last_used = False, time.monotonic()
                self._free.notify_all()

    @staticmethod
    def _similar(slot: Slot, task: Generation) -> float:
        """How much of the prompt a slot already holds; below a tenth it does not count, as with `-sps 0.1`."""
        share = _common(slot.tokens, task.prompt) / len(task.prompt)
        return share if share > 0.1 else 0.0

    def _faults_of_a_request(self, depth: int) -> None:
        self.faults.die_of_signal("request")
        if "http500" in self.faults:
            raise RequestRefused(500, "server_error", "Compute error.")
        if "hang_request" in self.faults:
            threading.Event().wait()
        fatal = self.measured.outcome == "CRASHED" or depth >= self.measured.crash_depth
        if "crash_request" in self.faults or fatal:
            self.journal.raw("/build/ggml/src/ggml.c:1739: GGML_ASSERT(n_tokens > 0) failed\n")
            die(signal.SIGABRT)

    def _next_noise(self) -> float:
        with self._free:
            self._requests += 1
            return self._noise.of_request(self._requests)

    def _prefill(self, task: Generation, noise: float) -> None:
        depth = len(task.prompt)
        self.journal.more("slot operator()", f"id {task.slot:2} | task 0 | new prompt, n_ctx_slot = {self.context}, "
                          f"n_keep = 0, task.n_tokens = {depth}")  # fmt: skip
        task.prompt_ms = (
            noise
            * self.faults.slowness(depth)
            * sum(sign * 1000 * end / self.measured.prefill_tps(end) for sign, end in ((1, depth), (-1, task.cached)))
        )
        if self.measured.settings.get("warmup") is False and self._requests == 1:
            task.prompt_ms += 250  # the first request pays for what the warm-up would have done
        limit = self.measured.max_depth
        if "oom_midprompt" in self.faults:
            limit = min(limit, self.faults.number("oom_midprompt", 0))
        if depth > limit:
            time.sleep(task.prompt_ms / 2000 * self._scale)
            device = next(iter(self.measured.plan.shares), "CUDA0")
            where = "/build/ggml/src/ggml-cuda/ggml-cuda.cu"
            self.journal.raw(
                f"CUDA error: out of memory\n  current device: {device[-1]}, in function alloc at {where}:503\n"
                f"  cuMemCreate(&handle, reserve_size, &prop, 0)\n{where}:100: CUDA error\n"
            )
            die(signal.SIGABRT)
        time.sleep(task.prompt_ms / 1000 * self._scale)

    def _decode(self, task: Generation, noise: float) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        plan = self.measured.plan
        kind, depth = answers.kind_of(task.text), len(task.prompt)
        garbage = self.faults.garbage(depth)
        text = task.text[-answers.ASKED :] if "forgetful" in self.faults else task.text
        ending = ENDLESS if garbage else answers.known_tokens(task.text) or ENDLESS
        table = self.measured.rig.kv["noise"]
        blur = table.get(plan.type_k, 0.0) + table.get(plan.type_v, 0.0)
        stall = int(self.faults.number("stall_midstream", 1)) if "stall_midstream" in self.faults else -1
        due, verifications, drafts = time.monotonic(), 0.0, self.measured.drafts(kind, depth)
        speeds: dict[int, float] = {}
        if task.n_predict == 0:
            return
        for token in answers.answer(text, garbage, loops="loops" in self.faults):
            if task.predicted == stall:
                threading.Event().wait()
            if task.predicted:
                streams = self.busy
                if streams not in speeds:
                    speeds[streams] = self.measured.decode_tps(kind, depth, streams) * (1.5 if garbage else 1.0)
                step_ms = noise * self.faults.slowness(depth) * 1000 / speeds[streams]
                task.predicted_ms += step_ms
                verifications += 1 / drafts.gained
                due += step_ms / 1000 * self._scale
                if due - time.monotonic() > 0.001:
                    time.sleep(due - time.monotonic())
            if not task.ignore_eos and task.predicted == ending:
                task.stop_type = "eos"
                break
            place = task.predicted
            task.predicted += 1
            task.draft_n = round(verifications * drafts.drafted)
            task.draft_accepted = min(task.draft_n, round(verifications * drafts.accepted))
            chances = []
            told = task.n_probs and "no_probabilities" not in self.faults
            if told and (place == 0 or not plan.spec):  # verified drafts come without, as in the real server
                chances = answers.top_logprobs(
                    task.text, place, token, task.n_probs, blur, f"{plan.type_k}/{plan.type_v}"
                )
            yield token, chances
            if depth + task.predicted >= self.context:
                task.truncated = True
                break
            if task.predicted == task.n_predict:
                break

    def _check_pool(self, overflows: int) -> None:
        """With one KV cache for all, a full cache fails every request that is running."""
        if self.pool is None:
            return
        with self._free:
            if sum(len(slot.tokens) for slot in self.all if slot.busy) > self.pool:
                self._overflows += 1
            if self._overflows != overflows:
                raise RequestRefused(500, "server_error", "Context size has been exceeded.")

    def _account(self, task: Generation, slot: Slot) -> None:
        new = len(task.prompt) - task.cached
        with self._free:
            totals = self.totals
            for name, value in (("prompt_tokens", new), ("prompt_ms", task.prompt_ms),
                                ("predicted", task.predicted), ("predicted_ms", task.predicted_ms)):  # fmt: skip
                totals[name] += value
            totals["n_max"] = max(totals["n_max"], len(slot.tokens))
            slot.last_task = {"id_task": self._requests, "n_prompt_tokens": len(task.prompt),
                              "n_prompt_tokens_processed": new, "n_prompt_tokens_cache": task.cached}  # fmt: skip
        self._log_timings(task)

    def _log_timings(self, task: Generation) -> None:
        new = len(task.prompt) - task.cached
        for what, ms, count in (
            ("prompt eval time", task.prompt_ms, new),
            ("       eval time", task.predicted_ms, task.predicted),
        ):
            per = ms / count if count else 0.0
            self.journal.say(
                "slot print_timing",
                f"id {task.slot:2} | task 0 | {what} = {ms:10.2f} ms / {count:5} tokens "
                f"({per:8.2f} ms per token, {1000 / per if per else 0:8.2f} tokens per second)",
            )
        if task.draft_n:
            self.journal.say(
                "slot print_timing",
                f"id {task.slot:2} | task 0 | draft acceptance = {task.draft_accepted / task.draft_n:.5f} "
                f"({task.draft_accepted:5} accepted / {task.draft_n:5} generated), "
                f"mean len = {task.predicted / max(1, task.predicted - task.draft_accepted):5.2f}",
            )


def _common(have: list[int], wanted: list[int]) -> int:
    """Length of the common beginning."""
    for place, (left, right) in enumerate(zip(have, wanted, strict=False)):
        if left != right:
            return place
    return min(len(have), len(wanted))
