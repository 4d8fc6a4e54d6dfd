"""What a launch is expected to need before anything is loaded, and what it then held."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

HOST = "CPU"
"""The device name under which all host memory is counted, whatever the engine calls it."""


class MemoryPeak(BaseModel):
    """The most host memory that an engine's processes held at one time. Unknown is None."""

    model_config = ConfigDict(frozen=True)

    rss_mib: float | None = None
    """Resident; model files that are mapped into memory count as far as they are resident."""
    swap_growth_mib: float | None = None
    """How much more the whole machine had swapped out than at the start."""


class MemoryProjection(BaseModel):
    """What the engine's own dry run expects to need. All in MiB."""

    model_config = ConfigDict(frozen=True)

    needed_mib: dict[str, float]
    """Device -> model, context and compute buffers of the target model."""
    free_mib: dict[str, float]
    """Device -> memory that is free now. For the CPU all memory, since the engine compares with that."""
    speculation_mib: float | None = None
    """What a draft model or MTP context adds on all devices together. It is not part of `needed_mib`."""

    @property
    def speculates(self) -> bool:
        """Whether a draft is loaded too: the engine's table leaves it out, so the error is another one."""
        return self.speculation_mib is not None
