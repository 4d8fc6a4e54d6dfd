"""The commands that only read: `best`, `status`, `doctor`."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from tuner import wiring
from tuner.cli.trust import ask_before_running
from tuner.domain.errors import BadInput
from tuner.domain.facts import Device, EngineFacts
from tuner.domain.frozen import FrozenStudy
from tuner.domain.space import Parameter
from tuner.domain.verdict import Outcome
from tuner.process.lock import holder
from tuner.report.best_table import best_lines
from tuner.report.cards import card_cells
from tuner.report.json_form import best_json, outcomes, status_json
from tuner.report.recommendation import Recommendation, recommend
from tuner.report.tables import recommendation_lines
from tuner.store.folder import StudyFolder
from tuner.study.budget import Budget
from tuner.study.define import Options, define
from tuner.study.machine_state import warnings
from tuner.study.protocols import Engine


def best_command(name: str, profiles: tuple[str, ...], studies: Path, *, as_json: bool, details: bool) -> None:
    """Prints what is recommended."""
    folder = StudyFolder.existing(studies, name)
    if not as_json:
        print_recommendations(folder, profiles, details=details)
        return
    frozen, found = recommendations(folder, profiles)
    typer.echo(json.dumps(best_json(name, frozen, found), indent=2, ensure_ascii=False))


def boot_unit_command(name: str, profiles: tuple[str, ...], studies: Path) -> None:
    """Prints the unit that sets the recommended power caps again after a restart, for one profile."""
    _, found = recommendations(StudyFolder.existing(studies, name), profiles)
    capped = {r.profile.name: r.trial.cap_commands for r in found if r.trial.cap_commands}
    if not capped:
        raise BadInput("No power cap is recommended here", advice="`tuner run --power-cap` lets a study search them")
    if len(set(capped.values())) > 1:
        raise BadInput(
            "The profiles recommend different power caps", advice=f"choose one: --profile {' or '.join(capped)}"
        )
    typer.echo(wiring.machine_cards().boot_unit(next(iter(capped.values()))), nl=False)


def print_recommendations(folder: StudyFolder, profiles: tuple[str, ...], *, details: bool = False) -> None:
    """All profiles in one table, and each command; with `details` a block of figures and notes for each profile."""
    frozen, found = recommendations(folder, profiles)
    typer.echo("\n".join(best_lines(frozen, found)))
    for recommendation in found if details else ():
        typer.echo("\n" + "\n".join(recommendation_lines(recommendation, frozen)))


def recommendations(folder: StudyFolder, profiles: tuple[str, ...]) -> tuple[FrozenStudy, list[Recommendation]]:
    study = wiring.read_study(folder)
    found = recommend(study.frozen, study.searched, study.confirmed) if study else []
    if study is None or not found:
        raise BadInput(
            f"The study {folder.name} has no measured baseline yet",
            advice=f"run it with `tuner run {folder.name}`; `tuner status {folder.name}` says how far it is",
        )
    known = [profile.name for profile in study.frozen.profiles]
    for name in profiles:
        if name not in known:
            raise BadInput(f"The study has no profile `{name}`", advice=f"it has: {', '.join(known)}")
    return study.frozen, [r for r in found if not profiles or r.profile.name in profiles]


def status_command(name: str, studies: Path, *, as_json: bool) -> None:
    """Prints how far a study is."""
    folder = StudyFolder.existing(studies, name)
    definition = folder.definition()
    study = wiring.read_study(folder)
    searched, confirmed = (study.searched, study.confirmed) if study else ([], [])
    budget = Budget.of(definition, searched, confirmed)
    running = holder(folder.lock_path) is not None
    form = status_json(
        name,
        study.frozen if study else None,
        searched,
        confirmed,
        running=running,
        used_s=budget.used_s,
        left_s=budget.left_s,
    )
    if as_json:
        typer.echo(json.dumps(form, indent=2))
        return
    typer.echo(f"{name}: {'running' if running else 'not running'}")
    typer.echo(f"  search    {_counts(outcomes(searched))}")
    saved = form["outcomes"].get(Outcome.WILL_NOT_FIT.value, 0)
    if saved:
        typer.echo(f"  saved     {saved} launches that would not have fitted into memory")
    typer.echo(f"  confirm   {_counts(form['confirm_outcomes'])}")
    if form["trim_outcomes"]:
        typer.echo(f"  trim      {_counts(form['trim_outcomes'])}: winners without some of their flags")
    if form["anchors"]:
        typer.echo(f"  anchors   the baseline was measured again {form['anchors']} times during the search")
    left = "" if budget.left_s is None else f", {budget.left_s / 60:.0f} min left"
    limit = "" if definition.trials is None else f", {budget.launched} of {definition.trials} trials"
    typer.echo(f"  time      {budget.used_s / 60:.0f} min used{left}{limit}")
    if definition.storage is not None:
        hosts = Counter(record.owner.host for record in (*searched, *confirmed))
        at_work = {owner.host for owner in study.workers} if study else set()
        lines = [
            f"{host} {n} launches{'' if host in at_work else ', not at work'}" for host, n in sorted(hosts.items())
        ]
        typer.echo(f"  machines  {'; '.join(lines) or 'none yet'}")
    for profile, found in form["best"].items():
        told = f"{found['gain']:.2f}x baseline in trial {found['trial']}, one launch, not confirmed"
        typer.echo(f"  best      {profile:<18} {told}")


def watch_command(name: str, studies: Path) -> None:
    """Shows the status anew until the run ends. It only reads, and never holds the run up."""
    folder = StudyFolder.existing(studies, name)
    running = True
    while running:
        running = holder(folder.lock_path) is not None
        if sys.stdout.isatty():
            typer.echo("\033[2J\033[H", nl=False)
        typer.echo(time.strftime("%H:%M:%S ") + f"{folder.path}; Ctrl-C leaves, the run goes on")
        status_command(name, studies, as_json=False)
        typer.echo("\n".join(folder.last_lines(_WATCHED_LINES)))
        if running:
            time.sleep(_WATCH_S)


_WATCH_S = 3.0
_WATCHED_LINES = 8


def _counts(found: dict[str, int]) -> str:
    return ", ".join(f"{count} {outcome}" for outcome, count in found.items()) or "nothing yet"


def doctor_command(options: Options, name: str | None, engine_name: str | None, studies: Path, *, trust: bool) -> None:
    """Prints what there is to work with, and what would be tuned."""
    engine = wiring.engine_for(engine_name, options.pasted or tuple(options.binary[:1]), options.model)
    if name is not None:
        folder = StudyFolder.existing(studies, name)
        # The engine is asked what it knows: that runs it.
        ask_before_running(folder, trust=trust)
        definition = folder.definition()
    elif options.model or options.pasted:
        definition = define(engine, options, wiring.machine_cards().device_order())
    else:
        facts = engine.inspect(_binary(engine, options), arguments=(), env={})
        _print_engine(facts)
        _print_cards(facts.devices, {})
        _print_permissions(studies)
        typer.echo("\nWith --model FILE this also says what will be tuned, what will not, and why.")
        return
    frozen = wiring.examine(definition)
    for facts in frozen.engines:
        _print_engine(facts)
    for model in frozen.models:
        typer.echo(
            f"model     {model.path}\n"
            f"          {model.name}, {model.architecture}, {model.quantisation or 'unknown quantisation'}, "
            f"{model.size_bytes / 2**20:.0f} MiB\n"
            f"          {model.layers} layers, {model.mtp_layers} for MTP, trained context {model.trained_context}"
        )
    machine = frozen.machine
    typer.echo(f"machine   {machine.cpu}, {machine.physical_cores} cores, {machine.memory_mib} MiB")
    _print_cards(frozen.engines[0].devices, frozen.definition.env)
    _print_permissions(studies)
    for note in frozen.notes:
        typer.echo(f"note      {note}")
    typer.echo("\nWill be tuned:")
    for parameter in frozen.space.parameters:
        typer.echo(f"  {parameter.name:<24} {_domain(parameter)}\n{'':<27}{parameter.about}")
    typer.echo("\nWill not be tuned:")
    for dropped in frozen.space.dropped:
        typer.echo(f"  {dropped.name:<40} {dropped.reason}")
    typer.echo("\nProfiles:")
    for profile in frozen.profiles:
        typer.echo(f"  {profile.name:<18} least context {profile.least_context:>7}  {profile.about}")


def _print_cards(devices: Sequence[Device], env: Mapping[str, str]) -> None:
    """One line a card: what it is, holds, draws, and whether its power cap can be changed."""
    cards = wiring.machine_cards()
    if cards.identities:
        table = Table(box=None, pad_edge=False, show_edge=False)
        for title in ("card", "PCI bus id", "memory", "power", "cap (limits)", "temperature", "read through"):
            table.add_column(title, overflow="fold")
        rows = zip(cards.identities, cards.idle(), cards.power_caps(), strict=True)
        for card, reading, cap in rows:
            table.add_row(*card_cells(card, reading, cap))
        screen = Console(highlight=False, width=None if sys.stdout.isatty() else 200)
        # In a file or a pipe a line may be as long as it is.
        screen.print(table)
        for line in cards.joined(devices, {}, env).told(cards.identities):
            typer.echo(f"          {line}")
    for warning in warnings(cards, devices, env):
        typer.echo(f"warning   {warning}")


def _binary(engine: Engine, options: Options) -> Path:
    if options.binary:
        return Path(options.binary[0])
    return engine.find_binary()


def _print_engine(facts: EngineFacts) -> None:
    typer.echo(f"engine    {facts.engine} {facts.version}\n          {facts.binary}")
    for device in facts.devices:
        typer.echo(f"device    {device.name}: {device.description}, {device.free_mib} of {device.total_mib} MiB free")
    if not facts.devices:
        typer.echo("device    none: the engine computes on the CPU")


def _print_permissions(studies: Path) -> None:
    place = studies
    while not place.exists() and place != place.parent:
        place = place.parent
    writable = os.access(place, os.W_OK)
    typer.echo(f"studies   {studies} ({'writable' if writable else 'NOT writable: choose another with --studies'})")


def _domain(parameter: Parameter) -> str:
    values = (
        " ".join(map(str, parameter.choices))
        if parameter.choices is not None
        else f"{parameter.low} to {parameter.high}"
    )
    condition = f"  (when {parameter.when})" if parameter.when else ""
    return f"{values}  [default {parameter.default}]{condition}"
