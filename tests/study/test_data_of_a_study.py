"""`tuner data`: the tables of a whole study, and the trials' figures computed again from the requests."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pandas as pd
import pytest

from tests.bench import Bench


@pytest.fixture
def tables(bench: Bench) -> tuple[pd.DataFrame, pd.DataFrame]:
    assert bench.tuner(*bench.quick("--trials", "4", "--confirm-rounds", "2", "--repeats", "3")).code == 0
    with (bench.study() / "trials" / "0001" / "requests.jsonl").open("a") as file:
        file.write('{"cell": "code@64", "cou')  # A kill in the middle of a line.
    said = bench.tuner("data", "s", "--csv", "out")
    assert said.code == 0, said.err
    launched = len(bench.records()) + len(bench.records("confirm"))
    assert launched >= 8
    assert f"wrote out/trials.csv: {launched} rows" in said.out
    return pd.read_csv(Path("out") / "trials.csv"), pd.read_csv(Path("out") / "requests.csv")


def test_figures_of_trials_come_from_their_requests(bench: Bench, tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    trials, requests = tables
    records = [*bench.records(), *bench.records("confirm")]
    assert set(trials["trial"]) == {record.folder for record in records} == set(requests["trial"])
    assert set(trials["stage"]) == {"baseline", "seed", "confirm"}
    measured = requests[requests["counts"] & (requests["kind"] == "cell")]
    medians = measured.groupby(["trial", "cell"])["decode_tps"].median()
    cold = measured[measured["cached_tokens"] == 0].groupby("trial")["prefill_tps"].first()
    for trial in trials.itertuples():
        row = trials[trials["trial"] == trial.trial].iloc[0]
        assert row["decode_tps.code@64"] == pytest.approx(medians[(trial.trial, "code@64")])
        assert row["prefill_tps.64"] == pytest.approx(cold[trial.trial])
    speed = 1000 * (measured["completion_tokens"] - 1) / measured["decode_ms"]
    assert measured["decode_tps"].tolist() == pytest.approx(speed.tolist())
    assert {"question", "warm-up", "cell"} == set(requests["kind"])
    assert measured["depth"].unique().tolist() == [64]
    parameter = next(name for name in trials.columns if name == "parameter.ubatch_size")
    wanted = [record.configuration.values.get("ubatch_size") for record in records]
    assert sorted(trials[parameter].dropna()) == sorted(value for value in wanted if value is not None)


def test_unknown_is_missing_and_never_zero(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    trials, requests = tables
    assert trials["gpu_energy_j"].isna().all()
    assert requests["draft_tokens"].isna().any()
    assert (trials["schema_version"] == 1).all()


def test_mistakes_are_told(bench: Bench, tables: object, monkeypatch: pytest.MonkeyPatch) -> None:
    del tables
    assert "--csv DIR or --parquet DIR" in bench.tuner("data", "s").err
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    said = bench.tuner("data", "s", "--parquet", "out")
    assert (said.code, "llm-engine-tuner[parquet]" in said.err) == (2, True)
    said = bench.tuner("dashboard", "s")
    assert (said.code, "llm-engine-tuner[dashboard]" in said.err) == (2, True)


def test_a_row_of_a_real_study_names_nobody(bench: Bench, tables: object) -> None:
    del tables
    said = bench.tuner("row", "s", "--markdown")
    assert said.code == 0
    assert str(bench.folder) not in said.out
    assert bench.folder.name not in said.out
    assert bench.tuner("row", "s", "--csv").out.startswith("card,engine,")
