"""The commands `verify` and `dashboard`."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from tuner import wiring
from tuner.cli.progress import Progress
from tuner.cli.running import stop_in_order_when_asked
from tuner.cli.trust import ask_before_running
from tuner.domain.errors import BadInput
from tuner.report.recommendation import recommend
from tuner.report.selection import baseline_of
from tuner.report.verification import Verification
from tuner.store.folder import StudyFolder
from tuner.study.verify import verify


def verify_command(
    name: str, rounds: int, binary: str | None, studies: Path, *, accept_changes: bool, trust: bool, as_json: bool
) -> None:
    """Launches baseline and winners again, and tells what still holds."""
    folder = StudyFolder.existing(studies, name)
    study = wiring.read_study(folder)
    found = recommend(study.frozen, study.searched, study.confirmed) if study else []
    baseline = baseline_of(study.searched) if study else None
    if study is None or baseline is None or not found:
        raise BadInput(f"The study {name} has no measured baseline yet", advice=f"run it with `tuner run {name}`")
    ask_before_running(folder, trust=trust)
    winners = {one.candidate.configuration.fingerprint: one.candidate for one in found if not one.is_baseline}
    stop_in_order_when_asked()
    with (
        Progress(folder.log_path, to_stderr=as_json) as progress,
        wiring.open_kit(folder, progress, accept_changes=accept_changes, verifying=True, binary=binary) as kit,
    ):
        launched = verify(kit, baseline, list(winners.values()), rounds)
        now = kit.frozen
    verification = Verification.of(
        study.frozen,
        found,
        [*study.confirmed, *study.searched],
        launched,
        differences=study.frozen.differences(now.machine, now.engines, now.models),
        space=wiring.space_changes(study.frozen, now),
    )
    if as_json:
        typer.echo(json.dumps(verification.form(name), indent=2, ensure_ascii=False))
    else:
        typer.echo("\n" + "\n".join(verification.lines()))


def dashboard_command(name: str, host: str, port: int, studies: Path) -> None:
    """Serves optuna-dashboard on a study until Ctrl-C."""
    folder = StudyFolder.existing(studies, name)
    storage = wiring.storage_of(folder)
    from tuner.search.dashboard import serve_dashboard

    typer.echo(f"the study {name} at http://{host}:{port}/ ; it only reads. Ctrl-C ends it")
    serve_dashboard(storage, host, port)
