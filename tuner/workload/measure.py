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
from tuner.domain.quality import QualityResult
from tuner.domain.spread import median_interval, outliers
from tuner.domain.workload import Cell, Content, Workload
from tuner.workload.client import EngineClient
from tuner.workload.figures import with_figures
from tuner.workload.patience import Patience
from tuner.workload.precision import Precision
from tuner.workload.quality import QualityRun
from tuner.workload.texts import instruction, mixed_document, needles, opening, salt

RequestLog = Callable[[str, bool, RequestTiming | RequestFailure], None]
"""Called for every request with the cell's name, whether it counts (warm-ups do not), and what came of it."""

_WARM_UP_TOKENS = 16
_MOST_WARM_UPS = 5
_WARM_UP_S = 20.0
_STILL_WARMING = 1.05
"""A server that has become faster by less than this from one warm-up to the next is warm."""
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
    quality: QualityResult | None = None
    """What the answers were worth; None where the pass ended early."""
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
        precision: Precision | None = None,
        hopeless: Callable[[Sequence[CellResult]], str | None] = lambda _: None,
        after_cell: Callable[[str], None] = lambda _: None,
        quality: QualityRun | None = None,
    ) -> None:
        """Prepares a pass.

        Args:
            client: speaks to the server.
            workload: what to measure.
            salt_key: unique to this launch: it keeps every cache and n-gram table from remembering a prompt.
            slots: how many requests the server serves at once.
            log: where every request's raw figures go.
            patience: the deadlines.
            precision: how often each cell is measured; without it as often as the workload says, and no more.
            hopeless: asked after every cell with what was measured so far; a reason ends the pass.
            after_cell: told the name of every cell that was measured.
            quality: asks behind the deepest text while it is in the cache, and alone once all cells are measured.
        """
        self._client = client
        self._generate = partial(client.generate, sampling=workload.sampling)
        self._workload = workload
        self._salt_key = salt_key
        self._slots = slots
        self._log = log
        self._log_lock = threading.Lock()
        self._patience = patience
        self._precision = precision or Precision(least=workload.repeats, most=workload.repeats)
        self._hopeless = hopeless
        self._after_cell = after_cell
        self._quality = quality
        self._deepest = max((cell.depth, -cell.streams) for cell in workload.cells)
        self._prefixes: dict[tuple[int, str], str] = {}
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
            if self._quality is not None and self._result.failure is None and (depth, -streams) == self._deepest:
                self._note_failure(self._quality.ask_deep(self._prefix(depth, _first_stream(streams)), depth))
            if self._result.failure is not None:
                return self._result
        if self._quality is not None:
            self._note_failure(self._quality.ask_alone())
            self._result.quality = self._quality.result()
        return self._result

    def _note_failure(self, failure: RequestFailure | None) -> None:
        if failure is not None:
            self._result.failure, self._result.failed_cell = failure, "quality"

    def _warm_up(self) -> bool:
        """Short requests until the server gets no faster: the first ones compile kernels and wake the clocks."""
        began = time.monotonic()
        fastest = 0.0
        for number in range(_MOST_WARM_UPS):
            prompt = self._prompt(salt(f"{self._salt_key}/warm-up {number}"), self._workload.cells[0], 0)
            answer = self._generate(
                prompt,
                predict_tokens=_WARM_UP_TOKENS,
                reuse_prefix=False,
                first_token_s=self._patience.first_token_s(0),
                stall_s=self._patience.stall_s,
                limit_s=self._workload.decode_limit_s,
                slot=0,
            )
            timing = self._accept("warm-up", False, answer)
            if timing is None:
                return False
            speed = timing.decode_tps
            if speed is None or speed < _STILL_WARMING * fastest or time.monotonic() - began > _WARM_UP_S:
                break
            fastest = max(fastest, speed)
        return True

    def _single_stream(self, depth: int, cells: list[Cell]) -> Iterator[CellResult]:
        prefix = self._prefix(depth, "single")
        cold: RequestTiming | None = None
        for cell in cells:
            timings: list[RequestTiming] = []
            started = time.monotonic()
            longest = self._patience.cell_s(cell)
            while self._precision.wants_more(cell, len(timings), _speeds(timings)):
                if timings and longest is not None and time.monotonic() - started > longest:
                    break  # So slow a cell loses, however often it is measured.
                prompt = self._prompt(prefix, cell, len(timings))
                timing = self._request(cell, prompt, reuse_prefix=cold is not None)
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
            rounds: list[list[_Clocked]] = []
            while self._precision.wants_more(cell, len(rounds), _totals(rounds)):
                variants = range(len(rounds) * streams, (len(rounds) + 1) * streams)
                prompts = [self._prompt(prefix, cell, one) for prefix, one in zip(prefixes, variants, strict=True)]
                if not self._fill(cell, prompts, slots):
                    return
                clocked = self._together(cell, prompts, slots)
                if clocked is None:
                    return
                rounds.append(clocked)
                longest = self._patience.cell_s(cell)
                if longest is not None and time.monotonic() - began > longest:
                    break
            timings = [one.timing for clocked in rounds for one in clocked]
            yield with_figures(_parallel_result(cell, rounds, time.monotonic() - began), timings)

    def _fill(self, cell: Cell, prompts: list[str], slots: list[int | None]) -> bool:
        for prompt, slot in zip(prompts, slots, strict=True):
            fill = self._generate(
                prompt,
                predict_tokens=2,
                reuse_prefix=True,
                first_token_s=self._patience.first_token_s(cell.depth),
                stall_s=self._patience.stall_s,
                limit_s=self._workload.decode_limit_s,
                slot=slot,
            )
            if self._accept(cell.name, False, fill) is None:
                return False
        return True

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
        """About `depth` tokens of salted text that no other launch has seen, with needles hidden where it is long."""
        known = self._prefixes.get((depth, part))
        if known is not None:
            return known
        salted = f"{salt(f'{self._salt_key}/{depth}/{part}')}\n\n{_document(depth)}"
        if depth < needles.LEAST_DEPTH:
            text = self._client.truncate(salted, depth)
        else:
            text = needles.hide_needles(self._client.truncate(salted, depth - needles.ROOM))
        self._prefixes[depth, part] = text
        return text

    def _prompt(self, prefix: str, cell: Cell, variant: int) -> str:
        if cell.content is Content.OWN:
            own = self._workload.conversations
            return self._client.render(own[variant % len(own)].behind(prefix), "")
        request, beginning = _question(cell.content, variant)
        return self._client.render(f"{prefix}\n\n{request}", beginning)

    def _accept(self, name: str, counts: bool, answer: RequestTiming | RequestFailure) -> RequestTiming | None:
        with self._log_lock:
            self._log(name, counts, answer)
        if self._quality is not None and counts and isinstance(answer, RequestTiming):
            self._quality.hear(name, answer.text)
        if isinstance(answer, RequestFailure):
            self._result.failure = answer
            self._result.failed_cell = name
            return None
        return answer

    def _note_depth(self, cold: RequestTiming) -> None:
        if cold.cached_tokens == 0:
            reached = cold.prompt_tokens + cold.completion_tokens
            self._result.deepest_answered = max(self._result.deepest_answered or 0, reached)


