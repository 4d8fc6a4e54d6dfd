"""The `tuner` program. Every command imports what it needs when it runs: `--help` must come at once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tuner import __version__
from tuner.domain.errors import BadInput, NotPermitted, TunerError

app = typer.Typer(
    name="tuner",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Finds the launch flags that make a local LLM engine fastest on your machine, by measuring the real server.",
)

EXIT_MISTAKE = 2
EXIT_INTERRUPTED = 130

Studies = Annotated[Path, typer.Option(help="Where studies live.", envvar="TUNER_STUDIES")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Model = Annotated[list[Path] | None, typer.Option(help="The model's file or folder; several make it a parameter.")]
Binary = Annotated[list[str] | None, typer.Option(help="The engine's program; several make it a parameter.")]
Python = Annotated[
    list[Path] | None, typer.Option(help="The interpreter of the engine's own environment, for engines in Python.")
]
EngineName = Annotated[str | None, typer.Option(help="Which engine; told by the command or the model if not given.")]
Space = Annotated[Path | None, typer.Option(help="A search space file of your own.")]
ProfileNames = Annotated[list[str] | None, typer.Option("--profile", help="A way of using the model; repeatable.")]
ProfilesFile = Annotated[Path | None, typer.Option("--profiles", help="A TOML file with profiles of your own.")]
CtxMin = Annotated[int | None, typer.Option(help="Least context of a slot, in tokens.", min=1)]
Depths = Annotated[str | None, typer.Option(help="Depths to measure at, in tokens, up to eight: 512,8192.")]
Prompts = Annotated[Path | None, typer.Option(help="A JSONL file with chats of your own to measure with.")]
SamplingText = Annotated[str, typer.Option("--sampling", help="temperature=0.7,top_p=0.95 (greedy).")]
PredictTokens = Annotated[int | None, typer.Option(help="Tokens generated in each request (128; with a GPU 256).")]
Repeats = Annotated[int | None, typer.Option(help="Measured requests a cell in one launch (1).")]
PowerCap = Annotated[bool, typer.Option("--power-cap", help="Let the cards' power caps be changed and searched.")]
Hours = Annotated[float | None, typer.Option(help="Time for search and confirmation together (8).")]
Trials = Annotated[int | None, typer.Option(help="Launches of the search, instead of or beside --hours.")]
Rounds = Annotated[int | None, typer.Option(help="Launches of each finalist in the confirm stage (3).")]
MostRounds = Annotated[int | None, typer.Option(help="The most launches of a finalist whose gain is still open.")]
Trim = Annotated[
    bool | None, typer.Option("--trim/--no-trim", help="Measure what each flag of a winner is worth, print what pays.")
]
SamplerName = Annotated[
    str | None, typer.Option(help="What proposes configurations: composite (the default), tpe, gp or random.")
]
FromStudy = Annotated[
    list[str] | None,
    typer.Option("--from", help="An earlier study whose winners are tried early; repeatable.", metavar="STUDY"),
]
Fixed = Annotated[str, typer.Option(help="Arguments that every launch gets, in one quoted text.")]
Env = Annotated[list[str] | None, typer.Option(help="NAME=VALUE for every launch; repeatable.")]
Until = Annotated[str | None, typer.Option(help="The hour at which the run ends, like 07:00; the study goes on later.")]
SideBySide = Annotated[
    bool, typer.Option("--side-by-side", help="Let other studies run on other cards of this machine at the same time.")
]
AfterCrashes = Annotated[
    bool, typer.Option("--after-crashes", help="Go on though the machine went down twice in a row.")
]
Notify = Annotated[
    str | None,
    typer.Option(
        envvar="TUNER_NOTIFY", help="A URL to tell of start, new best, trouble and end (ntfy, Slack, Discord)."
    ),
]
Storage = Annotated[
    str | None,
    typer.Option(
        envvar="TUNER_STORAGE",
        help="postgresql://... that several identical machines share; each runs this with the same --name.",
    ),
]
Trust = Annotated[bool, typer.Option("--trust", help="Run a study that was made elsewhere without asking.")]
Accept = Annotated[bool, typer.Option("--accept-changes", help="Continue though machine, model or build changed.")]


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point: turns what the user must mend into one message and exit code 2."""
    words = list(sys.argv[1:] if argv is None else argv)
    # Everything after `--` is the user's own command: no option in it is ours.
    own, pasted = words, []
    if "--" in words:
        own, pasted = words[: words.index("--")], words[words.index("--") + 1 :]
    try:
        code = typer.main.get_command(app).main(args=own, prog_name="tuner", obj=pasted, standalone_mode=False)
    except TunerError as error:
        typer.echo(f"error: {error}", err=True)
        code = EXIT_MISTAKE
    except OSError as error:
        # A full disk, a folder that may not be written: nothing that a traceback would explain better.
        typer.echo(f"error: {_refused(error)}", err=True)
        code = EXIT_MISTAKE
    except (KeyboardInterrupt, typer.Abort):
        code = EXIT_INTERRUPTED
    except Exception as error:
        show = getattr(error, "show", None)
        if show is None:
            raise
        # A mistake in the command line, as the option parser tells it.
        show()
        code = EXIT_MISTAKE
    sys.exit(code)


