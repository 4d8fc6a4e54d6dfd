"""The four arms of a 32 GB card, measured by hand by its owner: `tuner compare` comes to the same winners."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.search_benchmark.four_arms import FOUND_BY_THE_OWNER, arms
from tests.search_benchmark.stored import store
from tuner.cli.app import main

ROUNDS = 5
NAMES = [asked.name for asked in arms()]


def compared(studies: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["compare", *NAMES, "--studies", str(studies), *more])
    assert ended.value.code in (0, None)
    return capsys.readouterr().out


def best_arms(told: dict[str, Any]) -> set[str]:
    return {told["winner"]} if told["winner"] else set(told["no_measurable_difference"])


def test_every_profile_has_the_winner_that_the_owner_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for asked in arms():
        store(tmp_path, asked, rounds=ROUNDS, seed=7)
    told = json.loads(compared(tmp_path, capsys, "--json"))
    found = {one["name"]: best_arms(one) for one in told["profiles"]}
    text = compared(tmp_path, capsys)
    print(text)
    assert found == FOUND_BY_THE_OWNER
    # What cannot have the context is named, however fast it is.
    assert any(
        line.startswith("profile deep-coding: sglang-mtp cannot win: ") and line.endswith("65536 are needed")
        for line in told["left_out"]
    )
    assert any(
        line.startswith("profile two-coders: llama-q6 cannot win: serves 1 at once") for line in told["left_out"]
    )
    assert "no measurable difference between" in text
    assert "system: llama-q4 Windows 11; llama-q6 Windows 11; sglang-plain Ubuntu; sglang-mtp Ubuntu" in text
    pair = next(one for one in told["profiles"] if one["name"] == "two-coders")
    assert pair["gain_over"]["llama-q4"]["interval"][0] > 1


@pytest.mark.by_name
def test_the_winners_do_not_hang_on_luck(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    right = dict.fromkeys(FOUND_BY_THE_OWNER, 0)
    contradicted = 0
    nights = 20
    for seed in range(nights):
        for asked in arms():
            store(tmp_path / str(seed), asked, rounds=ROUNDS, seed=seed)
        for one in json.loads(compared(tmp_path / str(seed), capsys, "--json"))["profiles"]:
            found, owners = best_arms(one), FOUND_BY_THE_OWNER[one["name"]]
            right[one["name"]] += found == owners
            contradicted += not found & owners
    print(f"of {nights} nights the owner's winner: {right}; another one: {contradicted}")
    assert contradicted <= 1
    assert all(count >= 0.6 * nights for count in right.values())
