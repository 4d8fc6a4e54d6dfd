"""A rig under SGLang's own flags, for everything that asks a rig without a server: points, benchmarks, comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.fake_engine import sglang_plan
from tests.fake_engine.rig import Measured, Rig
from tests.fake_engine.rig_tables import read_off

ENGINE = "sglang"
_OFF = ("none", "unset", None)


@dataclass(frozen=True)
class SglangMeasured(Measured):
    """What one configuration does on one rig, by the plan of the fake SGLang."""

    planned: sglang_plan.Plan | None = None

    @property
    def max_depth(self) -> float:
        assert self.planned is not None
        return self.planned.out_of_memory_at()

    def prefill_tps(self, depth: int = 0) -> float:
        assert self.planned is not None
        return self.planned.prefill_tps(depth) * self._cap("prefill")

    def decode_tps(self, content: str = "prose-en", depth: int = 0, streams: int = 1) -> float:
        assert self.planned is not None
        return self.planned.decode_tps(content, depth, streams) * self._cap("decode")

    def drafts(self, content: str, depth: int = 0, streams: int = 1) -> Any:
        assert self.planned is not None
        return self.planned.measured.drafts(content, depth, streams)

    def _cap(self, phase: str) -> float:
        watts = self.settings.get("power_cap_w")
        return 1.0 if watts is None or phase not in self.rig.power else read_off(self.rig.power[phase], float(watts))


@dataclass(frozen=True)
class SglangRig(Rig):
    """One simulated machine with one model; settings are SGLang's long flags with underscores."""

    def measure(self, settings: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Measured:
        """What `settings` do here; absent ones have the engine's defaults."""
        given = {name: value for name, value in settings.items() if value not in _OFF}
        planned = sglang_plan.plan(given, Rig(**vars(self)))
        card = self.devices[0]
        failure = "kv" if planned.pool <= 0 else "compute" if planned.graphs_mib > planned.rest_mib else None
        states = card.free_mib * planned.fraction - planned.weights_mib - planned.pool_mib
        memory = {
            card.name: {
                "model": planned.weights_mib, "context": planned.pool_mib, "compute": states + planned.graphs_mib,
            }
        }  # fmt: skip
        plan = replace(
            planned.measured.plan,
            context=max(0, planned.usable),
            slots=planned.requests,
            unified=True,
            ubatch=planned.chunk,
            spec_failed="speculative_algorithm" in given and not planned.steps,
            n_max=planned.steps,
        )
        return SglangMeasured(
            self, settings, environment or {}, plan, memory, memory, failure, card.name if failure else None,
            planned=planned,
        )  # fmt: skip


def load_rig(path: Path) -> Rig:
    """The rig of a file, under the flags of the engine it is for."""
    rig = Rig.load(path)
    return SglangRig(**vars(rig)) if rig.engine == ENGINE else rig
