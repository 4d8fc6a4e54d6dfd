"""What was measured in a trial. Unknown is None, never 0."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from tuner.domain.gpu import GpuUse
from tuner.domain.quality import QualityResult
from tuner.domain.workload import Cell


class RequestTiming(BaseModel):
    """One request, as the engine and as the client's own clock saw it. One raw line of `requests.jsonl`."""

    model_config = ConfigDict(frozen=True)

    prompt_tokens: int
    """Prompt tokens in all, cached ones included."""
    cached_tokens: int | None
    """Of these, taken from a cache instead of computed. None where the engine does not say."""
    completion_tokens: int
    prefill_ms: float | None
    """The engine's time for the computed prompt tokens."""
    decode_ms: float | None
    """The engine's time for the generated tokens."""
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    ttft_ms: float
    """Client: from sending the request to the first token."""
    total_ms: float
    """Client: from sending the request to the last token."""
    gaps_ms: tuple[float, ...] = ()
    """Client: between the arrivals of one piece of the answer and the next. A piece is one token as a rule; with
    speculation all tokens of a verification arrive in one burst, so that most gaps are next to nothing."""
    finish_reason: str | None = None
    """Why the answer ended, in the engine's words; `truncated` where the context was full, `cut off` where decoding
    took too long."""
    text: str = ""
    """The beginning of what was generated, for a person to look at."""

    @property
    def prefill_tps(self) -> float | None:
        """Computed prompt tokens a second, engine timing."""
        if self.prefill_ms is None or self.prefill_ms <= 0 or self.cached_tokens is None:
            return None
        return 1000 * (self.prompt_tokens - self.cached_tokens) / self.prefill_ms

    @property
    def decode_tps(self) -> float | None:
        """Generated tokens a second after the first, engine timing. None for fewer than two tokens."""
        if self.decode_ms is None or self.decode_ms <= 0 or self.completion_tokens < 2:
            return None
        return 1000 * (self.completion_tokens - 1) / self.decode_ms

    @property
    def client_decode_tps(self) -> float | None:
        """Generated tokens a second after the first, by the client's clock: the cross-check."""
        if self.completion_tokens < 2 or self.total_ms <= self.ttft_ms:
            return None
        return 1000 * (self.completion_tokens - 1) / (self.total_ms - self.ttft_ms)

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted draft tokens / drafted. None without speculation."""
        if not self.draft_tokens or self.accepted_tokens is None:
            return None
        return self.accepted_tokens / self.draft_tokens


class RequestFailure(BaseModel):
    """A request that was not answered."""

    model_config = ConfigDict(frozen=True)

    kind: str
    """`no_first_token`, `stalled`, `connection_lost`, `refused` or `context_exceeded`."""
    detail: str


class CellResult(BaseModel):
    """The figures of one cell: medians over its measured requests."""

    model_config = ConfigDict(frozen=True)

    cell: Cell
    decode_tps: float | None = None
    """Per stream; engine timing. Of all streams together for more than one, by the client's clock."""
    client_decode_tps: float | None = None
    prefill_tps: float | None = None
    """Cold prefill; only the first cell of a depth has one."""
    ttft_ms: float | None = None
    """Time to the first token of the cold prefill; only the first cell of a depth has one."""
    warm_ttft_ms: float | None = None
    """Time to the first token where the depth's prefix came from the cache, as the engine's cached tokens prove."""
    inter_token_p50_ms: float | None = None
    """From one piece of the answer to the next, by the client's clock, over all measured requests. With speculation
    tokens arrive in bursts: the median then says little, and the 95th percentile is about one verification."""
    inter_token_p95_ms: float | None = None
    acceptance_rate: float | None = None
    acceptance_length: float | None = None
    """Tokens gained per verification: generated / (generated - accepted drafts). None without speculation."""
    decode_tps_samples: tuple[float, ...] = ()
    """Every measured value, in order; for more than one stream of all of them together."""
    decode_tps_interval: tuple[float, float] | None = None
    """95 % bootstrap interval of the median within this launch; None for a single value."""
    outliers: tuple[float, ...] = ()
    """Of the samples those far from all others. They stay among them: a median does not follow them."""
    stream_tps: tuple[float, ...] = ()
    """For more than one stream: each stream's own decode speed, engine timing."""
    prompt_tokens: tuple[int, ...] = ()
    """Of every measured request, in order; cached ones included."""
    cached_tokens: tuple[int | None, ...] = ()
    """Of these, taken from the cache."""
    finish_reasons: tuple[str | None, ...] = ()
    """Why the answer of every measured request ended, in order."""
    prefix_reused: bool | None = None
    """Whether the depth's prefix came from the cache. False costs time, not truth."""
    generated_tokens: int | None = None
    """Of all its measured requests."""
    seconds: float | None = None
    """Wall time of all its requests, repeats included."""

    @property
    def stream_spread(self) -> float | None:
        """How far the streams' speeds lie apart, as a share of their mean. None for a single stream."""
        if len(self.stream_tps) < 2:
            return None
        return (max(self.stream_tps) - min(self.stream_tps)) * len(self.stream_tps) / sum(self.stream_tps)


