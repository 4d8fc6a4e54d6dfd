"""Studies side by side: who wins, what is level, what does not compare, and how it is told."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.builders import DEPTHS, MACHINE, engine_facts, frozen, measurement, model_facts, profile, record
from tuner.domain.conversation import Conversation
from tuner.domain.frozen import FrozenStudy
from tuner.domain.measurement import CellResult, Measurement
from tuner.domain.record import BASELINE_NOTE, Stage, TrialRecord
from tuner.domain.sampling import Sampling
from tuner.domain.workload import Cell, Content, Workload
from tuner.report.compare import ComparedStudy, ProfileComparison, compare
from tuner.report.compare_json import compare_json
from tuner.report.compare_protocol import differences, heading
from tuner.report.compare_rows import rows
from tuner.report.compare_told import csv_text, markdown, sections, table_rows, verdict

SPREAD = (0.99, 1.0, 1.01)


def study(
    name: str,
    speed: float = 1.0,
    of: FrozenStudy | None = None,
    *,
    launches: int = 3,
    context: int = 32768,
    warm_ups: Mapping[str, int] | None = None,
    **measured: Any,
) -> ComparedStudy:
    """A study of its baseline alone; its launches differ by a per cent."""
    asked = of or frozen()
    cells = asked.workload.cells

    def one(factor: float) -> Measurement:
        taken = {"prefill": 1000.0 * speed * factor, "decode": 50.0 * speed * factor, "context": context} | measured
        return measurement(cells=cells, **taken)

    base = record(0, {"chunk": 256}, one(1.0), stage=Stage.BASELINE)
    again = [
        record(number, {"chunk": 256}, one(factor), stage=Stage.CONFIRM, note=BASELINE_NOTE)
        for number, factor in enumerate(SPREAD[:launches])
    ]
    return ComparedStudy(name, asked, [base], again, warm_ups or {})


def with_workload(**changes: Any) -> FrozenStudy:
    return frozen(workload=frozen().workload.model_copy(update=changes))


def only(*studies: ComparedStudy) -> ProfileComparison:
    (compared,) = compare(studies).profiles
    return compared


def test_the_faster_study_wins_with_an_interval_that_holds_its_gain() -> None:
    compared = only(study("slow"), study("fast", 1.3))
    assert (compared.best, compared.winner, compared.level) == ("fast", "fast", ())
    gained = compared.over["slow"]
    assert gained.low is not None
    assert gained.high is not None
    assert gained.low < 1.3 < gained.high
    assert verdict(compared) == f"fast wins: 1.30x slow ({gained.low:.2f} to {gained.high:.2f})"


def test_a_difference_inside_its_interval_is_none() -> None:
    compared = only(study("one"), study("other", 1.004), study("slow", 0.7))
    assert (compared.best, compared.winner, compared.level) == ("other", None, ("other", "one"))
    told = verdict(compared)
    assert told.startswith("no measurable difference between other and one: other 1.00x one (")
    assert "; 1.43x slow (" in told


def test_every_comparison_that_could_have_been_told_widens_the_intervals() -> None:
    six = frozen([profile(name) for name in "pqrstu"])
    alone = only(study("a", 1.2), study("b")).over["b"]
    among = compare([study("a", 1.2, six), study("b", 1.0, six)]).profiles[0].over["b"]
    assert alone.ratio == pytest.approx(among.ratio)
    assert alone.low is not None
    assert among.low is not None
    assert among.low < alone.low


def test_equal_studies_are_told_in_the_order_they_were_named() -> None:
    assert only(study("z"), study("a")).best == "z"


@pytest.mark.parametrize("launches", [0, 1])
def test_what_was_not_confirmed_can_lead_but_not_win(launches: int) -> None:
    compared = only(study("slow"), study("fast", 1.5, launches=launches))
    assert (compared.best, compared.winner, compared.level) == ("fast", None, ())
    assert re.fullmatch(r"fast leads, not confirmed: 1\.(49|50)x slow", verdict(compared))


def wandering(name: str, rng: np.random.Generator, wander: float, *, anchors: int = 10) -> ComparedStudy:
    """A study on a machine whose speed at any time is another one; its confirm stage is at one time."""
    made = study(name)

    def launch(number: int, level: float, stage: Stage) -> TrialRecord:
        speed = math.exp(level + rng.normal(0, 0.01))
        one = measurement(1000 * speed, 50 * speed)
        return record(number, {"chunk": 256}, one, stage=stage, note=BASELINE_NOTE)

    level = rng.normal(0, wander)
    confirmed = [launch(number, level, Stage.CONFIRM) for number in range(5)]
    seen = [launch(5 + number, rng.normal(0, wander), Stage.ANCHOR) for number in range(anchors)]
    return ComparedStudy(name, made.frozen, made.searched, [*confirmed, *seen], {})


@pytest.mark.parametrize(("wander", "anchors", "claims"), [(0.0, 10, False), (0.03, 10, False), (0.03, 0, True)])
def test_machines_that_wander_make_no_winner(wander: float, anchors: int, claims: bool) -> None:
    """Equal studies: what the anchors saw keeps the claims honest; without anchors nobody could know."""
    rng = np.random.default_rng(11)
    pairs = [[wandering(name, rng, wander, anchors=anchors) for name in "ab"] for _ in range(100)]
    won = sum(only(*pair).winner is not None for pair in pairs)
    assert (won > 20) if claims else (won <= 8)


# ---- needs -----------------------------------------------------------------------------------------------------------


def test_the_strictest_need_holds_for_all() -> None:
    strict = study("strict", 1.0, frozen([profile(least_context=30000)]))
    lenient = study("lenient", 2.0, frozen([profile(least_context=4096)]), context=10240)
    compared = only(lenient, strict)
    assert compared.profile.least_context == 30000
    assert compared.winner == "strict"
    assert verdict(compared) == "strict wins: it alone meets the needs"
    (left,) = compare([lenient, strict]).left_out
    assert left == "profile coder: lenient cannot win: 10240 tokens of context, 30000 are needed"


def test_a_study_answers_a_stricter_need_with_another_of_its_configurations() -> None:
    lenient = study("lenient", 2.0, context=10240)
    roomy = record(1, {"chunk": 512}, measurement(1500.0, 75.0, context=65536))
    launched = [
        record(3 + n, {"chunk": 512}, measurement(1500.0 * f, 75.0 * f, context=65536), stage=Stage.CONFIRM)
        for n, f in enumerate(SPREAD)
    ]
    both = ComparedStudy("lenient", lenient.frozen, [*lenient.searched, roomy], [*lenient.confirmed, *launched], {})
    compared = only(both, study("strict", 1.0, frozen([profile(least_context=30000)])))
    assert compared.winner == "lenient"
    assert compared.over["strict"].ratio == pytest.approx(1.5)
    assert compared.arms[0].recommendation.trial.configuration.values == {"chunk": 512}


# ---- what was measured alike -----------------------------------------------------------------------------------------

OWN = Conversation.model_validate({"messages": [{"role": "user", "content": "Why?"}]})
OTHER_OWN = Conversation.model_validate({"messages": [{"role": "user", "content": "How?"}]})


@pytest.mark.parametrize(
    ("unlike", "told"),
    [
        (with_workload(predict_tokens=128), "128 tokens an answer instead of 64"),
        (
            with_workload(sampling=Sampling(temperature=0.7)),
            "sampling temperature 0.7 instead of greedy",
        ),
        (frozen(texts="abc"), "other texts (abc instead of not recorded)"),
    ],
)
def test_what_was_measured_otherwise_is_not_compared(unlike: FrozenStudy, told: str) -> None:
    comparison = compare([study("a"), study("b", 1.2), study("odd", 9.0, unlike)])
    (compared,) = comparison.profiles
    assert compared.winner == "b"
    assert "odd" not in compared.over
    assert f"profile coder: odd cannot win: measured otherwise: {told}" in comparison.left_out
    decode = [row for row in rows(compared.arms) if row.metric == "decode"]
    assert {tuple(row.figures) for row in decode} == {("a", "b"), ("odd",)}


def test_two_that_were_measured_otherwise_have_no_winner() -> None:
    compared = only(study("a"), study("b", 1.5, with_workload(predict_tokens=128)))
    assert (compared.best, compared.winner, compared.over) == (None, None, {})
    assert verdict(compared) == "nothing to compare"


def test_the_length_of_answers_does_not_touch_prefill() -> None:
    compared = only(study("a"), study("b", 1.0, with_workload(predict_tokens=128)))
    prefill = [row for row in rows(compared.arms) if row.metric == "prefill"]
    assert [(row.depth, tuple(row.figures)) for row in prefill] == [(depth, ("a", "b")) for depth in DEPTHS]
    reader = frozen([profile(decode=0.0)])
    assert only(study("a", 1.5, reader), study("b", 1.0, reader)).winner == "a"


def test_own_prompts_compare_only_with_the_same_ones() -> None:
    cells = tuple(Cell(content=Content.OWN, depth=depth) for depth in DEPTHS)

    def asked(own: Conversation) -> FrozenStudy:
        return frozen(
            [profile(contents={"own": 1.0})],
            workload=Workload(cells=cells, predict_tokens=64, conversations=(own,)),
        )

    assert only(study("a", 1.2, asked(OWN)), study("b", 1.0, asked(OWN))).winner == "a"
    assert only(study("a", 1.2, asked(OWN)), study("b", 1.0, asked(OTHER_OWN))).winner is None


def test_the_score_covers_the_depths_that_all_have() -> None:
    def at(*depths: int) -> FrozenStudy:
        return with_workload(cells=tuple(Cell(content=Content.CODE, depth=depth) for depth in depths))

    compared = only(study("a", 1.2, at(512, 8192)), study("b", 1.0, at(512, 4096)))
    assert (compared.depths, compared.winner) == ((512,), "a")
    apart = compare([study("a", 1.2, at(8192)), study("b", 1.0, at(512))])
    assert apart.profiles[0].best is None
    assert "profile coder: a cannot win: the studies have no depth in common" in apart.left_out
    told = differences(apart)
    assert "depths: a 8192; b 512" in told


def test_profiles_of_one_name_that_weigh_otherwise_are_left_out() -> None:
    comparison = compare([study("a"), study("b", 1.0, frozen([profile(prefill=9.0)]))])
    assert comparison.profiles == ()
    assert "profile coder: b weighs it otherwise than a" in comparison.left_out


def test_a_cell_that_was_not_measured_is_no_slow_one() -> None:
    comparison = compare([study("a"), study("b", decode=None), study("c", 1.2)])
    assert comparison.profiles[0].winner == "c"
    assert comparison.left_out == ("profile coder: b cannot win: not every cell was measured that the profile weighs",)


def test_who_is_alone_because_nothing_else_is_known_does_not_win() -> None:
    assert only(study("a"), study("b", decode=None)).best is None


# ---- rows ------------------------------------------------------------------------------------------------------------


def drafting() -> Measurement:
    cells = (
        CellResult(
            cell=Cell(content=Content.CODE, depth=512), decode_tps=101.2, prefill_tps=1775.0,
            acceptance_rate=0.809, acceptance_length=4.3,
        ),
        CellResult(cell=Cell(content=Content.CODE, depth=512, streams=2), decode_tps=161.4),
    )  # fmt: skip
    return measurement().model_copy(update={"cells": cells})


def test_the_rows_are_those_of_a_table_made_by_hand() -> None:
    asked = with_workload(cells=tuple(result.cell for result in drafting().cells))
    base = record(0, {"chunk": 256}, drafting(), stage=Stage.BASELINE)
    pair = [ComparedStudy(name, asked, [base], [], {}) for name in ("a", "b")]
    (section,) = sections(compare(pair))
    assert [row[:3] for row in table_rows(section, ["a", "b"])] == [
        ("prefill @512", "t/s", "1775"),
        ("decode code @512", "t/s", "101.2"),
        ("accepted code @512", "%", "81"),
        ("accepted length code @512", "tokens", "4.30"),
        ("context a slot", "tokens", "32768"),
        ("context proven", "tokens", "8400"),
        ("engine's buffers", "MiB", "900"),
    ]
    totals = [row for row in section.rows if row.metric == "total"]
    assert [(row.streams, row.figures["a"].median) for row in totals] == [(2, 161.4)]
    assert not any(row.matters_to([profile()]) for row in totals), "one stream alone is what this profile is about"
    assert totals[0].matters_to([profile(streams=2)])


def test_profiles_with_the_same_configurations_share_a_section() -> None:
    two = frozen([profile("p"), profile("q")])
    (section,) = sections(compare([study("a", 1.0, two), study("b", 1.2, two)]))
    assert [compared.profile.name for compared in section.profiles] == ["p", "q"]


def test_rows_that_look_alike_say_how_they_were_measured() -> None:
    comparison = compare([study("a"), study("b"), study("c", 1.0, with_workload(predict_tokens=128))])
    (section,) = sections(comparison)
    labels = [row[0] for row in table_rows(section, ["a", "b", "c"]) if row[0].startswith("decode")]
    assert "decode code @512 (128 tokens an answer, greedy, texts not recorded)" in labels
    assert len(labels) == len(set(labels)) == 4


# ---- protocol --------------------------------------------------------------------------------------------------------


def test_what_differs_in_the_protocol_is_said() -> None:
    asked = frozen(
        [profile(least_context=8192)],
        tuner_version="0.2", machine=MACHINE.model_copy(update={"system": "Windows"}),
        models=(model_facts(name="big", quantisation="Q6_K", size_bytes=3 * 2**30),),
        engines=(engine_facts(engine="sglang", version="0.5"),),
    )  # fmt: skip
    other = study("b", 1.0, asked, launches=2, warm_ups={"": 2})
    comparison = compare([study("a", warm_ups={"": 3}), other])
    told = "\n".join(differences(comparison))
    for line in (
        "tuner: a not recorded; b 0.2", "warm-ups: a 3 a launch; b 2 a launch",
        "launches of what is compared: a 3; b 2",
        "least context asked for: a 4096 tokens; b 8192 tokens", "system: a Linux x86_64; b Windows",
        "the weights differ",
    ):  # fmt: skip
        assert line in told
    assert "depths:" not in told
    assert heading(other) == "sglang 0.5; big Q6_K, 3.00 GiB; desk: Some CPU"


def test_a_clock_that_disagrees_with_the_clients_is_said() -> None:
    def clocked(name: str, factor: float) -> ComparedStudy:
        made = study(name)
        cells = [
            result.model_copy(update={"client_decode_tps": 50.0 / factor})
            for result in made.searched[0].measurement.cells  # type: ignore[union-attr]
        ]
        base = made.searched[0].model_copy(update={"measurement": measurement().model_copy(update={"cells": cells})})
        return ComparedStudy(name, made.frozen, [base], [], {})

    told = "\n".join(differences(compare([clocked("a", 1.0), clocked("b", 1.05)])))
    assert "engine and client: a agree to 1 %; b 5% faster by the engine's own timings" in told


# ---- forms -----------------------------------------------------------------------------------------------------------


def test_json_keys_are_those_that_scripts_rely_on() -> None:
    told = compare_json(compare([study("a"), study("b", 1.3)]))
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert told.keys() == {"schema_version", "studies", "profiles", "left_out", "differences"}
    assert told["studies"][0].keys() == {
        "name", "engines", "models", "machine", "cards", "tuner_version", "texts"
    }  # fmt: skip
    (compared,) = told["profiles"]
    assert compared.keys() == {
        "name", "least_context", "depths", "best", "winner", "no_measurable_difference", "gain_over", "arms", "rows"
    }  # fmt: skip
    assert compared["arms"][0].keys() == {
        "study", "command", "power_cap_commands", "is_baseline", "launches", "is_confirmed", "cannot_win"
    }  # fmt: skip
    assert compared["winner"] == "b"
    assert compared["gain_over"]["a"]["interval"][0] > 1
    row = next(row for row in compared["rows"] if row["metric"] == "decode")
    assert (row["content"], row["depth"], row["streams"], row["predict_tokens"]) == ("code", 512, 1, 64)
    assert row["studies"]["b"] == {"median": 65.0, "range": [pytest.approx(64.35), pytest.approx(65.65)], "launches": 3}


def test_csv_has_one_figure_a_line() -> None:
    lines = list(csv.DictReader(io.StringIO(csv_text(compare([study("a"), study("b", 1.3)])))))
    decode = next(line for line in lines if line["metric"] == "decode" and line["study"] == "b")
    assert (decode["content"], decode["depth"], decode["value"], decode["launches"]) == ("code", "512", "65.0", "3")
    gained = next(line for line in lines if line["metric"] == "gain over a")
    assert gained["study"] == "b"
    assert float(gained["low"]) < float(gained["value"]) < float(gained["high"])


def test_markdown_is_a_table_whose_lines_have_the_same_cells() -> None:
    text = markdown(compare([study("a"), study("b", 1.3)]))
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in table}) == 1
    assert any("65.0" in line for line in table)
    assert "- coder: b wins: 1.30x" in text
    assert "`engine --chunk=256`" in text


def test_a_trial_without_a_command_is_said_to_have_none() -> None:
    bare = study("a")
    launched: list[TrialRecord] = [one.model_copy(update={"command": None}) for one in bare.confirmed]
    text = markdown(compare([ComparedStudy("a", bare.frozen, bare.searched, launched, {}), study("b")]))
    assert "`not recorded`" in text
