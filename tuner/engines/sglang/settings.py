"""What a ready server really runs with, from `/server_info` and its log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.domain.measurement import ActualSettings
from tuner.domain.memory import HOST
from tuner.engines.sglang.log_facts import kv_type

_MIB_PER_GB = 1024.0
"""SGLang divides by 2**30 and calls it GB."""


def actual_settings(info: Mapping[str, Any], context_length: int | None, log_text: str) -> ActualSettings:
    """Usable context, slots, speculation, KV type and memory; what the server does not tell is None.

    The context that can be used is the shorter one of what the model takes and what the KV pool holds: with
    speculation the pool may hold a third.
    """
    state = (info.get("internal_states") or [{}])[0]
    context = context_length if context_length is not None else _whole(info, "context_length")
    pool = _whole(info, "max_total_num_tokens")
    if pool is None:
        pool = _whole(state.get("memory_usage") or {}, "token_capacity")
    known = [size for size in (context, pool) if size is not None]
    slots = _whole(state, "effective_max_running_requests_per_dp")
    cache = kv_type(log_text) or info.get("kv_cache_dtype")
    return ActualSettings(
        context_per_slot=min(known) if known else None,
        slots=slots if slots is not None else _whole(info, "max_running_requests"),
        speculation=bool(info["speculative_algorithm"]) if "speculative_algorithm" in info else None,
        kv_types=f"{cache}/{cache}" if cache else None,
        buffers_mib=_buffers(info, state.get("memory_usage") or {}),
    )


def _buffers(info: Mapping[str, Any], usage: Mapping[str, Any]) -> dict[str, float]:
    """Device -> MiB of weights, KV pool and graphs. Every card of a tensor-parallel group holds as much."""
    graphs = usage.get("graph")
    parts = [usage.get("weight"), usage.get("kvcache")]
    parts += list(graphs.values()) if isinstance(graphs, Mapping) else [graphs]
    known = [float(part) for part in parts if isinstance(part, int | float)]
    if not known:
        return {}
    mib = round(sum(known) * _MIB_PER_GB, 2)
    if info.get("device") == "cpu":
        return {HOST: mib}
    first, step = _whole(info, "base_gpu_id") or 0, _whole(info, "gpu_id_step") or 1
    ranks = (_whole(info, "tp_size") or 1) * (_whole(info, "pp_size") or 1)
    # The back end's own name is not told here; torch calls a ROCm card `cuda` as well.
    return {f"CUDA{first + step * rank}": mib for rank in range(ranks)}


def _whole(told: Mapping[str, Any], name: str) -> int | None:
    value = told.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