def _first_stream(streams: int) -> str:
    """The part whose text lies in slot 0."""
    return "single" if streams == 1 else "stream 0"


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
    decode = _speeds(timings)
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
        decode_tps_interval=median_interval(decode),
        outliers=tuple(decode[place] for place in outliers(decode)),
        generated_tokens=sum(timing.completion_tokens for timing in timings),
        prefix_reused=all((timing.cached_tokens or 0) >= depth // 2 for timing in reused) if reused else None,
        seconds=round(seconds, 3),
    )


def _parallel_result(cell: Cell, rounds: list[list[_Clocked]], seconds: float) -> CellResult:
    totals = _totals(rounds)
    timings = [one.timing for clocked in rounds for one in clocked]
    return CellResult(
        cell=cell,
        decode_tps=statistics.median(totals) if totals else None,
        client_decode_tps=statistics.median(totals) if totals else None,
        decode_tps_samples=tuple(totals),
        decode_tps_interval=median_interval(totals),
        outliers=tuple(totals[place] for place in outliers(totals)),
        generated_tokens=sum(timing.completion_tokens for timing in timings),
        seconds=round(seconds, 3),
    )


def _speeds(timings: Sequence[RequestTiming]) -> list[float]:
    """The decode speeds of requests, in order, in tokens a second."""
    return [timing.decode_tps for timing in timings if timing.decode_tps is not None]


def _totals(rounds: Sequence[Sequence[_Clocked]]) -> list[float]:
    """What all streams together decoded in each round, in tokens a second, by the client's clock."""
    totals = []
    for clocked in rounds:
        window_s = max(c.end_s for c in clocked) - min(c.first_s for c in clocked)
        if window_s > 0:
            totals.append(sum(c.timing.completion_tokens - 1 for c in clocked) / window_s)
    return totals
