"""Measures the cells of a trial on a running server.

For each depth a shared, salted prefix is filled once, cold; every content's decode then starts on that same prefix:
changing the content costs a few tokens of prefill, changing the depth all of them.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import groupby

from tuner.domain.measurement import CellResult, RequestFailure, RequestTiming
from tuner.domain.workload import Cell, Content, Workload
from tuner.workload.client import EngineClient
from tuner.workload.figures import with_figures
from tuner.workload.patience import Patience
from tuner.workload.texts import instruction, mixed_document, opening, salt

RequestLog = Callable[[str, bool, RequestTiming | RequestFailure], None]
"""Called for every request with the cell's name, whether it counts (warm-ups do not), and what came of it."""

_WARM_UP_TOKENS = 16
_CHARACTERS_PER_TOKEN = 8
"""More than any text needs, so that a document is long enough before it is cut."""


@dataclass
class WorkloadResult:
    """What was measured, and what ended it early, if anything did."""

    cells: list[CellResult] = field(default_factory=list)
    failure: RequestFailure | None = None
    failed_cell: str | None = None
    cut_short: str | None = None
    """Why the cells that are missing were not measured, if they were left out on purpose."""
    deepest_answered: int | None = None
    """The longest cold prompt that was answered, in tokens with its answer."""


