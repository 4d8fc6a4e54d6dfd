"""The physics of a simulated machine: what a configuration's speed and memory are, as a pure function of its flags.

A rig file (see `tests/rigs/default.toml`, which explains every key) describes one machine with one model. Because
the function is known and cheap, a test can enumerate it and know the best configuration that a search should find.
Speeds are nominal tokens per second, memory is MiB, depths are tokens.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

DEFAULT_RIG = Path(__file__).resolve().parent.parent / "rigs" / "default.toml"
KV_BYTES = {"f32": 4, "f16": 2, "bf16": 2, "q8_0": 34 / 32, "q5_1": 0.75, "q5_0": 22 / 32, "q4_1": 20 / 32,
            "q4_0": 18 / 32, "iq4_nl": 18 / 32}  # fmt: skip
QUANTISED = {name for name, size in KV_BYTES.items() if size < 2}
CONTEXT_STEP = 256  # llama.cpp pads the context to this


@dataclass(frozen=True)
class Device:
    """One simulated GPU. `speed` is relative to the rig's base speed."""

    name: str
    description: str
    total_mib: int
    free_mib: int
    speed: float = 1.0
    bus_id: str = "unknown id"
    """Where the device sits, as the engine logs it."""


@dataclass(frozen=True)
class Plan:
    """What the engine really runs with, after defaults and `--fit`."""

    context: int
    """Tokens of KV cache in all, padded."""
    slots: int
    unified: bool
    gpu_layers: int
    """Offloaded layers, the output layer included."""
    shares: dict[str, float]
    """Device -> its share of what is offloaded; one entry a used device."""
    batch: int
    ubatch: int
    type_k: str
    type_v: str
    flash: bool
    spec: tuple[str, ...]
    """Types of speculation that work here."""
    spec_failed: bool
    """Whether speculation was asked for, but cannot be set up: the engine then runs without."""
    n_max: int
    changes: tuple[str, ...] = ()
    """What `--fit` changed, in words."""
    gave_up: str = ""
    """Why `--fit` stopped before everything fitted; the engine then loads anyway."""

    @property
    def context_per_slot(self) -> int:
        whole = self.context if self.unified else self.context // self.slots
        return whole // CONTEXT_STEP * CONTEXT_STEP


@dataclass(frozen=True)
class Drafts:
    """Speculation in one place: per verification, tokens gained in all, drafted and accepted; and its relative cost."""

    gained: float = 1.0
    drafted: float = 0.0
    accepted: float = 0.0
    cost: float = 1.0


