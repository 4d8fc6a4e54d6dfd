"""The only file that chooses concrete adapters: it finds the engine by its module's name and builds a run's kit."""

from __future__ import annotations

import importlib
import os
import pkgutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import tuner.engines
from tuner.domain.definition import StudyDefinition
from tuner.domain.errors import BadInput, StudyBusy, StudyMismatch, TunerError
from tuner.domain.facts import Device, MachineFacts
from tuner.domain.frozen import FrozenStudy
from tuner.domain.record import TrialRecord
from tuner.gpus.machine_cards import STATE_VARIABLE, MachineCards, cap_owner
from tuner.process.boot import boot_id, owner_alive, this_process
from tuner.process.lock import FileLock, MachineLock
from tuner.process.ports import free_port
from tuner.search.space import complete
from tuner.store.folder import StudyFolder
from tuner.store.machine import machine_facts
from tuner.study.create import Sources, freeze, survey
from tuner.study.kit import Kit
from tuner.study.protocols import Engine, Observer, Process
from tuner.study.verify import VERIFY

if TYPE_CHECKING:
    from tuner.search.pool import Storage, TrialPool

_LEFTOVER_GRACE_S = 10.0


def engine_names() -> list[str]:
    """The engines that there are: every module of `tuner.engines` that has an `ENGINE`."""
    names = [module.name for module in pkgutil.iter_modules(tuner.engines.__path__)]
    return [name for name in names if hasattr(importlib.import_module(f"tuner.engines.{name}"), "ENGINE")]


def load_engine(name: str) -> Engine:
    """The adapter for an engine. Raises BadInput for a name that is none."""
    known = engine_names()
    if name not in known:
        nearest = get_close_matches(name, known, n=1)
        advice = f"did you mean {nearest[0]}?" if nearest else f"there are: {', '.join(known)}"
        raise BadInput(f"There is no engine `{name}`", advice=advice)
    engine: Engine = importlib.import_module(f"tuner.engines.{name}").ENGINE()
    return engine


def sources(engine: str) -> Sources:
    """The files that come with the tuner, and this machine."""
    folder = shipped_files()
    return Sources(folder / f"{engine}.toml", folder / "profiles.toml", machine, machine_cards())


def shipped_files() -> Path:
    """The folder of the search spaces: inside the package when installed, beside it in a working copy."""
    package = Path(__file__).parent
    inside = package / "search_spaces"
    return inside if inside.is_dir() else package.parent / "search_spaces"


def machine(devices: Sequence[Device]) -> MachineFacts:
    """What this machine is."""
    return machine_facts(devices, boot_id(), machine_cards().identities)


def restore_power(cards: MachineCards) -> list[str]:
    """Gives back the power caps that a run which was killed left changed; what came of it, in words.

    Raises:
        StudyBusy: the run that changed them still goes on.
        BadInput, NotPermitted: the file with the former caps is damaged or cannot be read.
    """
    owner = cap_owner()
    if owner is None:
        return []
    if owner.pid != os.getpid() and owner_alive(owner):
        raise StudyBusy(
            f"Another run of the tuner (pid {owner.pid}) holds the cards to other power caps than their own",
            advice="wait for it, or stop it with Ctrl-C: it gives them back",
        )
    return [
        f"restored: {outcome}" if outcome.settled else f"{outcome}; try: {outcome.advice}"
        for outcome in cards.restore()
    ]


def machine_cards() -> MachineCards:
    """The machine's graphics cards, looked for only when something is asked of them."""
    return MachineCards(this_process())


@dataclass(frozen=True)
class OpenStudy:
    """A study that was run at least once, open for reading."""

    folder: StudyFolder
    frozen: FrozenStudy
    searched: list[TrialRecord]
    confirmed: list[TrialRecord]


def read_study(folder: StudyFolder) -> OpenStudy | None:
    """Everything that is known of a study; None before its first run. Never blocks a run that is going on."""
    frozen = folder.frozen()
    if frozen is None:
        return None
    if folder.has_lost_its_storage() or folder.storage_path.is_file():
        pool = _pool(folder, frozen)
        return OpenStudy(folder, frozen, pool.records(), pool.records(confirm=True))
    return OpenStudy(folder, frozen, [], [])


def examine(definition: StudyDefinition) -> FrozenStudy:
    """What the study would be held to, without writing anything. Raises every error that a first run could."""
    engine = load_engine(definition.engine)
    here = sources(definition.engine)
    return freeze(engine, definition, survey(engine, definition, here), here)


