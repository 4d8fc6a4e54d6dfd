"""Two clocks on one cell: when they disagree, and what is made of it."""

from __future__ import annotations

from typing import Any

import pytest

from tuner.domain.measurement import CellResult
from tuner.domain.workload import Cell, Content
from tuner.study.cross_check import disagreements


def told(streams: int = 1, **figures: Any) -> list[str]:
    values: dict[str, Any] = {
        "decode_tps": 50.0, "client_decode_tps": 50.0, "prefill_tps": 1000.0, "ttft_ms": 1005.0,
        "prompt_tokens": (1000, 1000), "generated_tokens": 402,
    }  # fmt: skip
    return disagreements([CellResult(cell=Cell(content=Content.CODE, depth=900, streams=streams), **values | figures)])


def test_clocks_that_agree_are_not_mentioned() -> None:
    assert told() == []
    assert told(client_decode_tps=48.5, ttft_ms=1045.0) == []
    assert told(client_decode_tps=51.5, ttft_ms=980.0) == []


def test_a_few_milliseconds_are_nobodys_fault() -> None:
    """On a short answer and a short prompt the client's own work is a large share."""
    short = {"generated_tokens": 10, "prompt_tokens": (40, 40), "prefill_tps": 4000.0}
    assert told(decode_tps=400.0, client_decode_tps=250.0, ttft_ms=30.0, **short) == []


@pytest.mark.parametrize(
    ("figures", "cause"),
    [
        ({"client_decode_tps": 40.0}, "reached the client late"),
        ({"client_decode_tps": 60.0}, "held back"),
        ({"client_decode_tps": 60.0, "acceptance_length": 2.5}, "burst, as those of a verification"),
        ({"ttft_ms": 1200.0}, "waited"),
        ({"ttft_ms": 700.0}, "holds more than this prompt"),
    ],
)
def test_a_disagreement_names_cell_figures_and_cause(figures: dict[str, Any], cause: str) -> None:
    (line,) = told(**figures)
    assert line.startswith("code@900: ")
    assert cause in line
    assert any(f"{value:.0f}" in line for value in figures.values())


def test_streams_that_took_turns_are_told() -> None:
    assert told(2, decode_tps=95.0, stream_tps=(50.0, 50.0)) == []
    (line,) = told(2, decode_tps=52.0, stream_tps=(50.0, 50.0))
    assert "did not decode at the same time" in line


@pytest.mark.parametrize("missing", ["decode_tps", "client_decode_tps", "prefill_tps", "ttft_ms", "generated_tokens"])
def test_what_is_not_known_disagrees_with_nothing(missing: str) -> None:
    apart = {"client_decode_tps": 10.0, "ttft_ms": 9000.0}
    assert len(told(**apart)) == 2
    assert len(told(**apart | {missing: None})) == 1
    assert told(**apart, prompt_tokens=()) == []
