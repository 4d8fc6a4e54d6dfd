"""The commands `data` and `row`: a study's figures for other people and other programs."""

from __future__ import annotations

import getpass
import importlib.util
import socket
from contextlib import suppress
from pathlib import Path

import typer

from tuner import wiring
from tuner.cli.reading import recommendations
from tuner.domain.errors import BadInput, MissingFile, NotPermitted
from tuner.report.community_row import as_csv, as_markdown, community_rows
from tuner.report.frames import request_frame, trial_frame
from tuner.store.folder import StudyFolder
from tuner.store.request_lines import request_lines


def data_command(name: str, csv: Path | None, parquet: Path | None, studies: Path) -> None:
    """Writes every trial and every request as tables into a folder."""
    if (csv is None) == (parquet is None):
        raise BadInput("Say where to: --csv DIR or --parquet DIR", advice="CSV needs nothing else installed")
    if parquet is not None and importlib.util.find_spec("pyarrow") is None:
        raise MissingFile("Parquet needs pyarrow", advice="pip install 'llm-engine-tuner[parquet]', or use --csv")
    folder = StudyFolder.existing(studies, name)
    study = wiring.read_study(folder)
    if study is None:
        raise BadInput(f"The study {name} has no trials yet", advice=f"run it with `tuner run {name}`")
    records = [*study.searched, *study.confirmed, *wiring.read_verifications(study)]
    frames = {
        "trials": trial_frame(records),
        "requests": request_frame(records, lambda record: request_lines(folder.path, record.folder)),
    }
    target = csv or parquet
    assert target is not None
    try:
        target.mkdir(parents=True, exist_ok=True)
        for what, frame in frames.items():
            path = target / f"{what}.{'csv' if csv else 'parquet'}"
            if csv:
                frame.to_csv(path, index=False)
            else:
                frame.to_parquet(path, index=False)
            typer.echo(f"wrote {path}: {len(frame)} rows, {len(frame.columns)} columns")
    except OSError as error:
        raise NotPermitted(f"Cannot write the tables: {error.strerror}", where=str(target)) from error


def row_command(name: str, profiles: tuple[str, ...], studies: Path, *, as_csv_text: bool) -> None:
    """Prints one row a profile for a community's table."""
    folder = StudyFolder.existing(studies, name)
    frozen, found = recommendations(folder, profiles)
    study = wiring.read_study(folder)
    assert study is not None
    rows = community_rows(frozen, found, study.searched, study.confirmed, _names())
    typer.echo((as_csv if as_csv_text else as_markdown)(rows), nl=False)


def _names() -> list[str]:
    """Who is at work here, and where."""
    names = [socket.gethostname(), socket.gethostname().partition(".")[0], Path.home().name]
    with suppress(KeyError, OSError):
        names.append(getpass.getuser())
    return names