class WorkloadRun:
    """One pass over the cells of a workload."""

    def __init__(
        self,
        client: EngineClient,
        workload: Workload,
        *,
        salt_key: str,
        slots: int,
        log: RequestLog,
        patience: Patience,
        hopeless: Callable[[Sequence[CellResult]], str | None] = lambda _: None,
        after_cell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Prepares a pass.

        Args:
            client: speaks to the server.
            workload: what to measure.
            salt_key: unique to this launch: it keeps every cache and n-gram table from remembering a prompt.
            slots: how many requests the server serves at once.
            log: where every request's raw figures go.
            patience: the deadlines.
            hopeless: asked after every cell with what was measured so far; a reason ends the pass.
            after_cell: told the name of every cell that was measured.
        """
        self._client = client
        self._generate = partial(client.generate, sampling=workload.sampling)
        self._workload = workload
        self._salt_key = salt_key
        self._slots = slots
        self._log = log
        self._log_lock = threading.Lock()
        self._patience = patience
        self._hopeless = hopeless
        self._after_cell = after_cell
        self._result = WorkloadResult()

    def measure(self) -> WorkloadResult:
        """Measures all cells in order; stops at the first request that fails."""
        if not self._warm_up():
            return self._result
        for (streams, depth), group in groupby(self._workload.cells, key=lambda cell: (cell.streams, cell.depth)):
            cells = list(group)
            results = self._single_stream(depth, cells) if streams == 1 else self._parallel(depth, cells)
            for result in results:
                self._result.cells.append(result)
                self._after_cell(result.cell.name)
                self._result.cut_short = self._hopeless(self._result.cells)
                if self._result.cut_short is not None:
                    return self._result
            if self._result.failure is not None:
                break
        return self._result

    def _warm_up(self) -> bool:
        prompt = self._prompt(salt(f"{self._salt_key}/warm-up"), self._workload.cells[0], 0)
        answer = self._generate(
            prompt,
            predict_tokens=_WARM_UP_TOKENS,
            reuse_prefix=False,
            first_token_s=self._patience.first_token_s(0),
            stall_s=self._patience.stall_s,
            limit_s=self._workload.decode_limit_s,
            slot=0,
        )
        return self._accept("warm-up", False, answer) is not None

    def _single_stream(self, depth: int, cells: list[Cell]) -> Iterator[CellResult]:
        prefix = self._prefix(depth, "single")
        cold: RequestTiming | None = None
        for cell in cells:
            timings: list[RequestTiming] = []
            started = time.monotonic()
            longest = self._patience.cell_s(cell)
            for repeat in range(self._workload.repeats):
                if timings and longest is not None and time.monotonic() - started > longest:
                    break  # So slow a cell loses, however often it is measured.
                timing = self._request(cell, self._prompt(prefix, cell, repeat), reuse_prefix=cold is not None)
                if timing is None:
                    return
                timings.append(timing)
                if cold is None:
                    cold = timing
                    self._note_depth(timing)
            is_first = cell is cells[0]
            single = _single_result(cell, timings, cold if is_first else None, depth, time.monotonic() - started)
            yield with_figures(single, timings)

    def _request(self, cell: Cell, prompt: str, *, reuse_prefix: bool) -> RequestTiming | None:
        answer = self._generate(
            prompt,
            predict_tokens=self._workload.predict_tokens,
            reuse_prefix=reuse_prefix,
            first_token_s=self._patience.first_token_s(cell.depth),
            stall_s=self._patience.stall_s,
            limit_s=self._workload.decode_limit_s,
            slot=0,
        )
        return self._accept(cell.name, True, answer)

    def _parallel(self, depth: int, cells: list[Cell]) -> Iterator[CellResult]:
        """Fills every stream's context first, then lets all decode together: the prefills do not get in the way."""
        streams = cells[0].streams
        slots: list[int | None] = [index if self._slots >= streams else None for index in range(streams)]
        prefixes = [self._prefix(depth, f"stream {index}") for index in range(streams)]
        for cell in cells:
            began = time.monotonic()
            prompts = [self._prompt(prefix, cell, index) for index, prefix in enumerate(prefixes)]
            for prompt, slot in zip(prompts, slots, strict=True):
                fill = self._generate(
                    prompt,
                    predict_tokens=2,
                    reuse_prefix=True,
                    first_token_s=self._patience.first_token_s(depth),
                    stall_s=self._patience.stall_s,
                    limit_s=self._workload.decode_limit_s,
                    slot=slot,
                )
                if self._accept(cell.name, False, fill) is None:
                    return
            timings = self._together(cell, prompts, slots)
            if timings is None:
                return
            yield with_figures(_parallel_result(cell, timings, time.monotonic() - began), [c.timing for c in timings])

    def _together(self, cell: Cell, prompts: list[str], slots: list[int | None]) -> list[_Clocked] | None:
        def one(prompt: str, slot: int | None) -> tuple[float, RequestTiming | RequestFailure]:
            started = time.perf_counter()
            answer = self._generate(
                prompt,
                predict_tokens=self._workload.predict_tokens,
                reuse_prefix=True,
                first_token_s=self._patience.first_token_s(cell.depth) * cell.streams,
                stall_s=self._patience.stall_s * cell.streams,
                limit_s=self._workload.decode_limit_s,
                slot=slot,
            )
            return started, answer

        with ThreadPoolExecutor(max_workers=cell.streams) as threads:
            answers = list(threads.map(one, prompts, slots))
        clocked: list[_Clocked] = []
        for started, answer in answers:
            timing = self._accept(cell.name, True, answer)
            if timing is None:
                return None
            clocked.append(_Clocked(started + timing.ttft_ms / 1000, started + timing.total_ms / 1000, timing))
        return clocked

    def _prefix(self, depth: int, part: str) -> str:
        """About `depth` tokens of salted text that no other launch has seen."""
        salted = salt(f"{self._salt_key}/{depth}/{part}")
        return self._client.truncate(f"{salted}\n\n{_document(depth)}", depth)

    def _prompt(self, prefix: str, cell: Cell, variant: int) -> str:
        if cell.content is Content.OWN:
            own = self._workload.conversations
            return self._client.render(own[variant % len(own)].behind(prefix), "")
        request, beginning = _question(cell.content, variant)
        return self._client.render(f"{prefix}\n\n{request}", beginning)

    def _accept(self, name: str, counts: bool, answer: RequestTiming | RequestFailure) -> RequestTiming | None:
        with self._log_lock:
            self._log(name, counts, answer)
        if isinstance(answer, RequestFailure):
            self._result.failure = answer
            self._result.failed_cell = name
            return None
        return answer

    def _note_depth(self, cold: RequestTiming) -> None:
        if cold.cached_tokens == 0:
            reached = cold.prompt_tokens + cold.completion_tokens
            self._result.deepest_answered = max(self._result.deepest_answered or 0, reached)


@lru_cache(maxsize=8)
def _document(depth: int) -> str:
    """Text for `depth` tokens: the same in every trial, so that trials differ in nothing but their configuration."""
    blocks, length = [], 0
    for block in mixed_document(depth):
        blocks.append(block)
        length += len(block)
        if length >= depth * _CHARACTERS_PER_TOKEN:
            break
    return "".join(blocks)


@lru_cache(maxsize=64)
def _question(content: Content, variant: int) -> tuple[str, str]:
    """What is asked, and the answer's first words."""
    return instruction(content, variant), opening(content, variant)


@dataclass(frozen=True)
class _Clocked:
    """A request on a clock that all streams share: first token and end, in seconds."""

    first_s: float
    end_s: float
    timing: RequestTiming


def _single_result(
    cell: Cell, timings: list[RequestTiming], cold: RequestTiming | None, depth: int, seconds: float
) -> CellResult:
    decode = [timing.decode_tps for timing in timings if timing.decode_tps is not None]
    client = [timing.client_decode_tps for timing in timings if timing.client_decode_tps is not None]
    # Only a prompt of which nothing was cached says how fast the engine computes prompts.
    proven_cold = cold is not None and cold.cached_tokens == 0
    reused = [timing for timing in timings if timing is not cold]
    return CellResult(
        cell=cell,
        decode_tps=statistics.median(decode) if decode else None,
        client_decode_tps=statistics.median(client) if client else None,
        prefill_tps=cold.prefill_tps if cold is not None and proven_cold else None,
        ttft_ms=cold.ttft_ms if cold is not None and proven_cold else None,
        decode_tps_samples=tuple(decode),
        generated_tokens=sum(timing.completion_tokens for timing in timings),
        prefix_reused=all((timing.cached_tokens or 0) >= depth // 2 for timing in reused) if reused else None,
        seconds=round(seconds, 3),
    )


def _parallel_result(cell: Cell, clocked: list[_Clocked], seconds: float) -> CellResult:
    window_s = max(c.end_s for c in clocked) - min(c.first_s for c in clocked)
    tokens = sum(c.timing.completion_tokens - 1 for c in clocked)
    total = tokens / window_s if window_s > 0 else None
    return CellResult(
        cell=cell,
        decode_tps=total,
        client_decode_tps=total,
        decode_tps_samples=tuple(c.timing.decode_tps for c in clocked if c.timing.decode_tps is not None),
        generated_tokens=sum(c.timing.completion_tokens for c in clocked),
        seconds=round(seconds, 3),
    )