def _refused(error: OSError) -> TunerError:
    return NotPermitted(
        f"The operating system refused it: {error.strerror or error}",
        where=str(error.filename) if error.filename else None,
        advice="look at free space and permissions there; what was measured so far is kept",
    )


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tuner {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


@app.command()
def quickstart(
    minutes: Annotated[float, typer.Option(help="Time for search and confirmation together.")] = 6.0,
    studies: Studies = Path("studies"),
    name: Annotated[str, typer.Option(help="The study's name.")] = "quickstart",
) -> None:
    """Tunes a small real model with a prebuilt llama-server, to see what the tuner does. A few minutes."""
    from tuner.cli.running import run_quickstart

    run_quickstart(minutes, studies, name)


@app.command()
def run(
    context: typer.Context,
    study: Annotated[str | None, typer.Argument(help="The study's name, to continue it.")] = None,
    model: Model = None,
    engine: EngineName = None,
    binary: Binary = None,
    python: Python = None,
    name: Annotated[str | None, typer.Option(help="The study's name; the model file's if not given.")] = None,
    space: Space = None,
    profile: ProfileNames = None,
    profiles: ProfilesFile = None,
    ctx_min: CtxMin = None,
    depths: Depths = None,
    prompts: Prompts = None,
    sampling: SamplingText = "",
    predict_tokens: PredictTokens = None,
    repeats: Repeats = None,
    hours: Hours = None,
    trials: Trials = None,
    confirm_rounds: Rounds = None,
    confirm_most: MostRounds = None,
    trim: Trim = None,
    sampler: SamplerName = None,
    from_study: FromStudy = None,
    fixed: Fixed = "",
    env: Env = None,
    power_cap: PowerCap = False,
    until: Until = None,
    side_by_side: SideBySide = False,
    after_crashes: AfterCrashes = False,
    notify: Notify = None,
    storage: Storage = None,
    studies: Studies = Path("studies"),
    trust: Trust = False,
    accept_changes: Accept = False,
) -> None:
    """Creates a study or continues it: tuner run --model FILE, tuner run NAME, or tuner run -- YOUR COMMAND."""
    from tuner.cli.running import RunOptions, run_study_command
    from tuner.study.define import Options

    options = Options(
        model=model or (),
        binary=_programs(binary, python),
        space=space,
        profiles=profile or (),
        profiles_file=profiles,
        ctx_min=ctx_min,
        depths=depths,
        prompts=prompts,
        sampling=sampling,
        predict_tokens=predict_tokens,
        repeats=repeats,
        hours=hours,
        trials=trials,
        confirm_rounds=confirm_rounds,
        confirm_most=confirm_most,
        trim=trim,
        sampler=sampler,
        from_studies=[studies / name for name in from_study or ()],
        fixed=fixed,
        env=env or (),
        power_cap=power_cap,
        storage=storage,
        pasted=_pasted(context),
    )
    how = RunOptions(
        accept_changes=accept_changes,
        side_by_side=side_by_side,
        after_crashes=after_crashes,
        until=until,
        notify=notify,
        storage=storage,
        trust=trust,
    )
    run_study_command(options, name if study is None else study, engine, studies, how)


@app.command()
def resume(
    until: Until = None,
    notify: Notify = None,
    studies: Studies = Path("studies"),
    trust: Trust = False,
    accept_changes: Accept = False,
) -> None:
    """Continues every study that has not used up its budget, one after the other."""
    from tuner.cli.running import RunOptions, resume_command

    resume_command(studies, RunOptions(accept_changes=accept_changes, until=until, notify=notify, trust=trust))


@app.command()
def pause(
    study: Annotated[str, typer.Argument(help="The study's name.")],
    end: Annotated[bool, typer.Option("--end", help="End the pause.")] = False,
    studies: Studies = Path("studies"),
) -> None:
    """Has a running study wait after its present trial, with no engine running, until the pause is ended."""
    from tuner.cli.running import pause_command

    pause_command(study, studies, end=end)


@app.command()
def init(
    context: typer.Context,
    model: Model = None,
    engine: EngineName = None,
    binary: Binary = None,
    python: Python = None,
    name: Annotated[str | None, typer.Option(help="The study's name; the model file's if not given.")] = None,
    profile: ProfileNames = None,
    fixed: Fixed = "",
    env: Env = None,
    studies: Studies = Path("studies"),
) -> None:
    """Writes studies/NAME/study.toml, commented, for editing; `tuner run NAME` takes it from there."""
    from tuner.cli.running import init_command
    from tuner.study.define import Options

    options = Options(
        model=model or (),
        binary=_programs(binary, python),
        profiles=profile or (),
        fixed=fixed,
        env=env or (),
        pasted=_pasted(context),
    )
    init_command(options, name, engine, studies)


@app.command()
def front(
    study: Annotated[str, typer.Argument(help="The study's name.")],
    json: Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False,
    studies: Studies = Path("studies"),
) -> None:
    """Prints the Pareto front over prefill, decode and context, each point with its command."""
    from tuner.cli.front import front_command

    front_command(study, studies, as_json=json, as_csv=csv)


@app.command()
def best(
    study: Annotated[str, typer.Argument(help="The study's name.")],
    profile: ProfileNames = None,
    json: Json = False,
    details: Annotated[bool, typer.Option("--details", help="Add every figure and note, by profile.")] = False,
    boot_unit: Annotated[bool, typer.Option("--boot-unit", help="Print a systemd unit for the power caps.")] = False,
    studies: Studies = Path("studies"),
) -> None:
    """Prints a table of the profiles with their gains over the baseline, and the best command for each."""
    from tuner.cli.reading import best_command, boot_unit_command

    if boot_unit:
        boot_unit_command(study, tuple(profile or ()), studies)
    else:
        best_command(study, tuple(profile or ()), studies, as_json=json, details=details)


@app.command()
def export(
    study: Annotated[str, typer.Argument(help="The study's name.")],
    form: Annotated[
        str, typer.Option("--format", help="sh, ps1, bat, systemd, docker-compose, llama-swap, ini or json.")
    ] = "sh",
    profile: ProfileNames = None,
    output: Annotated[Path | None, typer.Option(help="The file to write; printed if not given.")] = None,
    studies: Studies = Path("studies"),
) -> None:
    """Writes a profile's best command as a script, a service, a container or another tool's configuration."""
    from tuner.cli.exporting import export_command

    export_command(study, tuple(profile or ()), form, output, studies)


@app.command()
def compare(
    study: Annotated[list[str], typer.Argument(help="Names of studies, or paths of study folders; two or more.")],
    profile: ProfileNames = None,
    json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, to paste.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV, one figure a line.")] = False,
    studies: Studies = Path("studies"),
) -> None:
    """Sets studies of several engines, weights or machines side by side, and says which serves each profile best."""
    from tuner.cli.compare import compare_command

    forms = [name for name, wanted in (("json", json), ("markdown", markdown), ("csv", csv)) if wanted]
    if len(forms) > 1:
        raise BadInput(f"--{forms[0]} and --{forms[1]} exclude each other", advice="choose one of them")
    compare_command(study, tuple(profile or ()), studies, forms[0] if forms else "table")


@app.command()
def report(
    study: Annotated[str, typer.Argument(help="The study's name.")],
    out: Annotated[
        Path | None, typer.Option(help="The folder to write to; the study's own `report` if not given.")
    ] = None,
    studies: Studies = Path("studies"),
) -> None:
    """Writes what was found as one HTML page that needs no network, as Markdown, and its pictures as PNG."""
    from tuner.cli.report import report_command

    report_command(study, studies, out)


@app.command()
def status(
    study: Annotated[str, typer.Argument(help="The study's name.")],
    json: Json = False,
    watch: Annotated[bool, typer.Option("--watch", help="Show it anew every few seconds, until the run ends.")] = False,
    studies: Studies = Path("studies"),
) -> None:
    """Prints how far a study is: trials by outcome, best so far, time used and left."""
    from tuner.cli.reading import status_command, watch_command

    if watch:
        watch_command(study, studies)
    else:
        status_command(study, studies, as_json=json)


@app.command()
def doctor(
    context: typer.Context,
    study: Annotated[str | None, typer.Argument(help="A study's name, to look at what it tunes.")] = None,
    model: Model = None,
    engine: EngineName = None,
    binary: Binary = None,
    python: Python = None,
    space: Space = None,
    fixed: Fixed = "",
    env: Env = None,
    studies: Studies = Path("studies"),
    trust: Trust = False,
) -> None:
    """Looks at engine, devices, model and permissions; says what will be tuned, what will not, and why."""
    from tuner.cli.reading import doctor_command
    from tuner.study.define import Options

    options = Options(
        model=model or (),
        binary=_programs(binary, python),
        space=space,
        fixed=fixed,
        env=env or (),
        pasted=_pasted(context),
    )
    doctor_command(options, study, engine, studies, trust=trust)


@app.command()
def row(
    study: Annotated[str, typer.Argument(help="The study's name.")],
    profile: ProfileNames = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="A Markdown table (without --csv).")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Comma separated values.")] = False,
    studies: Studies = Path("studies"),
) -> None:
    """Prints a row for a community's table of results, with nothing in it that tells who you are."""
    from tuner.cli.data import row_command

    row_command(study, tuple(profile or ()), studies, as_csv_text=csv and not markdown)