@dataclass(frozen=True)
class Measured:
    """What one configuration does on one rig."""

    rig: Rig
    settings: Mapping[str, Any]
    environment: Mapping[str, str]
    plan: Plan
    projected: dict[str, dict[str, float]]
    """Like `memory`, before `--fit` changed anything."""
    memory: dict[str, dict[str, float]]
    """Device (and `Host`) -> MiB by `model`, `context`, `compute`."""
    failure: str | None = None
    """None when it loads; else `weights`, `kv`, `compute`, `quantized_v` or `no_mtp`."""
    failed_device: str | None = None

    @property
    def outcome(self) -> str:
        """`OK`, `OUT_OF_MEMORY`, or `CRASHED` for what the engine refuses to load or dies of at once."""
        if self.failure in ("weights", "kv", "compute"):
            return "OUT_OF_MEMORY"
        aborts = self.plan.n_max == 0 and any(kind.startswith("draft") for kind in self.plan.spec)
        return "CRASHED" if self.failure or aborts else "OK"

    @property
    def max_depth(self) -> float:
        """The deepest cold prompt that does not run out of memory on the way."""
        growth = self.rig.memory.get("runtime_mib_per_1k", 0.0)
        left = [d.free_mib - sum(self.memory[d.name].values()) for d in self.rig.devices if d.name in self.memory]
        return 1000 * min(left) / growth if growth and left else math.inf

    @property
    def mixed_kv(self) -> bool:
        """Whether K and V differ in type on a device: no fused kernel, so the work falls back to the CPU."""
        return bool(self.plan.shares) and self.plan.type_k != self.plan.type_v

    def _cpu_share(self) -> float:
        layers = self.rig.model["layers"] + 1
        offloaded = self.plan.gpu_layers
        experts = _expert_layers(self.settings, offloaded)
        return float((layers - offloaded + experts * self.rig.model.get("expert_share", 0.0)) / layers)

    def _threads(self, key: str) -> float:
        """Speed of the CPU's part, relative to one thread a core."""
        cores = self.rig.machine["cores"]
        asked = _int(self.settings, key, -1)
        if asked <= 0:
            asked = _int(self.settings, "threads", -1)
        threads = asked if asked > 0 else cores
        speed = (threads / cores) ** 0.7 if threads <= cores else max(0.3, 1 - 0.4 * (threads / cores - 1))
        for name, table in self.rig.cpu.get("factors", {}).items():
            speed *= table.get(str(self.settings.get(name, "")), 1.0)
        for name, table in self.rig.environment.items():
            speed *= table.get(self.environment.get(name, ""), 1.0)
        return float(speed)

    def _device_time(self, phase: str) -> float:
        """Time of the offloaded part, relative to one device of speed 1."""
        speeds = {device.name: device.speed for device in self.rig.devices}
        parts = [share / speeds[name] for name, share in self.plan.shares.items() if share > 0]
        if len(parts) < 2:
            return sum(parts)
        mode = str(self.settings.get("split_mode", "layer"))
        spread = sum(parts) if mode == "layer" else max(parts)
        return float(spread / self.rig.split.get(mode, {}).get(phase, 1.0))

    def _kv_factor(self, phase: str) -> float:
        table = self.rig.kv[phase]
        factor = math.sqrt(table.get(self.plan.type_k, 1.0) * table.get(self.plan.type_v, 1.0))
        return factor * (self.rig.kv[f"mixed_{phase}"] if self.mixed_kv else 1.0)

    def prefill_tps(self, depth: int = 0) -> float:
        """Mean speed of a cold prompt of `depth` tokens."""
        table, cpu = self.rig.prefill, self._cpu_share()
        time = (1 - cpu) * self._device_time("prefill") + cpu / (
            self.rig.cpu["prefill"] * self._threads("threads_batch")
        )
        several = sum(share > 0 for share in self.plan.shares.values()) > 1
        steps = table["ubatch_several_devices"] if several and "ubatch_several_devices" in table else table["ubatch"]
        speed = table["tps"] / time * _between(steps, self.plan.ubatch) * _between(table["batch"], self.plan.batch)
        speed *= self._kv_factor("prefill") * (1.0 if self.plan.flash else table["without_flash"])
        for kind in self.plan.spec:
            facts = self.rig.speculation.get(kind, {})
            speed *= facts.get("prefill_several_devices" if several else "prefill", 1.0)
        half = table["half_depth"] * (1.0 if self.plan.flash else 0.5)
        return float(speed / (1 + depth / (2 * half)))  # the mean over the prompt, not the speed at its end

    def drafts(self, content: str, depth: int = 0, streams: int = 1) -> Drafts:
        """What speculation does for `content`."""
        gained, drafted, accepted, cost, covered = 1.0, 0.0, 0.0, 1.0, 0.0
        for kind in sorted(self.plan.spec, reverse=True):  # n-gram types are asked before draft types
            facts = self.rig.speculation.get(kind)
            if facts is None:
                continue
            share = (1 - covered) * (facts["coverage"][content] if "coverage" in facts else 1.0)
            chance = facts["accept"][content] / (1 + depth / facts.get("half_depth", math.inf))
            chance *= math.sqrt(
                self.rig.kv["accept"].get(self.plan.type_k, 1.0) * self.rig.kv["accept"].get(self.plan.type_v, 1.0)
            )
            p_min = _float(self.settings, "spec_draft_p_min", 0.0)
            goes_on, chance = 1 - 0.5 * p_min, chance + (1 - chance) * 0.6 * p_min
            length = facts.get("length", self.plan.n_max)
            in_row, hits, tokens = 1.0, 0.0, 0.0
            for position in range(length):
                in_row *= goes_on * chance * facts["decay"] ** position
                hits += in_row
                tokens += goes_on ** (position + 1)
            if tokens < _int(self.settings, "spec_draft_n_min", 0):
                continue  # every draft is too short to be tried
            gained, accepted, drafted = gained + share * hits, accepted + share * hits, drafted + share * tokens
            cost += share * tokens * (facts["draft_cost"] + facts["verify_cost"] * streams)
            covered += share
        return Drafts(gained, drafted, accepted, cost)

    def decode_tps(self, content: str = "prose-en", depth: int = 0, streams: int = 1) -> float:
        """Speed of one stream while `streams` are decoded at once; content as in `tuner.domain.workload.Content`."""
        table, cpu = self.rig.decode, self._cpu_share()
        threads = self._threads("threads")
        time = (1 - cpu) * self._device_time("decode") + cpu / (self.rig.cpu["decode"] * threads)
        time += self.rig.cpu["host_share"] * (1 / threads - 1)
        size = (KV_BYTES[self.plan.type_k] + KV_BYTES[self.plan.type_v]) / 4
        half = table["half_depth"] * (1.0 if self.plan.flash else 0.5)
        time *= 1 + depth / half * (0.4 + 0.6 * size)
        time *= 1 + table["slot_cost"] * (self.plan.slots - 1)
        time *= 1 + table["stream_cost"] * (streams - 1)
        drafts = self.drafts(content, depth, streams)
        return float(table["tps"] / time * self._kv_factor("decode") * drafts.gained / drafts.cost)


