"""A row for a community's table: what it says, and that nobody can be found by it."""

from __future__ import annotations

import csv
import io
import re

import pytest

from tests.builders import MACHINE, definition, engine_facts, frozen, measurement, model_facts, profile, record
from tests.report.test_best_table import BASE, confirmed
from tuner.domain.command import LaunchCommand
from tuner.domain.facts import Device
from tuner.domain.measurement import ActualSettings
from tuner.domain.record import TrialRecord
from tuner.report.community_row import COLUMNS, as_csv, as_markdown, community_rows
from tuner.report.recommendation import recommend

FOLDERS = ("zoe", "Secret Project", "weights-of-mine", "builds", "studies-here")
BINARY = "/home/zoe/Secret Project/builds/llama-server"
MODEL = "/home/zoe/weights-of-mine/m.gguf"
SECRETS = (*FOLDERS, "zoes-desk", "/home", "Bob")


def rows(**changes: object) -> list[tuple[str, ...]]:
    version = "10068 (abc123)\nbuilt in /home/zoe/builds with gcc"
    facts = engine_facts(
        binary=BINARY, version=version, devices=(Device(name="CUDA0", description="NVIDIA GeForce RTX 3090"),)
    )
    study = frozen(
        [profile("coder")],
        definition=definition(binary=(BINARY,), model=(MODEL,)),
        engines=(facts,),
        models=(model_facts(**{"path": MODEL, "name": "Qwen 3 8B", "quantisation": "Q4_K_M"} | changes),),
        machine=MACHINE.model_copy(update={"host": "zoes-desk"}),
    )
    argv = (BINARY, "--model", MODEL, "--spec-draft-n-max", "2", "--log-file", "/home/zoe/studies-here/log")
    fast = record(1, {"chunk": 512, "cache": "f16"}, measurement(1500.0, 60.0))
    launches = [with_command(one, argv) for one in confirmed(1.5)]
    base = with_command(BASE, (BINARY, "--model", MODEL))
    found = recommend(study, [base, with_command(fast, argv)], launches)
    return community_rows(study, found, [base, fast], launches, ("zoe", "Bob"))


def with_command(one: TrialRecord, argv: tuple[str, ...]) -> TrialRecord:
    measured = one.measurement
    assert measured is not None
    actual = ActualSettings(context_per_slot=32768, kv_types="q8_0/q8_0", speculation=True)
    cells = tuple(cell.model_copy(update={"acceptance_rate": 0.83}) for cell in measured.cells)
    changed = measured.model_copy(update={"actual": actual, "cells": cells})
    return one.model_copy(update={"command": LaunchCommand(argv=argv), "measurement": changed})


def test_what_a_row_says() -> None:
    (row,) = rows()
    told = dict(zip(COLUMNS, row, strict=True))
    method = told.pop("method")
    assert told == {
        "card": "NVIDIA GeForce RTX 3090", "engine": "llama_server 10068 (abc123)", "model": "Qwen 3 8B Q4_K_M",
        "context": "32768", "kv types": "q8_0/q8_0", "profile": "coder", "baseline prefill/decode t/s": "1001 / 50.0",
        "best prefill/decode t/s": told["best prefill/decode t/s"],
        "gain": told["gain"], "quality": "-", "n-max": "2", "acceptance": "83%",
    }  # fmt: skip
    assert re.fullmatch(r"15\d\d / 7\d\.\d", told["best prefill/decode t/s"])
    assert re.fullmatch(r"1\.50x \(1\.[45]\d to 1\.5\d\)", told["gain"])
    assert "decode code@512, 64 tokens, greedy; 3 + 3 launches" in method


@pytest.mark.parametrize(
    "name",
    ["Qwen 3 8B", "/home/zoe/weights-of-mine/Qwen", "Bob's merge by ZOE", "C:\\Users\\zoe\\Qwen", "~/builds/Qwen"],
)
def test_nothing_in_it_tells_who_measured_it(name: str) -> None:
    text = as_markdown(rows(name=name)) + as_csv(rows(name=name))
    for secret in SECRETS:
        assert secret.lower() not in text.lower()


def test_both_forms_hold_the_same_cells() -> None:
    made = rows(name="a | b, c")
    read = list(csv.reader(io.StringIO(as_csv(made))))
    assert read == [list(COLUMNS), *map(list, made)]
    head, rule, line = as_markdown(made).splitlines()
    assert len(re.split(r"(?<!\\)\|", line)) == len(head.split("|")) == len(rule.split("|")) == len(COLUMNS) + 2