def prepare(folder: StudyFolder, *, accept_changes: bool) -> FrozenStudy:
    """What the study is held to: resolved and frozen at the first run, checked against the present at every other.

    Raises:
        StudyMismatch: the machine, the model or the engine build is another one now, or study.toml was edited.
    """
    definition = folder.definition()
    engine = load_engine(definition.engine)
    surveyed = survey(engine, definition, sources(definition.engine))
    frozen = folder.frozen()
    if frozen is None:
        frozen = freeze(engine, definition, surveyed, sources(definition.engine))
        folder.freeze(frozen)
        return frozen
    changes = definition_changes(frozen.definition, definition)
    if changes:
        raise StudyMismatch(
            "study.toml was changed after the first trial:\n  " + "\n  ".join(changes),
            where=str(folder.definition_path),
            advice="undo it, or start a new study with --name; only hours, trials and confirm rounds may change",
        )
    differences = frozen.differences(surveyed.machine, surveyed.engines, surveyed.models)
    if differences and not accept_changes:
        raise StudyMismatch(
            "The study was made under other conditions:\n  " + "\n  ".join(differences),
            where=str(folder.path),
            advice="start a new study with --name, or continue this one with --accept-changes",
        )
    changed = frozen.model_copy(
        update={
            "definition": definition,
            "machine": surveyed.machine,
            "engines": surveyed.engines,
            "models": surveyed.models,
        }
    )
    if changed != frozen:
        folder.freeze(changed)
    return changed


def prepare_to_verify(folder: StudyFolder, binary: str | None, *, accept_changes: bool) -> FrozenStudy:
    """The study with the engine, the driver and the devices as they are now; nothing of it is written down.

    Raises:
        BadInput: the study never ran, or has several binaries of which `binary` would have to be one.
        StudyMismatch: the machine or the model is another one: no figure could be compared.
    """
    frozen = folder.frozen()
    if frozen is None:
        raise BadInput(f"The study {folder.name} never ran", advice=f"run it with `tuner run {folder.name}`")
    definition = frozen.definition
    if binary is not None:
        if len(definition.binary) > 1:
            raise BadInput("The study chose among several binaries", advice="leave --binary out")
        definition = definition.model_copy(update={"binary": (str(Path(binary).absolute()),)})
    surveyed = survey(load_engine(definition.engine), definition, sources(definition.engine))
    # What an update may change is what a verification is for.
    alike = surveyed.machine.model_copy(update={"cards": frozen.machine.cards, "gpus": frozen.machine.gpus})
    differences = frozen.differences(alike, frozen.engines, surveyed.models)
    if differences and not accept_changes:
        raise StudyMismatch(
            "The study was made on another machine or with another model:\n  " + "\n  ".join(differences),
            where=str(folder.path),
            advice="start a new study with --name, or compare nevertheless with --accept-changes",
        )
    return frozen.model_copy(
        update={
            "definition": definition,
            "machine": surveyed.machine,
            "engines": surveyed.engines,
            "models": surveyed.models,
        }
    )


def space_changes(before: FrozenStudy, now: FrozenStudy) -> list[str]:
    """What the search could try now and could not then, or the other way round, in words; nothing where it cannot be
    told."""
    try:
        fresh = examine(now.definition).space.by_name
    except TunerError:
        return []
    told = []
    for name in dict.fromkeys([*fresh, *before.space.by_name]):
        then, today = before.space.by_name.get(name), fresh.get(name)
        if then is None or today is None:
            told.append(f"{name} can {'be tuned now' if then is None else 'not be tuned any more'}")
            continue
        choices = set(then.choices or ()), set(today.choices or ())
        told += [f"{name} can be {value} now" for value in sorted(map(str, choices[1] - choices[0]))]
        told += [f"{name} cannot be {value} any more" for value in sorted(map(str, choices[0] - choices[1]))]
    return told


def read_verifications(study: OpenStudy) -> list[TrialRecord]:
    """The launches of every `tuner verify` of a study."""
    if not study.folder.storage_path.is_file():
        return []
    return _pool(study.folder, study.frozen).records_of(VERIFY)


def storage_of(folder: StudyFolder) -> Storage:
    """The study's Optuna storage. Raises BadInput before the first run."""
    study = read_study(folder)
    if study is None or not folder.storage_path.is_file():
        raise BadInput(f"The study {folder.name} has no trials yet", advice=f"run it with `tuner run {folder.name}`")
    return _pool(folder, study.frozen).storage