@dataclass(frozen=True)
class Rig:
    """One simulated machine with one model."""

    machine: dict[str, Any]
    devices: tuple[Device, ...]
    model: dict[str, Any]
    memory: dict[str, float]
    prefill: dict[str, Any]
    decode: dict[str, Any]
    kv: dict[str, Any]
    cpu: dict[str, Any]
    speculation: dict[str, Any] = field(default_factory=dict)
    split: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, dict[str, float]] = field(default_factory=dict)
    sglang: dict[str, Any] = field(default_factory=dict)
    """What only the fake SGLang asks for, see `sglang_plan.py`."""

    @classmethod
    def load(cls, path: Path | str | None = None) -> Rig:
        """The rig of a file; without a path the one that FAKE_RIG names, else the default rig."""
        values = tomllib.loads(Path(path or os.environ.get("FAKE_RIG") or DEFAULT_RIG).read_text())
        devices = tuple(Device(**device) for device in values.pop("devices", []))
        return cls(devices=devices, **values)

    def measure(self, settings: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Measured:
        """What `settings` do here. Keys are long flags with underscores; absent ones have the engine's defaults."""
        plan = self._plan(settings)
        projected = self._memory(settings, plan)
        if settings.get("fit", "on") == "on":
            plan = self._fitted(settings, plan)
        memory = self._memory(settings, plan)
        failure, device = self._overflow(memory)
        if plan.type_v in QUANTISED and not plan.flash:
            failure, device = "quantized_v", None
        elif "draft-mtp" in plan.spec and not self.model["mtp_layers"] and not settings.get("spec_draft_model"):
            failure, device = "no_mtp", None
        return Measured(self, settings, environment or {}, plan, projected, memory, failure, device)

    def _plan(self, settings: Mapping[str, Any]) -> Plan:
        slots = _int(settings, "parallel", -1)
        unified = bool(settings.get("kv_unified", slots < 0))
        context = _int(settings, "ctx_size", 0) or self.model["trained_context"]
        layers = self.model["layers"] + 1
        asked = settings.get("gpu_layers", settings.get("n_gpu_layers", "auto"))
        gpu_layers = layers if asked in ("auto", "all") or int(asked) < 0 else min(int(asked), layers)
        shares = self._shares(settings) if gpu_layers else {}
        batch = _int(settings, "batch_size", 2048)
        asked_types = _spec_types(settings)
        # An n-gram type needs nothing to be set up: one that the rig knows nothing of runs and never finds a match.
        spec = tuple(kind for kind in asked_types if kind in self.speculation or kind.startswith("ngram-")
                     if kind != "draft-simple" or settings.get("spec_draft_model"))  # fmt: skip
        n_max = _int(settings, "spec_draft_n_max", 3)
        if self.model.get("mtp_layers", 0) > 1 and "draft-mtp" in spec:
            n_max = min(n_max, self.model["mtp_layers"])
        return Plan(
            context=-(-context // CONTEXT_STEP) * CONTEXT_STEP,
            slots=4 if slots < 0 else slots,
            unified=unified,
            gpu_layers=gpu_layers if shares else 0,
            shares=shares,
            batch=batch,
            ubatch=min(_int(settings, "ubatch_size", 512), batch),
            type_k=str(settings.get("cache_type_k", "f16")),
            type_v=str(settings.get("cache_type_v", "f16")),
            flash=settings.get("flash_attn", "auto") != "off",
            spec=spec,
            spec_failed=bool(asked_types) and not spec,
            n_max=n_max,
        )

    def _shares(self, settings: Mapping[str, Any]) -> dict[str, float]:
        wanted = str(settings.get("device") or ",".join(device.name for device in self.devices)).split(",")
        used = [device for device in self.devices if device.name in wanted]
        if settings.get("split_mode") == "none" and used:
            used = [used[_int(settings, "main_gpu", 0)]]
        ratios = [float(device.free_mib) for device in used]
        if settings.get("tensor_split") and len(used) > 1:
            given = [float(part) for part in str(settings["tensor_split"]).split(",")]
            ratios = [given[i] if i < len(given) else 0.0 for i in range(len(used))]
        total = sum(ratios)
        return {device.name: ratio / total for device, ratio in zip(used, ratios, strict=True)} if total else {}

    def _memory(self, settings: Mapping[str, Any], plan: Plan) -> dict[str, dict[str, float]]:
        layers = self.model["layers"] + 1
        experts = _expert_layers(settings, plan.gpu_layers)
        on_device = (plan.gpu_layers - experts * self.model.get("expert_share", 0.0)) / layers
        kv_mib = self.memory["kv_f16_mib_per_1k"] * plan.context / 1000
        kv_mib *= (KV_BYTES[plan.type_k] + KV_BYTES[plan.type_v]) / 4
        kv_on_device = plan.gpu_layers / layers if settings.get("kv_offload", True) else 0.0
        compute = self.memory["compute_mib"] + self.memory["compute_mib_per_ubatch"] * plan.ubatch
        if not plan.flash:
            compute += self.memory["attention_mib_per_1k_ubatch"] * plan.context / 1000 * plan.ubatch / 512
        weights = self.model["weights_mib"]
        memory = {
            name: {"model": weights * on_device * share, "context": kv_mib * kv_on_device * share, "compute": compute}
            for name, share in plan.shares.items()
        }
        memory["Host"] = {"model": weights * (1 - on_device), "context": kv_mib * (1 - kv_on_device),
                          "compute": compute if not plan.shares else self.memory["compute_mib"] / 8}  # fmt: skip
        draft_on = str(settings.get("spec_draft_device") or next(iter(plan.shares), "Host")).split(",")[0]
        if plan.spec or settings.get("spec_draft_model"):
            extra = max((self.speculation.get(kind, {}).get("mib", 0.0) for kind in plan.spec), default=0.0)
            if settings.get("spec_draft_model"):
                extra += self.memory.get("draft_model_mib", 0.0)
            memory[draft_on if draft_on in memory else "Host"]["compute"] += extra
        return memory

    def _overflow(self, memory: Mapping[str, Mapping[str, float]]) -> tuple[str | None, str | None]:
        free = {device.name: device.free_mib for device in self.devices} | {"Host": self.machine["host_mib"]}
        for what, parts in {
            "weights": ("model",),
            "kv": ("model", "context"),
            "compute": ("model", "context", "compute"),
        }.items():
            for name, sizes in memory.items():
                if sum(sizes[part] for part in parts) > free[name]:
                    return what, name
        return None, None

    def margins(self, settings: Mapping[str, Any]) -> dict[str, float]:
        """Device -> MiB that `--fit` leaves free."""
        given = [float(part) for part in str(settings.get("fit_target", 1024)).split(",")]
        if len(given) == 1:
            given *= len(self.devices)
        return {device.name: given[i] if i < len(given) else 1024.0 for i, device in enumerate(self.devices)}

    def _fits(self, settings: Mapping[str, Any], plan: Plan) -> bool:
        margins, memory = self.margins(settings), self._memory(settings, plan)
        return all(
            sum(memory[d.name].values()) + margins[d.name] <= d.free_mib for d in self.devices if d.name in memory
        )

    def _fitted(self, settings: Mapping[str, Any], plan: Plan) -> Plan:
        """`plan` with unset arguments lowered until every device keeps its margin: context first, then layers."""
        if self._fits(settings, plan):
            return plan
        if "ctx_size" not in settings:
            least, full = _int(settings, "fit_ctx", 4096), plan.context
            sizes = range(full, least - 1, -CONTEXT_STEP)
            context = next(
                (size for size in sizes if self._fits(settings, replace(plan, context=size))), min(least, full)
            )
            plan = replace(plan, context=context, changes=(f"context size reduced from {full} to {context}",))
            if self._fits(settings, plan):
                return plan
        for key in ("gpu_layers", "n_gpu_layers", "tensor_split", "override_tensor"):
            if settings.get(key, "auto") != "auto":
                return replace(plan, gave_up=f"{key} already set by user to {settings[key]}, abort")
        if settings.get("split_mode", "layer") in ("row", "tensor"):
            return replace(plan, gave_up=f"not implemented for split mode {settings['split_mode']}, abort")
        while plan.gpu_layers and not self._fits(settings, plan):
            plan = replace(plan, gpu_layers=plan.gpu_layers - 1)
        lowered = (*plan.changes, f"set n_gpu_layers to {plan.gpu_layers}")
        return replace(plan, changes=lowered, shares=plan.shares if plan.gpu_layers else {})


def _spec_types(settings: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(kind for kind in str(settings.get("spec_type", "none")).split(",") if kind != "none")


def _int(settings: Mapping[str, Any], key: str, default: int) -> int:
    return int(settings.get(key, default))


def _float(settings: Mapping[str, Any], key: str, default: float) -> float:
    return float(settings.get(key, default))


def _expert_layers(settings: Mapping[str, Any], offloaded: int) -> int:
    """Offloaded layers whose experts stay on the CPU."""
    return offloaded if settings.get("cpu_moe") else min(_int(settings, "n_cpu_moe", 0), offloaded)


def _between(table: Mapping[str, float], size: int) -> float:
    """A factor read off a table of sizes, linear in the logarithm of the size between its entries."""
    points = sorted((int(key), value) for key, value in table.items())
    if size <= points[0][0]:
        return points[0][1]
    for (low, below), (high, above) in pairwise(points):
        if size <= high:
            return below + (above - below) * math.log(size / low) / math.log(high / low)
    return points[-1][1]