@app.command()
def data(
    study: Annotated[str, typer.Argument(help="The study's name.")],
    csv: Annotated[Path | None, typer.Option(help="The folder for trials.csv and requests.csv.")] = None,
    parquet: Annotated[Path | None, typer.Option(help="The same as Parquet; needs pyarrow.")] = None,
    studies: Studies = Path("studies"),
) -> None:
    """Writes every trial and every request as tables."""
    from tuner.cli.data import data_command

    data_command(study, csv, parquet, studies)


@app.command()
def verify(
    study: Annotated[str, typer.Argument(help="The study's name.")],
    rounds: Annotated[int, typer.Option(help="Launches of the baseline and of each winner.", min=2)] = 3,
    binary: Annotated[str | None, typer.Option(help="The engine's program in place of the study's.")] = None,
    json: Json = False,
    studies: Studies = Path("studies"),
    accept_changes: Annotated[
        bool, typer.Option("--accept-changes", help="Compare though machine or model changed.")
    ] = False,
    trust: Trust = False,
) -> None:
    """After an update of engine or driver: launches baseline and winners again, and tells what still holds."""
    from tuner.cli.verifying import verify_command

    verify_command(study, rounds, binary, studies, accept_changes=accept_changes, trust=trust, as_json=json)


@app.command()
def dashboard(
    study: Annotated[str, typer.Argument(help="The study's name.")],
    host: Annotated[str, typer.Option(help="The address to serve at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to serve at.", min=1, max=65535)] = 8090,
    studies: Studies = Path("studies"),
) -> None:
    """Shows the study in optuna-dashboard, where that is installed."""
    from tuner.cli.verifying import dashboard_command

    dashboard_command(study, host, port, studies)


