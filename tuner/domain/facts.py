"""What is known about the machine, the model and the engine before anything is tuned."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cached_property

from pydantic import BaseModel, ConfigDict

from tuner.domain.gpu import GpuIdentity


class Device(BaseModel):
    """A device on which the engine can compute, as the engine itself lists it (the CPU is not listed)."""

    model_config = ConfigDict(frozen=True)

    name: str
    description: str
    total_mib: int | None = None
    free_mib: int | None = None


class FlagEntry(BaseModel):
    """One entry of an engine's own help text."""

    model_config = ConfigDict(frozen=True)

    names: tuple[str, ...]
    """All spellings, the negated ones excepted."""
    negations: tuple[str, ...] = ()
    """Spellings that switch it off (`--no-mmap`)."""
    takes_value: bool = False
    allowed: tuple[str, ...] | None = None
    """The values that the help text lists, if it lists them."""
    list_valued: bool = False
    """Whether several allowed values may be joined by commas."""
    several: bool = False
    """Whether more values may follow, as words of their own."""
    removed: str | None = None
    """The help text's advice, for a flag that is listed but refused."""
    deprecated: str | None = None
    """The help text's advice, for a flag that still works but has a successor."""


class FlagCatalogue(BaseModel):
    """Every flag that an installed engine binary says it knows."""

    model_config = ConfigDict(frozen=True)

    entries: tuple[FlagEntry, ...]

    @cached_property
    def _by_name(self) -> dict[str, FlagEntry]:
        return {name: entry for entry in self.entries for name in (*entry.names, *entry.negations)}

    def find(self, name: str) -> FlagEntry | None:
        """The entry that has `name` among its spellings, if any. Removed flags are found too."""
        return self._by_name.get(name)

    def knows(self, name: str) -> bool:
        """Whether the engine accepts the flag."""
        entry = self.find(name)
        return entry is not None and entry.removed is None

    def common_with(self, other: FlagCatalogue) -> FlagCatalogue:
        """The flags that both know, as this one describes them."""
        return FlagCatalogue(entries=tuple(e for e in self.entries if e.removed or other.knows(e.names[0])))

    def nearest(self, name: str) -> str | None:
        """The accepted spelling that looks most like `name`."""
        known = [spelling for spelling, entry in self._by_name.items() if entry.removed is None]
        matches = get_close_matches(name, known, n=1, cutoff=0.6)
        return matches[0] if matches else None


class EngineFacts(BaseModel):
    """What an engine binary says of itself."""

    model_config = ConfigDict(frozen=True)

    engine: str
    binary: str
    version: str
    """As the binary prints it. For reading and for comparing a resumed study; never for deciding what it can do."""
    flags: FlagCatalogue
    devices: tuple[Device, ...] = ()


class ModelFacts(BaseModel):
    """What a model file's own metadata says."""

    model_config = ConfigDict(frozen=True)

    path: str
    name: str
    architecture: str
    size_bytes: int
    trained_context: int | None = None
    layers: int | None = None
    mtp_layers: int = 0
    experts: int = 0
    quantisation: str | None = None
    recurrent_layers: int | None = None
    """Layers that keep a state of fixed size instead of a KV cache (Mamba, linear attention)."""


class MachineFacts(BaseModel):
    """The machine a study runs on. What a resume compares stands first; `boot_id` tells one boot from the next."""

    model_config = ConfigDict(frozen=True)

    host: str
    system: str
    cpu: str
    physical_cores: int
    logical_cores: int
    memory_mib: int
    """What programs may use: a control group's limit where there is one, else all there is."""
    gpus: tuple[str, ...] = ()
    """The engine's devices, by name and description."""
    cards: tuple[GpuIdentity, ...] = ()
    """The graphics cards that can be read, whether the engine uses them or not."""
    boot_id: str = ""
