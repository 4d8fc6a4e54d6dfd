"""What the comparison of clients concludes, and how it reads their reports."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFWriter

from tests.comparison.agreement import joint_ratio, speeds
from tests.comparison.compare_clients import Speed, benchy_speed, llama_bench_speed, table
from tests.comparison.spm_tokenizer import write_tokenizer


def test_an_interval_is_students() -> None:
    told = speeds([10.0, 12.0, 14.0])
    assert told.mean == 12.0
    assert told.high - told.mean == pytest.approx(4.303 * 2 / math.sqrt(3), rel=1e-3)
    assert told.half_width == pytest.approx((told.high - told.low) / 24)


def test_what_the_machine_does_to_both_is_no_difference() -> None:
    machine = [1.0, 0.5, 2.0, 0.8]
    ratio = joint_ratio([100 * speed for speed in machine], [100 * speed for speed in machine])
    assert (ratio.low, ratio.high) == (pytest.approx(1.0), pytest.approx(1.0))
    steady = joint_ratio([106.0, 53.1, 212.2, 84.9], [100.0, 50.0, 200.0, 80.0])
    assert not steady.holds_one
    assert 1.05 < steady.low < 1.061 < steady.high < 1.07


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    dice = random.Random(5)
    held = 0
    for _ in range(400):
        theirs = [100 * math.exp(dice.gauss(0, 0.05)) for _ in range(6)]
        ratio = joint_ratio([each * math.exp(dice.gauss(0, 0.03)) for each in theirs], theirs)
        held += ratio.holds_one
    assert 365 <= held <= 393, "95 in 100"


def test_the_table_says_who_disagrees() -> None:
    ours = [Speed(1000.0, 50.0), Speed(1010.0, 50.5), Speed(990.0, 49.5)]
    same = [Speed(1001.0, 50.0), Speed(1009.0, 50.6), Speed(992.0, 49.4)]
    lines, agree = table({"tuner": ours, "other": same})
    assert agree
    assert [line.split()[:2] for line in lines[1:]] == [
        ["prefill", "tuner"], ["prefill", "other"], ["decode", "tuner"], ["decode", "other"],
    ]  # fmt: skip
    slower = [Speed(one.prefill, 0.8 * one.decode) for one in same]
    lines, agree = table({"tuner": ours, "other": slower})
    assert not agree
    assert ["agree" in line for line in lines if " other " in line] == [True, False]
    assert "1.25" in lines[-1]
    assert "DIFFER" in lines[-1]


def test_reports_of_other_clients_are_read_by_their_medians() -> None:
    run = {"pp_throughput": {"mean": 1.0, "values": [240.0, 90.0, 241.0]}, "tg_throughput": {"values": [30.0, 31.0]}}
    assert benchy_speed({"version": "0.4.0", "benchmarks": [run]}) == Speed(240.0, 30.5)
    test = {"n_prompt": 599, "n_gen": 0, "avg_ts": 1.0, "samples_ts": [240.0, 90.0, 241.0]}
    assert llama_bench_speed(json.dumps([test]).encode()) == 240.0


def test_a_tokenizer_is_read_out_of_a_model(tmp_path: Path) -> None:
    pieces = ["<unk>", "<s>", "▁", "a", "b", "ab", "▁a", "▁ab"]
    writer = GGUFWriter(tmp_path / "m.gguf", "gemma3")
    writer.add_tokenizer_model("llama")
    writer.add_token_list(pieces)
    writer.add_token_scores([0.0, 0.0, -9.0, -8.0, -7.0, -1.0, -3.0, -2.0])
    writer.add_token_types([2, 3, 1, 1, 1, 1, 1, 1])
    writer.add_tensor("t", np.zeros(1, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    write_tokenizer(tmp_path / "m.gguf", tmp_path)
    written = json.loads((tmp_path / "tokenizer.json").read_text())
    assert written["model"]["vocab"] == {piece: place for place, piece in enumerate(pieces)}
    assert written["model"]["merges"] == [["a", "b"], ["▁", "ab"], ["▁a", "b"], ["▁", "a"]], "best score first"
    assert [token["content"] for token in written["added_tokens"]] == ["<s>"]
