"""A configuration: one value for every active parameter."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property

from pydantic import BaseModel, ConfigDict, StrictBool, StrictFloat, StrictInt, StrictStr

Value = StrictStr | StrictBool | StrictInt | StrictFloat
"""What a parameter can be set to. Strict, so that 1, 1.0, True and "1" stay apart on their way through JSON."""


class Configuration(BaseModel):
    """One value for every active parameter. Immutable; parameters switched off by `when` are absent."""

    model_config = ConfigDict(frozen=True)

    values: dict[str, Value]

    @cached_property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that are equal exactly when all values are equal, whatever their order."""
        text = json.dumps(self.values, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def differences_from(self, other: Mapping[str, Value]) -> dict[str, tuple[Value | None, Value | None]]:
        """Parameter name -> (value in `other`, value here) where they differ; None where one has no such value."""
        names = sorted(set(self.values) | set(other))
        pairs = {name: (other.get(name), self.values.get(name)) for name in names}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
