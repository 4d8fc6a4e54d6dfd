"""A profile: a person's way of using the model, and the score it gives a measurement."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from tuner.domain.measurement import Measurement
from tuner.domain.workload import Cell, Content

DepthName = Literal["shallow", "deep"]


class Profile(BaseModel):
    """Weights over prefill, decode and context, plus hard needs. Weights are relative; they need not sum to one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    about: str
    prefill: float = Field(ge=0)
    decode: float = Field(ge=0)
    context: float = Field(ge=0)
    contents: dict[Content, float]
    """Content -> weight in decode."""
    depths: dict[DepthName, float]
    """Depth -> weight in prefill and decode."""
    least_context: int = Field(ge=1)
    """Tokens of context a slot must have. A hard need."""
    streams: int = Field(default=1, ge=1)
    """Requests decoded at once. A hard need: the engine must have that many slots."""

    @field_validator("contents", "depths")
    @classmethod
    def _some_weight(cls, weights: dict[str, float]) -> dict[str, float]:
        if not weights or any(weight <= 0 for weight in weights.values()):
            raise ValueError("needs at least one entry, each with a weight above zero")
        return weights

    @model_validator(mode="after")
    def _weighs_something(self) -> Profile:
        if self.prefill + self.decode + self.context <= 0:
            raise ValueError("at least one of prefill, decode and context must have a weight above zero")
        return self

    def depth_weights(self, depths: tuple[int, ...]) -> dict[int, float]:
        """Depth in tokens -> share (summing to one), for a study whose depths are `depths`, ascending.

        The lower half of the depths shares the weight of shallow, the upper half that of deep. With an odd number the
        one in the middle belongs to both, so that a single depth is shallow and deep at once.
        """
        half = (len(depths) + 1) // 2
        places: dict[DepthName, tuple[int, ...]] = {"shallow": depths[:half], "deep": depths[-half:]}
        total = sum(self.depths.values())
        shares: dict[int, float] = {}
        for name, weight in self.depths.items():
            for depth in places[name]:
                shares[depth] = shares.get(depth, 0.0) + weight / total / half
        return dict(sorted(shares.items()))

    def cells(self, depths: tuple[int, ...]) -> list[Cell]:
        """The cells this profile needs in a study with these depths."""
        return [
            Cell(content=content, depth=depth, streams=self.streams)
            for depth in self.depth_weights(depths)
            for content in self.contents
        ]

    def log_score(self, measurement: Measurement, depths: tuple[int, ...]) -> float | None:
        """Weighted mean of the logarithms of prefill, decode and context speed. None if a needed metric is missing.

        The difference of two log scores is the logarithm of the gain: `exp(a - b)` reads as "1.42x".
        """
        shares = self.depth_weights(depths)
        total = self.prefill + self.decode + self.context
        score = 0.0
        if self.prefill:
            value = _weighted_log((measurement.prefill_at(depth), share) for depth, share in shares.items())
            if value is None:
                return None
            score += self.prefill / total * value
        if self.decode:
            value = self._decode_log(measurement, shares)
            if value is None:
                return None
            score += self.decode / total * value
        if self.context:
            context = measurement.actual.context_per_slot
            if not context:
                return None
            score += self.context / total * math.log(context)
        return score

    def unmet_needs(self, measurement: Measurement) -> dict[str, float]:
        """Hard need -> how far it is missed, as a share of the need; empty when all are met."""
        actual = measurement.actual
        missed: dict[str, float] = {}
        if actual.context_per_slot is not None and actual.context_per_slot < self.least_context:
            missed["context"] = 1 - actual.context_per_slot / self.least_context
        if actual.slots is not None and actual.slots < self.streams:
            missed["streams"] = 1 - actual.slots / self.streams
        return missed

    def _decode_log(self, measurement: Measurement, shares: dict[int, float]) -> float | None:
        total = sum(self.contents.values())
        speeds = []
        for depth, depth_share in shares.items():
            for content, weight in self.contents.items():
                result = measurement.result(Cell(content=content, depth=depth, streams=self.streams))
                speeds.append((result.decode_tps if result else None, depth_share * weight / total))
        return _weighted_log(speeds)


def _weighted_log(pairs: Iterable[tuple[float | None, float]]) -> float | None:
    """Sum of weight x log(speed); None if one speed is missing."""
    score = 0.0
    for speed, weight in pairs:
        if speed is None or speed <= 0:
            return None
        score += weight * math.log(speed)
    return score
