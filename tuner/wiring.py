"""The only file that chooses concrete adapters: it finds the engine by its module's name and builds a run's kit."""

from __future__ import annotations

import importlib
import os
import pkgutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import tuner.engines
from tuner.domain.definition import StudyDefinition
from tuner.domain.errors import BadInput, StudyBusy, StudyMismatch
from tuner.domain.facts import Device, MachineFacts
from tuner.domain.frozen import FrozenStudy
from tuner.domain.record import TrialRecord
from tuner.domain.space import Seed
from tuner.gpus.machine_cards import STATE_VARIABLE, MachineCards, cap_owner
from tuner.process.boot import boot_id, owner_alive, this_process
from tuner.process.lock import FileLock, MachineLock
from tuner.process.ports import free_port
from tuner.report.drift import levelled
from tuner.report.recommendation import recommend
from tuner.search.space import complete, violations
from tuner.store.folder import StudyFolder
from tuner.store.machine import machine_facts
from tuner.study.create import Sources, freeze, survey
from tuner.study.kit import Kit
from tuner.study.protocols import Engine, Observer, Process

if TYPE_CHECKING:
    from tuner.search.pool import TrialPool

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


def engine_for(name: str | None, words: Sequence[str], models: Sequence[Path]) -> Engine:
    """The engine that the user names, else the one that claims the command, the program or the model.

    Where none does, or several do, it is the default one.

    Raises BadInput for a name that is none.
    """
    if name is not None:
        return load_engine(name)
    engines = [load_engine(each) for each in engine_names()]
    claiming = [engine for engine in engines if engine.claims(words, models[0] if models else None)]
    return claiming[0] if len(claiming) == 1 else load_engine(tuner.engines.DEFAULT)


def sources(engine: str) -> Sources:
    """The files that come with the tuner, and this machine."""
    folder = shipped_files()
    return Sources(folder / f"{engine}.toml", folder / "profiles.toml", machine, machine_cards(), winners)


def winners(folder: str) -> list[Seed]:
    """What an earlier study recommends, to be tried early in another one.

    Raises:
        MissingFile: there is no study in this folder.
        BadInput: nothing was measured there.
    """
    path = Path(folder)
    study = read_study(StudyFolder.existing(path.parent, path.name))
    found = recommend(study.frozen, study.searched, study.confirmed) if study else []
    if not found:
        raise BadInput(f"The study {path.name} has nothing to recommend yet", where=folder, advice="run it first")
    return [
        Seed(
            name=f"the winner of {path.name} for {one.profile.name}",
            because="an earlier study found it",
            values=dict(one.trial.configuration.values),
        )
        for one in found
    ]


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
            advice="undo it, or start a new study with --name; only hours, trials, rounds and sampler may change",
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


def definition_changes(before: StudyDefinition, now: StudyDefinition) -> list[str]:
    """In what two definitions differ, budgets aside, in words."""
    free = {"hours", "trials", "confirm_rounds", "confirm_most", "sampler", "trim"}
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
) -> Iterator[Kit]:
    """The kit of a run, under the locks of the study and of the machine.

    Args:
        folder: the study's.
        observer: shows what happens.
        accept_changes: whether the machine, the model or the build may be another one than before.
        side_by_side: whether only the study's own devices are locked, and not the whole machine.
        until: when the run ends, in seconds since the epoch.
        after_crashes: whether to go on though the machine went down twice in a row.

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
        frozen = prepare(folder, accept_changes=accept_changes)
        if side_by_side:
            held.enter_context(MachineLock(_lock_folder(), _parts(frozen, cards)))
        yield Kit(
            frozen=frozen,
            engine=load_engine(frozen.definition.engine),
            pool=_pool(folder, frozen, observer.note),
            observer=observer,
            owner=this_process(),
            environment=os.environ,
            trial_files=lambda number, confirm: folder.trial(number, confirm=confirm),
            start_process=_engine_process,
            cards=cards,
            until=until,
            after_crashes=after_crashes,
            is_paused=folder.pause_path.exists,
            free_port=free_port,
            complete=lambda values: complete(frozen.space, values),
            keeps_rules=lambda configuration: not violations(frozen.space, configuration),
            believed=lambda records: _believed(frozen, records),
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


def _pool(folder: StudyFolder, frozen: FrozenStudy, note: Callable[[str], None] | None = None) -> TrialPool:
    """The study's pool; with its sampler, which `note` hears from, where it is to be asked."""
    # Importing optuna takes half a second: only what opens a storage pays for it.
    from tuner.search.pool import TrialPool
    from tuner.search.samplers import SamplerFactory, make_sampler, tpe

    if folder.has_lost_its_storage():
        raise BadInput(
            "The study's storage is missing or empty, though trials were launched",
            where=str(folder.storage_path),
            advice="put back a copy of it, or start a new study under another name; this one's files stay as they are",
        )

    def compared(searched: Sequence[TrialRecord]) -> list[TrialRecord]:
        return levelled(searched, pool.records(confirm=True))

    sampler: SamplerFactory = tpe
    if note is not None:
        sampler = make_sampler(
            frozen.definition.sampler, frozen.space, frozen.profiles, frozen.workload, note, compared
        )
    pool = TrialPool.open_file(folder.storage_path, folder.name, frozen.space, sampler)
    return pool


def _believed(frozen: FrozenStudy, records: Sequence[TrialRecord]) -> dict[str, dict[str, float]]:
    from tuner.search.recommend import believed_scores

    if frozen.definition.sampler != "composite":
        return {}
    found = believed_scores(frozen.space, frozen.profiles, frozen.workload, records)
    return {profile: {one: belief.mean for one, belief in table.items()} for profile, table in found.items()}


def _engine_process(argv: tuple[str, ...], env: Mapping[str, str], log_path: Path, marker: str) -> Process:
    from tuner.process.engine_process import EngineProcess

    return EngineProcess(argv, env=env, log_path=log_path, marker=marker)


def _stop_leftovers(marker_prefix: str) -> list[str]:
    from tuner.process.leftovers import stop_leftovers

    return [f"{left.name} (pid {left.pid})" for left in stop_leftovers(marker_prefix, _LEFTOVER_GRACE_S)]