service = typer.Typer(no_args_is_help=True, help="Continues a study after a restart, without anyone logging in.")
app.add_typer(service, name="service")
StudyName = Annotated[str, typer.Argument(help="The study's name.")]


@service.command("install")
def service_install(study: StudyName, studies: Studies = Path("studies")) -> None:
    """Has this system continue the study after a restart or a crash; prints what it wrote and how to undo it."""
    from tuner.cli.service import install_command

    install_command(study, studies)


@service.command("remove")
def service_remove(study: StudyName, studies: Studies = Path("studies")) -> None:
    """Undoes it."""
    from tuner.cli.service import remove_command

    remove_command(study, studies)


@service.command("status")
def service_status(study: StudyName, studies: Studies = Path("studies")) -> None:
    """Says whether it is installed, and what the system says of it."""
    from tuner.cli.service import state_command

    state_command(study, studies)


@app.command("restore-power")
def restore_power() -> None:
    """Gives the graphics cards the power caps back that a killed run left changed."""
    from tuner.cli.power import restore_power_command

    restore_power_command()


def _programs(binary: Sequence[str] | None, python: Sequence[Path] | None) -> tuple[str, ...]:
    return (*(binary or ()), *(str(path) for path in python or ()))


def _pasted(context: typer.Context) -> tuple[str, ...]:
    """The words after `--`."""
    words: Any = context.obj
    return tuple(words or ())
