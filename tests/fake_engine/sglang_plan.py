"""What a configuration of the fake SGLang comes to on a rig: its pool, its speeds, and how it fails.

Speeds follow from the physics of `rig.py`; memory is SGLang's own: one share is divided into weights and pool before
anything runs, and what is left is all that chunks and CUDA graphs have. The table `[sglang]` of a rig says how:

    auto_fraction           the share that the engine chooses itself
    chunk                   the chunk that it chooses itself, in tokens
    activation_mib_per_1k   outside the share, for every thousand tokens of a chunk
    graph_mib               outside the share, for every size of batch that is recorded; 16 sizes by itself
    kv_mib_per_1k           of the pool, for a thousand tokens with 16 bits
    draft_mib               of the share, for a drafter's weights
    base_state_mib          of the share, for recurrent states
    state_mib               of the share, for each draft of a step, at the engine's own number of requests
    chunks                  speed of a prompt by the size of its chunks
    decode_steps            speed of decoding by the number of steps in a row
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rig import Measured, Rig

OWN_REQUESTS = 32
"""How many requests the engine prepares for where it is not told."""
DRAFTING = ("NEXTN", "EAGLE", "EAGLE3", "STANDALONE")


@dataclass(frozen=True)
class Plan:
    """One configuration on one rig."""

    measured: Measured
    context: int
    pool: int
    """Tokens."""
    requests: int
    fraction: float
    chunk: int
    steps: int
    """Drafts of a verification; 0 without speculation."""
    weights_mib: float
    pool_mib: float
    rest_mib: float
    """What the static share leaves."""
    graphs_mib: float
    chunk_factor: float
    decode_factor: float

    @property
    def usable(self) -> int:
        return min(self.context, self.pool)

    def prefill_tps(self, depth: int) -> float:
        return self.measured.prefill_tps(depth) * self.chunk_factor

    def decode_tps(self, content: str, depth: int, streams: int) -> float:
        return self.measured.decode_tps(content, depth, streams) * self.decode_factor

    def out_of_memory_at(self) -> float:
        """The prompt, in tokens, whose chunk does not fit beside the static share any more."""
        room = self.rest_mib - self.graphs_mib
        largest = 1000 * room / self.measured.rig.sglang["activation_mib_per_1k"]
        return math.inf if largest >= self.chunk else largest


def plan(settings: Mapping[str, Any], rig: Rig) -> Plan:
    """What these settings come to."""
    table = rig.sglang
    device = rig.devices[0] if rig.devices else None
    total = float(device.free_mib if device else rig.machine["host_mib"]) * (settings.get("tp_size") or 1)
    algorithm = settings.get("speculative_algorithm")
    steps = int(settings.get("speculative_num_steps") or 3) if algorithm in DRAFTING else 0
    eight_bits = str(settings.get("kv_cache_dtype") or "auto").startswith("fp8")
    chunk = settings.get("chunked_prefill_size") or table["chunk"]
    chunk = chunk if chunk > 0 else rig.model["trained_context"]
    requests = settings.get("max_running_requests") or OWN_REQUESTS
    cache = "q8_0" if eight_bits else "f16"
    measured = rig.measure({
        "fit": "off", "gpu_layers": "all", "ctx_size": 256, "parallel": 1, "ubatch_size": 512,
        "cache_type_k": cache, "cache_type_v": cache, "spec_type": "draft-mtp" if steps else "none",
        "spec_draft_n_max": max(steps, 1),
    })  # fmt: skip
    fraction = settings.get("mem_fraction_static") or table["auto_fraction"]
    weights = float(rig.model["weights_mib"]) + (table["draft_mib"] if steps else 0.0)
    states = steps * table["state_mib"] * (0.7 + 0.3 * min(requests, OWN_REQUESTS) / OWN_REQUESTS)
    states += table["base_state_mib"] * (0.7 if settings.get("disable_radix_cache") else 1.0)
    per_1k = table["kv_mib_per_1k"] * (0.5 if eight_bits else 1.0)
    pool_mib = total * fraction - weights - states
    pool = int(1000 * pool_mib / per_1k)
    if settings.get("max_total_tokens"):
        pool = min(pool, settings["max_total_tokens"])
    sizes = 0 if settings.get("cuda_graph_backend_decode") == "disabled" or settings.get("disable_cuda_graph") else (
        settings.get("cuda_graph_max_bs_decode") or min(16, requests)
    )  # fmt: skip
    in_a_row = str(settings.get("num_continuous_decode_steps") or 1)
    return Plan(
        measured=measured,
        context=settings.get("context_length") or rig.model["trained_context"],
        pool=pool,
        requests=requests,
        fraction=fraction,
        chunk=chunk,
        steps=steps,
        weights_mib=weights,
        pool_mib=min(pool_mib, pool * per_1k / 1000),
        rest_mib=total * (1 - fraction),
        graphs_mib=sizes * table["graph_mib"],
        chunk_factor=table["chunks"].get(str(chunk), 1.0),
        decode_factor=table["decode_steps"].get(in_a_row, 1.0) * (1.0 if sizes else 0.6),
    )
