"""A 32 GB card, four ways of using it: two engines, two weights, with and without speculation.

Each arm's study launches what the card's owner measured, and nothing else: what nobody measured is no part of the
owner's findings. Prefill has no weight, because the owner measured it with one engine only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.fake_engine.sglang_rig import load_rig
from tests.rigs.measured import FOLDER
from tests.search_benchmark.simulated import PREDICT_TOKENS, Simulated
from tests.search_benchmark.stored import Asked, space_of
from tuner.domain.configuration import Value
from tuner.domain.profile import Profile
from tuner.domain.workload import Cell, Content, Workload

DEPTH = 512


def _profile(name: str, contents: Mapping[str, float], least_context: int, streams: int = 1) -> Profile:
    values: dict[str, Any] = {
        "about": "", "prefill": 0.0, "decode": 1.0, "context": 0.0, "depths": {"shallow": 1.0},
    }  # fmt: skip
    return Profile(name=name, contents=contents, least_context=least_context, streams=streams, **values)


PROFILES = (
    _profile("completion", {"code": 1.0}, 8192),
    _profile("coding", {"code": 0.6, "tool": 0.4}, 32768),
    _profile("deep-coding", {"code": 0.6, "tool": 0.4}, 65536),
    _profile("prose", {"prose-en": 1.0}, 32768),
    _profile("two-coders", {"code": 1.0}, 16384, streams=2),
)
FOUND_BY_THE_OWNER: dict[str, set[str]] = {
    "completion": {"sglang-mtp"},  # 108.7 t/s with five steps, 101.2 with llama-server: but 10,403 tokens of context
    "coding": {"llama-q4"},  # 101.2 and 91.1 (tool calls) against 89.3 and 86.6 with three steps
    "deep-coding": {"llama-q4"},  # three steps leave a pool of 45,423 tokens; without drafts it is 41.5 t/s
    "prose": {"llama-q4", "sglang-mtp"},  # 59.7 both
    "two-coders": {"sglang-mtp"},  # 170.5 t/s together, against 161.4
}
"""Profile -> the best arm by the owner's own figures; two where these are the same."""

_LLAMA: dict[str, Sequence[Value]] = {
    "cache_type_k": ("q8_0",), "cache_type_v": ("q8_0",), "flash_attn": ("on",), "spec_type": ("draft-mtp",),
}  # fmt: skip
_POOL: dict[str, Sequence[Value]] = {"kv_cache_dtype": ("fp8_e4m3",)}


def arms() -> list[Asked]:
    """The four studies, as they are asked."""
    windows, ubuntu = "Windows 11", "Ubuntu"
    return [
        Asked(
            "llama-q4", "llama_server", "27B-Q4_K_M", 15_330_000_000, windows,
            _study("rtx-32gb", "llama_server", {
                **_LLAMA, "ctx_size": (262144,), "spec_draft_n_max": (4, 3, 2), "parallel": (1, 2),
            }),
            [{"spec_draft_n_max": 3}, {"spec_draft_n_max": 3, "parallel": 2}],
        ),
        Asked(
            "llama-q6", "llama_server", "27B-Q6_K", 20_890_000_000, windows,
            _study("rtx-32gb-q6", "llama_server", {
                **_LLAMA, "ctx_size": (131072,), "spec_draft_n_max": (3,), "parallel": (1,),
            }),
        ),
        Asked(
            "sglang-plain", "sglang", "27B-INT4", 17_700_000_000, ubuntu,
            _study("rtx-32gb-sglang", "sglang", _POOL),
        ),
        Asked(
            "sglang-mtp", "sglang", "27B-INT4", 17_700_000_000, ubuntu,
            _study("rtx-32gb-sglang", "sglang", {
                **_POOL, "speculative_algorithm": ("NEXTN",), "speculative_num_steps": (3, 5),
                "speculative_num_draft_tokens": (4, 6),
            }),
            [
                {"speculative_num_steps": 5, "speculative_num_draft_tokens": 6},
            ],
        ),
    ]  # fmt: skip


class OneDepth(Simulated):
    """A simulated study that measures short prompts, as the owner did."""

    @property
    def workload(self) -> Workload:  # type: ignore[override]
        cells = {cell for profile in self.profiles for cell in profile.cells((DEPTH,))}
        ordered = sorted(cells, key=lambda cell: (cell.streams, cell.depth, list(Content).index(cell.content)))
        assert Cell(content=Content.CODE, depth=DEPTH) in ordered
        return Workload(cells=tuple(ordered), predict_tokens=PREDICT_TOKENS)


def _study(rig: str, engine: str, domains: Mapping[str, Sequence[Value]]) -> Simulated:
    space = space_of(engine, domains)
    baseline = {parameter.name: parameter.default for parameter in space.parameters}
    return OneDepth(load_rig(FOLDER / f"{rig}.toml"), PROFILES, space, baseline)
