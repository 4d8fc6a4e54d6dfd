"""The physics of a simulated machine: what a configuration's speed and memory are, as a pure function of its flags.

A rig file (`tests/rigs/README.md` explains every key) describes one machine with one model. Because the function is
known and cheap, a test can enumerate it and know the best configuration that a search should find.
Speeds are nominal tokens per second, memory is MiB, depths are tokens.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

if __package__:
    from .rig_keys import check_rig
    from .rig_tables import holds, read_off, read_rig
else:
    from rig_keys import check_rig
    from rig_tables import holds, read_off, read_rig  # run as a program

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
    card: str = ""
    """The piece of hardware, where two backends see the same one: the engine uses it once unless told otherwise."""


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
    cliffs: tuple[Mapping[str, Any], ...] = ()
    """The `[[cliffs]]` of the rig that this configuration stands on."""

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
        spill = self.rig.memory.get("spill_mib", 0.0)
        left = self._left_mib()
        depth = 1000 * (left + spill) / growth if growth and left < math.inf else math.inf
        fatal = [cliff.get("from_depth", 0.0) for cliff in self.cliffs if cliff.get("fails") == "OUT_OF_MEMORY"]
        return min([depth, *fatal])

    @property
    def crash_depth(self) -> float:
        """The depth from which a request kills the server, though it loaded and answered shallower ones."""
        fatal = [cliff.get("from_depth", 0.0) for cliff in self.cliffs if cliff.get("fails") == "CRASHED"]
        return min(fatal, default=math.inf)

    def spills(self, depth: int) -> bool:
        """Whether the driver has silently moved memory to the host at this depth, as on Windows."""
        growth = self.rig.memory.get("runtime_mib_per_1k", 0.0) * depth / 1000
        return "spill_mib" in self.rig.memory and self._left_mib() < growth

    def _left_mib(self) -> float:
        """MiB left on the fullest device, once everything that no projection foresees is taken."""
        hidden = self.rig.memory.get("unreported_mib", 0.0)
        held = {device.name: sum(self.memory.get(device.name, {}).values()) for device in self.rig.devices}
        return min((d.free_mib - held[d.name] - hidden for d in self.rig.devices if held[d.name]), default=math.inf)

    def _local(self, phase: str, depth: int) -> float:
        """What cliffs, spilling and a power cap do to the speed of a phase."""
        factor = math.prod(cliff.get(phase, 1.0) for cliff in self.cliffs if depth >= cliff.get("from_depth", 0))
        if self.spills(depth):
            factor *= self.rig.memory[f"spill_{phase}"]
        if "power_cap_w" in self.settings and phase in self.rig.power:
            factor *= read_off(self.rig.power[phase], float(self.settings["power_cap_w"]))
        return float(factor)

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
            speed *= facts.get("prefill_drafting_on", {}).get(str(self.settings.get("spec_draft_device", "")), 1.0)
        half = table["half_depth"] * (1.0 if self.plan.flash else 0.5)
        speed /= 1 + depth / (2 * half)  # the mean over the prompt, not the speed at its end
        return float(speed * self._local("prefill", depth))

    def drafts(self, content: str, depth: int = 0, streams: int = 1) -> Drafts:
        """What speculation does for `content`."""
        gained, drafted, accepted, cost, covered = 1.0, 0.0, 0.0, 1.0, 0.0
        for kind in sorted(self.plan.spec, reverse=True):  # n-gram types are asked before draft types
            facts = self.rig.speculation.get(kind)
            if facts is None:
                continue
            share = (1 - covered) * (facts["coverage"].get(content, 0.0) if "coverage" in facts else 1.0)
            p_min = _float(self.settings, "spec_draft_p_min", 0.0)
            gated = "p_min" in facts
            goes_on = 1.0 if gated else 1 - 0.5 * p_min
            length = facts.get("length", self.plan.n_max)
            in_row, hits, tokens = 1.0, 0.0, 0.0
            for position in range(length):
                chance = self._chance(facts, content, depth, position)
                in_row *= goes_on * (chance if gated else chance + (1 - chance) * 0.6 * p_min)
                hits += in_row
                tokens += goes_on ** (position + 1)
            if tokens < _int(self.settings, "spec_draft_n_min", 0):
                continue  # every draft is too short to be tried
            gained, accepted = gained + share * hits, accepted + share * hits
            drafted += share * tokens / (read_off(facts["p_min_accept"], p_min) if gated else 1.0)
            verification = self._verification(facts, content, depth, streams, tokens)
            if gated:  # measured, not derived: what the gate does to the speed of each kind of text
                verification /= read_off(facts["p_min"][content], p_min)
            cost += share * (verification - 1)
            covered += share
        return Drafts(gained, drafted, accepted, cost)

    def _chance(self, facts: Mapping[str, Any], content: str, depth: int, position: int) -> float:
        """The chance that the drafted token at `position` is accepted when all before it were."""
        told = facts["accept"][content]
        if isinstance(told, list):  # the chance that this token and all before it are accepted, by position
            steps = [1.0, *told]
            last = steps[-1] / steps[-2]
            chance = steps[position + 1] / steps[position] if position < len(told) else last
        else:
            chance = read_off(told, depth) * facts["decay"] ** position
        chance /= 1 + depth / facts.get("half_depth", math.inf)
        chance *= math.prod(cliff.get("accept", 1.0) for cliff in self.cliffs)
        table = self.rig.kv["accept"]
        return float(chance * math.sqrt(table.get(self.plan.type_k, 1.0) * table.get(self.plan.type_v, 1.0)))

    def _verification(self, facts: Mapping[str, Any], content: str, depth: int, streams: int, tokens: float) -> float:
        """Time of drafting `tokens` and verifying them, relative to one plain token."""
        extra = facts["draft_cost"] * tokens + facts["verify_cost"] * tokens * streams
        cost = 1 + extra
        if "cost" in facts:
            cost = read_off(facts["cost"], tokens, beyond=True) + facts["verify_cost"] * tokens * (streams - 1)
        cost *= read_off(facts.get("cost_of_content", {}).get(content, 1.0), depth)
        growth = read_off(self.rig.power.get("verify_growth", 0.0), float(self.settings.get("power_cap_w", math.inf)))
        return float(cost * (1 + growth * tokens**3))

    def decode_tps(self, content: str = "prose-en", depth: int = 0, streams: int = 1) -> float:
        """Speed of one stream while `streams` are decoded at once; content as in `tuner.domain.workload.Content`."""
        table, cpu = self.rig.decode, self._cpu_share()
        threads = self._threads("threads")
        time = (1 - cpu) * self._device_time("decode") + cpu / (self.rig.cpu["decode"] * threads)
        time += self.rig.cpu["host_share"] * (1 / threads - 1)
        size = (KV_BYTES[self.plan.type_k] + KV_BYTES[self.plan.type_v]) / 4
        slower = (
            read_off(table["time_at_depth"], depth, beyond=True) - 1
            if "time_at_depth" in table
            else depth / table["half_depth"]
        )
        time *= 1 + slower * (1.0 if self.plan.flash else 2.0) * (0.4 + 0.6 * size)
        time *= 1 + table["slot_cost"] * (self.plan.slots - 1)
        time *= 1 + table["stream_cost"] * (streams - 1)
        drafts = self.drafts(content, depth, streams)
        speed = table["tps"] / time * self._kv_factor("decode") * drafts.gained / drafts.cost
        return float(speed * self._local("decode", depth))


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
    power: dict[str, Any] = field(default_factory=dict)
    noise: dict[str, float] = field(default_factory=dict)
    cliffs: list[dict[str, Any]] = field(default_factory=list)
    study: dict[str, Any] = field(default_factory=dict)
    """What a study of this rig asks: `ctx_min`, `profiles`, the owner's own flags."""
    base: dict[str, Any] = field(default_factory=dict)
    measured: list[dict[str, Any]] = field(default_factory=list)
    """Points of the real machine; see `tests/rigs/measured.py`."""
    about: str = ""
    engine: str = "llama_server"
    """Whose flags `base` and `measured` are told in."""
    sglang: dict[str, Any] = field(default_factory=dict)
    """What only the fake SGLang asks for, see `sglang_plan.py`."""

    @classmethod
    def load(cls, path: Path | str | None = None) -> Rig:
        """The rig of a file; without a path the one that FAKE_RIG names, else the default rig.

        Raises:
            ValueError: the file has a key that nothing reads, or lacks one.
        """
        file = Path(path or os.environ.get("FAKE_RIG") or DEFAULT_RIG)
        values = read_rig(file)
        check_rig(file, values)
        devices = tuple(Device(**device) for device in values.pop("devices", []))
        return cls(devices=devices, **values)

    def luck(self, launch: str, hours: float = 0.0) -> float:
        """What one launch differs by as a whole: drift with the time of the night, now and then a slow outlier.

        `noise`: `sigma` a request, `launch_sigma`, `outliers` (share of launches), `slowest` (an outlier's least
        factor), `drift` (the deepest dip) within `drift_hours`.
        """
        rng = random.Random(launch)
        drift = self.noise.get("drift", 0.0) * math.sin(math.pi * hours / self.noise.get("drift_hours", 8.0)) ** 2
        factor = math.exp(rng.gauss(0, self.noise.get("launch_sigma", 0.0))) * (1 - drift)
        if rng.random() < self.noise.get("outliers", 0.0):
            factor *= rng.uniform(self.noise["slowest"], 0.95)
        return factor

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
        effective = effective_settings(plan, self.machine) | dict(settings)
        cliffs = tuple(
            cliff for cliff in self.cliffs if all(holds(each, effective) for each in cliff["when"].split("&"))
        )
        return Measured(self, settings, environment or {}, plan, projected, memory, failure, device, cliffs)

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
        wanted = str(settings.get("device") or ",".join(self._cards())).split(",")
        named = {device.name: device for device in self.devices}
        used = [named[name] for name in wanted if name in named]
        if settings.get("split_mode") == "none" and used:
            used = [used[_int(settings, "main_gpu", 0)]]
        ratios = [float(device.free_mib) for device in used]
        if settings.get("tensor_split") and len(used) > 1:
            given = [float(part) for part in str(settings["tensor_split"]).split(",")]
            ratios = [given[i] if i < len(given) else 0.0 for i in range(len(used))]
        total = sum(ratios)
        return {device.name: ratio / total for device, ratio in zip(used, ratios, strict=True)} if total else {}

    def _cards(self) -> list[str]:
        """One device for each piece of hardware: the first that sees it."""
        first = {device.card or device.name: device.name for device in reversed(self.devices)}
        return [device.name for device in self.devices if device.name in first.values()]

    def draft_mib(self, plan: Plan, settings: Mapping[str, Any]) -> float:
        """What drafting takes: no projection of the target model counts it."""
        if not plan.spec and not settings.get("spec_draft_model"):
            return 0.0
        extra = max((self.speculation.get(kind, {}).get("mib", 0.0) for kind in plan.spec), default=0.0)
        extra += max((self.speculation.get(kind, {}).get("mib_per_draft", 0.0) for kind in plan.spec), default=0.0) * (
            plan.n_max
        )
        return extra + (self.memory.get("draft_model_mib", 0.0) if settings.get("spec_draft_model") else 0.0)

    def _memory(self, settings: Mapping[str, Any], plan: Plan) -> dict[str, dict[str, float]]:
        layers = self.model["layers"] + 1
        experts = _expert_layers(settings, plan.gpu_layers)
        on_device = (plan.gpu_layers - experts * self.model.get("expert_share", 0.0)) / layers
        kv_mib = self.memory["kv_f16_mib_per_1k"] * plan.context / 1000
        kv_mib *= (KV_BYTES[plan.type_k] + KV_BYTES[plan.type_v]) / 4
        kv_on_device = plan.gpu_layers / layers if settings.get("kv_offload", True) else 0.0
        compute = self.memory["compute_mib"] + self.memory["compute_mib_per_ubatch"] * plan.ubatch
        compute += self.memory.get("slot_mib", 0.0) * (plan.slots - 1)
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
        memory[draft_on if draft_on in memory else "Host"]["compute"] += self.draft_mib(plan, settings)
        return memory

    def _overflow(self, memory: Mapping[str, Mapping[str, float]]) -> tuple[str | None, str | None]:
        # What the driver spills to the host starts and is slow; what nothing foresees takes room all the same.
        hidden = self.memory.get("spill_mib", 0.0) - self.memory.get("unreported_mib", 0.0)
        free = {device.name: device.free_mib + hidden for device in self.devices}
        free |= {"Host": self.machine["host_mib"]}
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


def effective_settings(plan: Plan, machine: Mapping[str, Any]) -> dict[str, Any]:
    """What the engine does with flags that were not given, by the names that conditions use."""
    return {
        "ctx_size": plan.context, "parallel": plan.slots, "batch_size": plan.batch, "ubatch_size": plan.ubatch,
        "cache_type_k": plan.type_k, "cache_type_v": plan.type_v, "gpu_layers": plan.gpu_layers,
        "threads": machine["cores"], "spec_type": "none", "flash_attn": "auto", "fit": "on", "split_mode": "layer",
        "devices": len(plan.shares), "spec_draft_n_max": plan.n_max,
    }  # fmt: skip


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
