"""The only file that chooses concrete adapters: it finds the engine by its module's name and builds a run's kit."""

from __future__ import annotations

import getpass
import importlib
import os
import pkgutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import tuner.engines
from tuner.domain.definition import StudyDefinition
from tuner.domain.errors import BadInput, MissingFile, StudyBusy, StudyMismatch, TunerError
from tuner.domain.facts import Device, MachineFacts
from tuner.domain.frozen import FrozenStudy
from tuner.domain.record import Owner, TrialRecord
from tuner.domain.secrets import STORAGE_VARIABLE, without_secrets
from tuner.domain.space import Seed
from tuner.gpus.machine_cards import STATE_VARIABLE, MachineCards, cap_file, cap_owner
from tuner.process.boot import boot_id, host_name, owner_alive, this_process
from tuner.process.lock import FileLock, MachineLock
from tuner.process.ports import free_port
from tuner.report.drift import levelled
from tuner.report.recommendation import recommend
from tuner.search.space import complete, violations
from tuner.store.folder import StudyFolder
from tuner.store.machine import machine_facts
from tuner.store.origin import Origin
from tuner.study.continuity import continued, joined, updated
from tuner.study.create import Sources, freeze, survey
from tuner.study.kit import Kit
from tuner.study.protocols import Engine, Observer, Pool, Process
from tuner.study.verify import VERIFY

if TYPE_CHECKING:
    from tuner.search.pool import Storage, TrialPool
    from tuner.search.samplers import SamplerFactory
    from tuner.search.shared_pool import SharedPool, SharedStudy
    from tuner.search.workers import Workers

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
    return Sources(folder / f"{engine}.toml", folder / "profiles.toml", machine, machine_cards(), winners, this_user())


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
    return machine_facts(devices, boot_id(), machine_cards().identities, host_name())


def this_user() -> str:
    """Who runs this, and where: `user@host`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # A container's user may have no name.
        user = "unknown"
    return f"{user}@{host_name()}"


def origin(folder: StudyFolder) -> Origin:
    """Where a study comes from."""
    return Origin(folder.path, cap_file().parent / "key")


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
    workers: tuple[Owner, ...] = ()
    """Who is at work, where several machines share it."""


def read_study(folder: StudyFolder) -> OpenStudy | None:
    """Everything that is known of a study; None before its first run. Never blocks a run that is going on."""
    frozen = folder.frozen()
    if frozen is None:
        return None
    if frozen.definition.storage is not None:
        with _shared_errors(_address(frozen.definition)):
            searched, confirmed, workers = _shared(folder, frozen.definition, print).read(frozen.space)
        return OpenStudy(folder, frozen, searched, confirmed, tuple(workers))
    if folder.has_lost_its_storage() or folder.storage_path.is_file():
        pool = _pool(folder, frozen)
        return OpenStudy(folder, frozen, pool.records(), pool.records(confirm=True))
    return OpenStudy(folder, frozen, [], [])


def examine(definition: StudyDefinition) -> FrozenStudy:
    """What the study would be held to, without writing anything. Raises every error that a first run could."""
    engine = load_engine(definition.engine)
    here = sources(definition.engine)
    return freeze(engine, definition, survey(engine, definition, here), here)


def prepare(folder: StudyFolder, *, accept_changes: bool, founded: Callable[[str], str] | None = None) -> FrozenStudy:
    """What the study is held to: resolved and frozen at the first run, checked against the present at every other.

    `founded` takes what this machine resolves to what the first of several machines has resolved, as JSON.

    Raises:
        StudyMismatch: the machine, the model or the engine build is another one now, or study.toml was edited.
    """
    definition = folder.definition()
    engine, here = load_engine(definition.engine), sources(definition.engine)
    surveyed = survey(engine, definition, here)
    known = folder.frozen()
    frozen = freeze(engine, definition, surveyed, here) if known is None else known
    first = None if founded is None else FrozenStudy.model_validate_json(founded(frozen.model_dump_json()))
    with _located(folder):
        if known is None:
            prepared = frozen if first is None else joined(first, frozen, accept_changes=accept_changes)
        else:
            if first is not None and first.space != known.space:
                raise StudyMismatch(
                    f"The storage holds another study of the name {folder.name}",
                    where=definition.storage,
                    advice="start a new study with another --name",
                )
            prepared = continued(known, definition, surveyed, accept_changes=accept_changes)
    if prepared != known:
        folder.freeze(prepared)
    return prepared


@contextmanager
def _located(folder: StudyFolder) -> Iterator[None]:
    """Where an error says of no place, it is the study's folder."""
    try:
        yield
    except TunerError as error:
        error.where = error.where or str(folder.path)
        raise


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
    with _located(folder):
        return updated(frozen, definition, surveyed, accept_changes=accept_changes)


