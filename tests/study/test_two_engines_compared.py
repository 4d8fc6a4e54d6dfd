"""Two whole studies, one an engine, on the same simulated card, and what `tuner compare` makes of them."""

from __future__ import annotations

import csv
import io
import json

import pytest

from tests.bench import RIGS, Bench
from tests.sglang_bench import sglang_bench


def named(words: list[str], study: str) -> list[str]:
    """A quick study's words with another name, and with answers long enough to have a speed."""
    changed = list(words)
    changed[changed.index("--name") + 1] = study
    changed[changed.index("--predict-tokens") + 1] = "48"
    return changed


def test_both_engines_stand_in_one_table_and_only_what_was_measured_alike(bench: Bench) -> None:
    few = ["--trials", "3", "--confirm-rounds", "3", "--confirm-most", "3"]
    bench.monkeypatch.setenv("FAKE_RIG", str(RIGS / "rtx-32gb.toml"))
    said = bench.tuner(*named(bench.quick(*few), "llama"))
    assert said.code == 0, said.err
    other = sglang_bench(bench)
    said = other.tuner(*named(other.quick("--engine", "sglang", *few), "sgl"))
    assert said.code == 0, said.err

    said = bench.tuner("compare", "llama", "sgl", "--json")
    assert said.code == 0, said.err
    told = json.loads(said.out)
    (profile,) = told["profiles"]
    (decode,) = [row for row in profile["rows"] if row["metric"] == "decode"]
    assert decode["studies"].keys() == {"llama", "sgl"}, "both were measured alike"
    for study, engine in (("llama", bench), ("sgl", other)):
        own = json.loads(engine.tuner("best", study, "--json").out)["profiles"][0]
        assert decode["studies"][study]["median"] == pytest.approx(own["metrics"]["decode_tps"]["code"]["64"], rel=0.05)
    faster = max(decode["studies"], key=lambda study: decode["studies"][study]["median"])
    assert profile["winner"] in (faster, None)

    text = bench.tuner("compare", "llama", "sgl").out
    assert "llama: llama_server" in text
    assert "sgl: sglang" in text
    assert "the weights differ" in text
    markdown = bench.tuner("compare", "llama", "sgl", "--markdown").out
    assert markdown.count("|") > 10
    rows = list(csv.reader(io.StringIO(bench.tuner("compare", "llama", "sgl", "--csv").out)))
    assert len({len(row) for row in rows}) == 1
    bench.assert_nothing_left()