class ActualSettings(BaseModel):
    """What the engine really runs with, read back after it became ready. None: the engine does not say."""

    model_config = ConfigDict(frozen=True)

    context_per_slot: int | None = None
    slots: int | None = None
    speculation: bool | None = None
    flash_attention: bool | None = None
    offloaded_layers: str | None = None
    """Like `19/19`."""
    kv_types: str | None = None
    """Of the KV cache's keys and values, like `q8_0/q8_0`."""
    graph_splits: int | None = None
    """Pieces into which the compute graph is cut between devices; the largest of the target model's graphs."""
    buffers_mib: dict[str, float] = {}
    """Device -> MiB of model, KV and compute buffers together, as the engine logs them."""


class Measurement(BaseModel):
    """Everything measured in one launch."""

    model_config = ConfigDict(frozen=True)

    cells: tuple[CellResult, ...]
    ready_s: float
    """From launch to ready."""
    actual: ActualSettings
    proven_context: int | None = None
    """The deepest cold prompt that finished and was answered, in tokens with its answer."""
    host_rss_peak_mib: float | None = None
    """The highest resident memory of the engine's processes, from their start to the end of the workload."""
    swap_growth_mib: float | None = None
    """By how much more host memory was swapped out at some time than when the engine was started."""
    cut_short: str | None = None
    """Why the workload's last cells were not measured, if they were left out on purpose."""

    quality: QualityResult | None = None
    """What its answers were worth; None where that was not checked."""
    gpus: tuple[GpuUse, ...] = ()
    """What every card of the machine did while the workload ran."""
    signs: tuple[str, ...] = ()
    """In what the run differed from what was asked, in words."""
    observations: tuple[str, ...] = ()
    """What else the engine's log tells a person."""

    def result(self, cell: Cell) -> CellResult | None:
        """The result of `cell`, if it was measured."""
        content, depth, streams = cell.content, cell.depth, cell.streams
        for result in self.cells:
            # Field by field: comparing two models costs twenty times as much, and reports ask a million times.
            own = result.cell
            if own.depth == depth and own.content == content and own.streams == streams:
                return result
        return None

    def ttft_at(self, depth: int) -> float | None:
        """Time to the first token of the cold prompt at `depth`, one stream, in milliseconds."""
        times = [r.ttft_ms for r in self.cells if r.cell.depth == depth and r.cell.streams == 1]
        return next((time for time in times if time is not None), None)

    def prefill_at(self, depth: int) -> float | None:
        """Cold prefill speed at `depth`, one stream, in tokens a second."""
        speeds = [r.prefill_tps for r in self.cells if r.cell.depth == depth and r.cell.streams == 1]
        return next((speed for speed in speeds if speed is not None), None)
