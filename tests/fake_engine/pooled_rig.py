"""The physics of an engine that serves all requests from one pool of KV memory, as SGLang does.

Speeds are those of `rig.py`, asked for under this engine's own flags. Memory is another thing: a share of the card is
taken at once, and what weights, states and drafts leave of it is the pool. So a context is never refused at load: it
is as long as the pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if __package__:
    from .rig import CACHE_BYTES, Device, Measured, Plan, Rig
    from .rig_keys import check_rig
    from .rig_tables import holds, read_rig
else:
    from rig import CACHE_BYTES, Device, Measured, Plan, Rig
    from rig_keys import check_rig
    from rig_tables import holds, read_rig

ENGINE = "sglang"
_SIXTEEN_BITS = ("auto", "bfloat16")
_LEAST_POOL = 256
"""Tokens; with less nothing can be served."""


@dataclass(frozen=True)
class PooledRig(Rig):
    """One simulated machine with one model, under SGLang's flags (with underscores)."""

    pool: dict[str, float] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path | str | None = None) -> PooledRig:
        """The rig of a file.

        Raises:
            ValueError: the file is for another engine, has a key that nothing reads, or lacks one.
        """
        file = Path(path or "")
        values = read_rig(file)
        if values.pop("engine", None) != ENGINE:
            raise ValueError(f"{file}: this rig is not for {ENGINE}")
        check_rig(file, values)
        devices = tuple(Device(**device) for device in values.pop("devices", []))
        return cls(devices=devices, **values)

    def measure(self, settings: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Measured:
        """What `settings` do here; absent ones have the engine's defaults."""
        card = self.devices[0]
        chunk = int(settings.get("chunked_prefill_size", self.pool["chunk"]))
        algorithm = str(settings.get("speculative_algorithm", "none"))
        asked = algorithm not in ("none", "unset")
        facts = self.speculation.get(algorithm)
        steps = int(settings.get("speculative_num_steps", 3))
        asked_type = str(settings.get("kv_cache_dtype", "auto"))
        dtype = "bf16" if asked_type in _SIXTEEN_BITS else asked_type

        static = float(settings.get("mem_fraction_static", self.pool["mem_fraction"])) * card.free_mib
        drafts = 0.0
        if facts is not None:
            tokens = int(settings.get("speculative_num_draft_tokens", steps + 1))
            drafts = facts.get("mib", 0.0) + facts.get("mib_per_draft", 0.0) * tokens
        held = self.pool["fixed_mib"] + drafts
        room = static - self.model["weights_mib"] - held
        tokens_in_pool = int(1000 * room / (self.memory["kv_f16_mib_per_1k"] * CACHE_BYTES[dtype] / 2))
        context = min(int(settings.get("context_length", self.model["trained_context"])), max(tokens_in_pool, 0))
        activation = self.pool["activation_mib_per_1k_chunk"] * chunk / 1000

        failure = None
        if tokens_in_pool < _LEAST_POOL:
            failure = "kv"  # the engine asks for a larger fraction
        elif static + activation > card.free_mib:
            failure = "compute"  # at the first large prompt; a smaller fraction would help
        plan = Plan(
            context=context,
            slots=int(settings.get("max_running_requests", self.pool["running"])),
            unified=True,
            gpu_layers=self.model["layers"] + 1,
            shares={card.name: 1.0},
            batch=int(settings.get("max_prefill_tokens", 16384)),
            ubatch=chunk,
            type_k=dtype,
            type_v=dtype,
            flash=True,
            spec=(algorithm,) if facts is not None else (),
            spec_failed=asked and facts is None,
            n_max=steps,
        )
        memory = {card.name: {"model": self.model["weights_mib"], "context": max(room, 0.0), "compute": held}}
        effective = {"context_length": context, "chunked_prefill_size": chunk} | dict(settings)
        cliffs = tuple(c for c in self.cliffs if all(holds(each, effective) for each in c["when"].split("&")))
        return Measured(
            self, settings, environment or {}, plan, memory, memory, failure, card.name if failure else None, cliffs
        )


def load_rig(path: Path) -> Rig:
    """The rig of a file, of whatever engine it is for."""
    return PooledRig.load(path) if read_rig(path).get("engine") == ENGINE else Rig.load(path)
