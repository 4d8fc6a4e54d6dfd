"""Which keys a rig may have: a misspelt one would silently leave the parent's value in place."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

KEYS: Mapping[str, frozenset[str]] = {
    "machine": frozenset({"cores", "host_mib"}),
    "devices": frozenset({"name", "description", "total_mib", "free_mib", "speed", "bus_id", "card"}),
    "model": frozenset(
        {"name", "layers", "trained_context", "weights_mib", "mtp_layers", "expert_share", "load_s"}
    ),
    "memory": frozenset(
        {
            "kv_f16_mib_per_1k", "compute_mib", "compute_mib_per_ubatch", "attention_mib_per_1k_ubatch",
            "runtime_mib_per_1k", "draft_model_mib", "slot_mib", "unreported_mib", "spill_mib", "spill_prefill",
            "spill_decode",
        }
    ),
    "sglang": frozenset(
        {
            "auto_fraction", "chunk", "activation_mib_per_1k", "graph_mib", "kv_mib_per_1k", "draft_mib",
            "base_state_mib", "state_mib", "chunks", "decode_steps",
        }
    ),
    "prefill": frozenset({"tps", "half_depth", "without_flash", "ubatch", "batch", "ubatch_several_devices"}),
    "decode": frozenset({"tps", "half_depth", "time_at_depth", "slot_cost", "stream_cost"}),
    "kv": frozenset({"prefill", "decode", "mixed_prefill", "mixed_decode", "accept", "noise"}),
    "cpu": frozenset({"prefill", "decode", "host_share", "factors"}),
    "cliffs": frozenset({"when", "because", "fails", "from_depth", "prefill", "decode", "accept"}),
    "power": frozenset({"prefill", "decode", "verify_growth"}),
    "noise": frozenset({"sigma", "launch_sigma", "outliers", "slowest", "drift", "drift_hours"}),
    "study": frozenset({"ctx_min", "base", "goal"}),
    "measured": frozenset(
        {"source", "set", "sweep", "depth", "streams", "is", "ratio", "to", "between", "within", "unmodelled"}
    ),
}  # fmt: skip
"""Table -> its keys."""
SPECULATION_KEYS = frozenset(
    {
        "accept", "decay", "draft_cost", "verify_cost", "cost", "cost_of_content", "half_depth", "coverage", "length",
        "p_min", "p_min_accept", "prefill", "prefill_several_devices", "prefill_drafting_on", "mib", "mib_per_draft",
    }
)  # fmt: skip
"""Of one type of speculation."""
FREE_TABLES = frozenset({"split", "environment", "base"})
"""Their keys are the engine's own: split modes, variables, long flags."""
NEEDED: Mapping[str, frozenset[str]] = {
    "machine": frozenset({"cores", "host_mib"}),
    "model": frozenset({"name", "layers", "trained_context", "weights_mib", "mtp_layers", "load_s"}),
    "memory": frozenset({"kv_f16_mib_per_1k", "compute_mib", "compute_mib_per_ubatch", "attention_mib_per_1k_ubatch"}),
    "prefill": frozenset({"tps", "half_depth", "without_flash", "ubatch", "batch"}),
    "decode": frozenset({"tps", "half_depth", "slot_cost", "stream_cost"}),
    "kv": frozenset({"prefill", "decode", "mixed_prefill", "mixed_decode", "accept", "noise"}),
    "cpu": frozenset({"prefill", "decode", "host_share"}),
}
"""Without these there is no machine; `extends` brings them all."""


def check_rig(path: Path, values: Mapping[str, Any]) -> None:
    """Refuses what no part of the simulation would read.

    Raises:
        ValueError: an unknown or missing key, with the table it is in and the nearest known one.
    """
    tables = {*KEYS, *FREE_TABLES, "speculation"}
    for name, content in values.items():
        if name in ("about", "engine"):
            continue
        if name not in tables:
            raise ValueError(f"{path}: there is no table [{name}]{_nearest(name, tables)}")
        if name in FREE_TABLES:
            continue
        if name == "speculation":
            for kind, facts in content.items():
                _check(path, f"speculation.{kind}", facts, SPECULATION_KEYS)
            continue
        for table in content if isinstance(content, list) else [content]:
            _check(path, name, table, KEYS[name])
    for name, needed in NEEDED.items():
        missing = needed - values.get(name, {}).keys()
        if missing:
            raise ValueError(f"{path}: [{name}] needs {', '.join(sorted(missing))}; `extends` another rig to have them")


def _check(path: Path, name: str, table: Mapping[str, Any], known: frozenset[str]) -> None:
    for key in table:
        if key not in known:
            raise ValueError(f"{path}: [{name}] has no key `{key}`{_nearest(key, known)}")


def _nearest(word: str, known: frozenset[str] | set[str]) -> str:
    found = get_close_matches(word, sorted(known), n=1)
    return f"; did you mean `{found[0]}`?" if found else ""