def definition_changes(before: StudyDefinition, now: StudyDefinition) -> list[str]:
    """In what two definitions differ, budgets aside, in words."""
    free = {"hours", "trials", "confirm_rounds", "confirm_most"}
    return [
        f"{name} was {getattr(before, name)}, is {getattr(now, name)}"
        for name in StudyDefinition.model_fields
        if name not in free and getattr(before, name) != getattr(now, name)
    ]


@contextmanager
def open_kit(
    folder: StudyFolder,
    observer: Observer,
    *,
    accept_changes: bool = False,
    side_by_side: bool = False,
    until: float | None = None,
    after_crashes: bool = False,
    verifying: bool = False,
    binary: str | None = None,
) -> Iterator[Kit]:
    """The kit of a run, under the locks of the study and of the machine.

    Args:
        folder: the study's.
        observer: shows what happens.
        accept_changes: whether the machine, the model or the build may be another one than before.
        side_by_side: whether only the study's own devices are locked, and not the whole machine.
        until: when the run ends, in seconds since the epoch.
        after_crashes: whether to go on though the machine went down twice in a row.
        verifying: whether what is launched again lies apart from the study's own launches (see `tuner.study.verify`);
            engine and driver may then be others than the study's, and the study stays as it is frozen.
        binary: for verifying, the engine's program in place of the study's.

    Raises:
        StudyBusy: another tuner is at work on the study, or on this machine.
        StudyMismatch: as `prepare`.
        BadInput, NotPermitted: the storage is damaged or cannot be used, also while the kit is in use.
    """
    from tuner.search.pool import storage_errors

    cards = machine_cards()
    with ExitStack() as held:
        held.enter_context(FileLock(folder.lock_path))
        held.enter_context(storage_errors(folder.storage_path))
        if not side_by_side:
            whole = {"cpu", *(card.key for card in cards.identities)}
            held.enter_context(MachineLock(_lock_folder(), whole))
        for told in restore_power(cards):
            observer.note(told)
        if verifying:
            frozen = prepare_to_verify(folder, binary, accept_changes=accept_changes)
        else:
            frozen = prepare(folder, accept_changes=accept_changes)
        if side_by_side:
            held.enter_context(MachineLock(_lock_folder(), _parts(frozen, cards)))
        yield Kit(
            frozen=frozen,
            engine=load_engine(frozen.definition.engine),
            pool=_pool(folder, frozen, beside=VERIFY if verifying else "confirm"),
            observer=observer,
            owner=this_process(),
            environment=os.environ,
            trial_files=lambda number, confirm: (
                folder.verification(number) if verifying and confirm else folder.trial(number, confirm=confirm)
            ),
            start_process=_engine_process,
            cards=cards,
            until=until,
            after_crashes=after_crashes,
            is_paused=folder.pause_path.exists,
            free_port=free_port,
            complete=lambda values: complete(frozen.space, values),
            stop_leftovers=_stop_leftovers,
        )


def _lock_folder() -> Path:
    """One place for all users of the machine."""
    own = os.environ.get(STATE_VARIABLE)
    return Path(own) / "locks" if own else Path(tempfile.gettempdir()) / "llm-engine-tuner-locks"


def _parts(frozen: FrozenStudy, cards: MachineCards) -> set[str]:
    """What a study computes on: its engine's devices, as cards where it is certain which ones, else the CPU."""
    devices = frozen.engines[0].devices
    joined = cards.joined(devices, {}, frozen.definition.env)
    places = {device.name: joined.card_of(device.name) for device in devices}
    return {name if place is None else cards.identities[place].key for name, place in places.items()} or {"cpu"}


def _pool(folder: StudyFolder, frozen: FrozenStudy, *, beside: str = "confirm") -> TrialPool:
    # Importing optuna takes half a second: only what opens a storage pays for it.
    from tuner.search.pool import TrialPool

    if folder.has_lost_its_storage():
        raise BadInput(
            "The study's storage is missing or empty, though trials were launched",
            where=str(folder.storage_path),
            advice="put back a copy of it, or start a new study under another name; this one's files stay as they are",
        )
    return TrialPool.open_file(folder.storage_path, folder.name, frozen.space, beside=beside)


def _engine_process(argv: tuple[str, ...], env: Mapping[str, str], log_path: Path, marker: str) -> Process:
    from tuner.process.engine_process import EngineProcess

    return EngineProcess(argv, env=env, log_path=log_path, marker=marker)


def _stop_leftovers(marker_prefix: str) -> list[str]:
    from tuner.process.leftovers import stop_leftovers

    return [f"{left.name} (pid {left.pid})" for left in stop_leftovers(marker_prefix, _LEFTOVER_GRACE_S)]