def space_changes(before: FrozenStudy, now: FrozenStudy) -> list[str]:
    """What the search could try now and could not then, or the other way round, in words; nothing where it cannot be
    told."""
    try:
        return before.space.changes_to(examine(now.definition).space)
    except TunerError:
        return []


def read_verifications(study: OpenStudy) -> list[TrialRecord]:
    """The launches of every `tuner verify` of a study."""
    if study.frozen.definition.storage is not None or not study.folder.storage_path.is_file():
        return []
    return _pool(study.folder, study.frozen).records_of(VERIFY)


def storage_of(folder: StudyFolder) -> Storage:
    """The study's Optuna storage. Raises BadInput before the first run."""
    study = read_study(folder)
    if study is not None and study.frozen.definition.storage is not None:
        from tuner.search.shared_storage import connect

        return connect(_address(study.frozen.definition))
    if study is None or not folder.storage_path.is_file():
        raise BadInput(f"The study {folder.name} has no trials yet", advice=f"run it with `tuner run {folder.name}`")
    return _pool(folder, study.frozen).storage


@contextmanager
def open_kit(
    folder: StudyFolder,
    observer: Observer,
    *,
    accept_changes: bool = False,
    side_by_side: bool = False,
    until: float | None = None,
    after_crashes: bool = False,
    storage: str | None = None,
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
        storage: the address of the shared storage, with its password; None: as the study knows it.
        verifying: whether what is launched again lies apart from the study's own launches (see `tuner.study.verify`);
            engine and driver may then be others than the study's, and the study stays as it is frozen.
        binary: for verifying, the engine's program in place of the study's.

    Raises:
        StudyBusy: another tuner is at work on the study, or on this machine.
        StudyMismatch: as `prepare`.
        BadInput, NotPermitted: the storage is damaged or cannot be used, also while the kit is in use.
    """
    cards = machine_cards()
    with ExitStack() as held:
        held.enter_context(FileLock(folder.lock_path))
        asked = folder.definition()
        if verifying and asked.storage is not None:
            raise BadInput(
                "A study that several machines share cannot be verified: what changed on one is not so on another",
                where=str(folder.path),
                advice="export the winners (`tuner export`), or run a new study here",
            )
        founded = None
        if asked.storage is not None:
            held.enter_context(_shared_errors(_address(asked, storage)))
            shared = _shared(folder, asked, observer.note, storage, until)
            workers = shared.workers(this_process(), owner_alive)
            founded = lambda text: shared.founded(workers, text)  # noqa: E731
        else:
            held.enter_context(_file_errors(folder))
        if not side_by_side:
            whole = {"cpu", *(card.key for card in cards.identities)}
            held.enter_context(MachineLock(_lock_folder(), whole))
        for told in restore_power(cards):
            observer.note(told)
        if verifying:
            frozen = prepare_to_verify(folder, binary, accept_changes=accept_changes)
        else:
            frozen = prepare(folder, accept_changes=accept_changes, founded=founded)
        if side_by_side:
            held.enter_context(MachineLock(_lock_folder(), _parts(frozen, cards)))
        pool: Pool
        if founded is None:
            pool = _pool(folder, frozen, observer.note, beside=VERIFY if verifying else "confirm")
        else:
            pool = held.enter_context(_shared_pool(shared, frozen, workers, observer.note))
        yield Kit(
            frozen=frozen,
            engine=load_engine(frozen.definition.engine),
            pool=pool,
            observer=observer,
            owner=this_process(),
            environment=without_secrets(os.environ),
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
            keeps_rules=lambda configuration: not violations(frozen.space, configuration),
            believed=lambda records: _believed(frozen, records),
            stop_leftovers=_stop_leftovers,
        )


def public_address(address: str) -> str:
    """The address of a storage without its password. Raises BadInput."""
    from tuner.search.shared_storage import public_form

    return public_form(address)


def shared_definition(address: str, name: str) -> StudyDefinition:
    """What another machine has asked of the study `name` in a shared storage.

    Raises:
        MissingFile: there is no such study.
        BadInput, NotPermitted: the storage cannot be reached.
    """
    from tuner.search.shared_pool import founding_of
    from tuner.search.shared_storage import public_form

    text = founding_of(address, name)
    if text is None:
        raise MissingFile(
            f"There is no study `{name}` in the storage",
            where=public_form(address),
            advice="begin it on the first machine: tuner run --model FILE --name NAME --storage ADDRESS",
        )
    return FrozenStudy.model_validate_json(text).definition.model_copy(update={"storage": public_form(address)})


def _shared(
    folder: StudyFolder,
    definition: StudyDefinition,
    note: Callable[[str], None],
    given: str | None = None,
    until: float | None = None,
) -> SharedStudy:
    from tuner.search.shared_pool import SharedStudy

    return SharedStudy(_address(definition, given), folder.name, note, until)


def _address(definition: StudyDefinition, given: str | None = None) -> str:
    """The address of the study's storage: as given or in the variable where that is the same one, else as known."""
    from tuner.search.shared_storage import has_secret, public_form

    assert definition.storage is not None
    if has_secret(definition.storage):
        raise BadInput(
            "There is a password in study.toml",
            advice=f"take it out; give the address in the variable {STORAGE_VARIABLE}, or the password in ~/.pgpass",
        )
    found = given or os.environ.get(STORAGE_VARIABLE)
    return found if found is not None and public_form(found) == definition.storage else definition.storage


def _shared_errors(address: str) -> AbstractContextManager[None]:
    from tuner.search.shared_storage import shared_errors

    return shared_errors(address)


def _file_errors(folder: StudyFolder) -> AbstractContextManager[None]:
    from tuner.search.pool import storage_errors

    return storage_errors(folder.storage_path)


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


def _pool(
    folder: StudyFolder,
    frozen: FrozenStudy,
    note: Callable[[str], None] | None = None,
    *,
    beside: str = "confirm",
) -> TrialPool:
    """The study's pool; with its sampler, which `note` hears from, where it is to be asked."""
    # Importing optuna takes half a second: only what opens a storage pays for it.
    from tuner.search.pool import TrialPool
    from tuner.search.samplers import tpe

    if folder.has_lost_its_storage():
        raise BadInput(
            "The study's storage is missing or empty, though trials were launched",
            where=str(folder.storage_path),
            advice="put back a copy of it, or start a new study under another name; this one's files stay as they are",
        )

    sampler = tpe if note is None else _sampler(frozen, note, lambda: pool.records(confirm=True))
    pool = TrialPool.open_file(folder.storage_path, folder.name, frozen.space, sampler, beside=beside)
    return pool


def _shared_pool(shared: SharedStudy, frozen: FrozenStudy, workers: Workers, note: Callable[[str], None]) -> SharedPool:
    """The same in a storage that several machines share, each with a sampler of its own."""
    pool = shared.pool(frozen.space, workers, _sampler(frozen, note, lambda: pool.records(confirm=True)))
    return pool


def _sampler(
    frozen: FrozenStudy, note: Callable[[str], None], confirmed: Callable[[], Sequence[TrialRecord]]
) -> SamplerFactory:
    from tuner.search.samplers import make_sampler

    return make_sampler(
        frozen.definition.sampler,
        frozen.space,
        frozen.profiles,
        frozen.workload,
        note,
        lambda searched: levelled(searched, confirmed()),
    )


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
