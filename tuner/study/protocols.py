"""What the story needs from the rooms around it. `tuner.wiring` hands in objects that fit; nobody inherits from these.

Each docstring states what an implementer must keep. An engine's contract test runs over every engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from tuner.domain.command import LaunchCommand
from tuner.domain.configuration import Configuration, Value
from tuner.domain.facts import Device, EngineFacts, FlagCatalogue, ModelFacts
from tuner.domain.gpu import GpuIdentity, GpuReading, GpuUse, PowerCap
from tuner.domain.measurement import ActualSettings
from tuner.domain.memory import MemoryPeak, MemoryProjection
from tuner.domain.pasted import UnderstoodCommand
from tuner.domain.record import Stage, TrialRecord
from tuner.domain.space import SearchSpace
from tuner.domain.verdict import Explanation, Verdict
from tuner.workload.client import EngineClient


class RunningClient(EngineClient, Protocol):
    """A client of a server that may not be ready yet."""

    def is_ready(self) -> bool:
        """Whether the server would answer a request now. Must not raise while nothing listens."""

    def alias(self) -> str | None:
        """The name the server was started under; None where the engine has no such thing."""

    def close(self) -> None:
        """Closes all connections."""


class Engine(Protocol):
    """One engine's dialect. An implementation holds no process: it only knows."""

    name: str
    model_flags: tuple[str, ...]
    """The spellings of the flag that names the model file."""

    program: str
    """What people call the engine's program when they type a command."""

    first_start_s: float
    """Seconds that the first start on a machine may take, beside the loading of the model."""

    context_is_reserved: bool
    """Whether a context takes its memory at the start, used or not; else it is only a limit."""

    def claims(self, words: Sequence[str], model: Path | None) -> bool:
        """Whether a command or a program, or without one the model, is for this engine and no other. Must not raise."""

    def find_binary(self) -> Path:
        """Where the engine is installed. Raises EngineNotFound, saying how to get it."""

    def inspect(self, binary: Path, *, arguments: Sequence[str], env: Mapping[str, str]) -> EngineFacts:
        """What the binary says of itself under these fixed arguments and variables: they can add and hide devices.

        Must not load a model. Raises EngineNotFound.
        """

    def find_model(self, named: str) -> Path:
        """Where a model lies that a user names as in the engine's own command. Raises MissingFile."""

    def read_model(self, path: Path) -> ModelFacts:
        """The metadata of a model's file or folder, without its weights. Raises MissingFile."""

    def split_command(self, words: Sequence[str]) -> tuple[dict[str, str], str | None, tuple[str, ...]]:
        """Environment, program and arguments of a command that a user pasted.

        The arguments are the server's own: what stands between the program and them is left out. Raises BadInput.
        """

    def understand(
        self, words: Sequence[str], flags: FlagCatalogue, searchable: Mapping[str, tuple[str | None, str | None]]
    ) -> UnderstoodCommand:
        """What a user's arguments mean, also with the words before them that start the server.

        Raises UnknownFlag and BadInput.
        """

    def names_devices(self, words: Sequence[str]) -> bool:
        """Whether arguments tell devices by their place, so that another order would change what they mean."""

    def command(
        self,
        space: SearchSpace,
        configuration: Configuration,
        *,
        binary: str,
        model: str,
        fixed: Sequence[str],
        env: Mapping[str, str],
    ) -> LaunchCommand:
        """The command a user would run for a configuration. Must name every parameter explicitly."""

    def baseline_command(
        self, *, binary: str, model: str, arguments: Sequence[str], env: Mapping[str, str]
    ) -> LaunchCommand:
        """The command of the baseline: nothing but the user's own arguments."""

    def for_measurement(self, command: LaunchCommand, facts: EngineFacts, *, port: int, alias: str) -> LaunchCommand:
        """`command` as a trial starts it. May change where it listens and what it logs, never how fast it is."""

    def dry_run(self, command: LaunchCommand, facts: EngineFacts, *, port: int, alias: str) -> LaunchCommand | None:
        """A command that makes the engine log what `command` would need, before it loads anything.

        None where the engine has no such thing, or where `command` needs none. It is stopped once `projection` has
        an answer, so it may go on to load.
        """

    def projection(self, log_text: str) -> MemoryProjection | None:
        """What a dry run's log says, once it has said it all."""

    def clean_environment(self, inherited: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
        """The environment without what would set flags unseen, and the names of what was left out."""

    def warnings(self, inherited: Mapping[str, str]) -> list[str]:
        """What sets flags unseen and cannot be left out of a launch, in words."""

    def client(self, port: int) -> Any:
        """A `RunningClient` for the server on a local port."""

    def explain_exit(self, log_text: str, returncode: int | None) -> Explanation:
        """Why the process ended (or, for None, what it was last seen doing). Must not raise."""

    def actual_settings(self, client: Any, log_text: str) -> ActualSettings:
        """What a ready server really runs with. Must not raise."""

    def degradations(
        self, space: SearchSpace, configuration: Configuration, actual: ActualSettings, log_text: str
    ) -> list[str]:
        """In what a ready server differs from what it was asked for, in words."""

    def bus_ids(self, log_text: str) -> dict[str, str]:
        """Device -> PCI bus id, as far as the log tells."""

    def observations(self, log_text: str) -> list[str]:
        """What a person should know of a run that went as asked, read from its log."""


class Pool(Protocol):
    """Where trials are asked for and their records kept. Every method is durable when it returns."""

    def enqueue(self, values: dict[str, Value], origin: str) -> None: ...

    def origins(self) -> set[str]: ...

    def ask(self) -> Any: ...

    def open_confirmation(self) -> int: ...

    def open_beside(self, configuration: Configuration) -> int:
        """A number for a configuration that is measured on the launch of another one."""

    def save(self, record: TrialRecord, *, confirm: bool = False) -> None: ...

    def tell(
        self, record: TrialRecord, objectives: tuple[float, float, float] | None, *, confirm: bool = False
    ) -> None: ...

    def records(self, *, confirm: bool = False) -> list[TrialRecord]: ...

    def untold(self, *, confirm: bool = False) -> list[TrialRecord]:
        """The open records that nobody runs any more. Called while this process runs none itself."""

    def drop_unrecorded(self) -> None: ...

    def leads(self) -> bool:
        """Whether this process does what one alone must do: always, unless several machines share the study."""


class Process(Protocol):
    """A started engine. Leaving the context must leave no process behind, whatever happened inside."""

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative for a signal, as in subprocess."""

    def is_running(self) -> bool: ...

    def dead_children(self) -> list[str]:
        """Processes below it that have ended and were not asked about, in words."""

    def memory_peak(self) -> MemoryPeak:
        """The most host memory that it and everything it started held until now."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Recording(Protocol):
    """Samples the cards while its context is open. Must never disturb what it records."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What went wrong with the recording itself."""

    def uses(self) -> tuple[GpuUse, ...]:
        """What every card did so far, in the order of `Cards.identities`."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class Joined(Protocol):
    """Which of the engine's devices is which card."""

    def card_of(self, device: str) -> int | None:
        """The card's place in `Cards.identities`; None where it is not known for certain."""

    def told(self, cards: Sequence[GpuIdentity]) -> list[str]:
        """Which device is which card, and how that is known, in words."""

    def troubles(self) -> list[str]:
        """The devices of which it is not known, with what helps."""


class CapResult(Protocol):
    """What became of a power cap; told in words by `str`."""

    @property
    def in_force(self) -> bool: ...

    @property
    def settled(self) -> bool: ...

    @property
    def advice(self) -> str | None: ...


class Cards(Protocol):
    """The machine's graphics cards. Without any, every method returns at once and with nothing."""

    @property
    def identities(self) -> tuple[GpuIdentity, ...]: ...

    @property
    def notes(self) -> tuple[str, ...]: ...

    def device_order(self) -> dict[str, str]:
        """Variables that make an engine count the cards as their driver and its tools do; empty where it does."""

    def joined(self, devices: Sequence[Device], bus_ids: Mapping[str, str], env: Mapping[str, str]) -> Joined: ...

    def idle(self) -> tuple[GpuReading, ...]:
        """One look at every card."""

    def holders(self) -> list[list[str]]:
        """For each card the programs that hold memory on it, in words."""

    def record(self, csv_path: Path, idle: Sequence[GpuReading]) -> Recording: ...

    def not_drained(self, idle: Sequence[GpuReading], deadline_s: float) -> list[str]:
        """Waits until every card holds no more than it did; what still does at the deadline, in words."""

    def power_caps(self) -> list[PowerCap | None]: ...

    def steps(self, cap: PowerCap) -> tuple[float, ...]:
        """The caps worth trying, in watts."""

    def hold(self, key: str, watts: float) -> CapResult:
        """Holds a card to a cap until `restore`. What it had must be on disk before."""

    def cap_command(self, key: str, watts: float) -> str:
        """What sets the cap by hand."""

    def changed_caps(self) -> list[str]:
        """The caps that are no longer what was set, in words."""

    def restore(self) -> Sequence[CapResult]:
        """Gives every card its former cap back, also after an earlier process that was killed."""


class Observer(Protocol):
    """Whoever shows what happens. Must return quickly and must not raise."""

    def phase(self, name: str, detail: str = "") -> None:
        """A part of the run begins: baseline, search, confirm."""

    def trial_started(self, stage: Stage, number: int, difference: str) -> None:
        """A launch begins; `difference` is the configuration's difference from the baseline."""

    def trial_step(self, step: str) -> None:
        """What the running trial is doing."""

    def trial_finished(self, record: TrialRecord, verdict: Verdict) -> None:
        """A launch is over."""

    def best(self, scores: Mapping[str, float]) -> None:
        """Profile -> best gain seen so far, as a ratio to the baseline, not yet confirmed."""

    def time_left(self, seconds: float | None, launched: int, planned: int | None) -> None:
        """How long the phase will still take, as far as that is known."""

    def note(self, message: str) -> None:
        """Something the user should know."""
