"""Speed never buys nonsense: whole studies in which some configurations are fast and wrong."""

from __future__ import annotations

import json
from pathlib import Path

from tests.bench import QUICK_PROFILES, RIGS, Bench
from tests.fake_engine.launched import launched
from tuner.domain.measurement import ActualSettings, Measurement
from tuner.domain.quality import QualityResult
from tuner.domain.verdict import Outcome
from tuner.domain.workload import Cell, Content, Workload
from tuner.engines.llama_server.client import LlamaServerClient
from tuner.study import run_study
from tuner.study.quality import against_baseline, what_is_wrong
from tuner.workload.measure import WorkloadRun
from tuner.workload.patience import Patience
from tuner.workload.quality import QualityRun

SPACE = """
schema_version = 1
engine = "llama_server"
[parameters.batch_size]
flag = "--batch-size"
choices = [2048, 1536, 1024]
default = 2048
about = "One value meets the fault."
[parameters.cache_type_k]
flag = "--cache-type-k"
choices = ["f16"]
default = "f16"
about = "Keys."
[parameters.cache_type_v]
flag = "--cache-type-v"
choices = ["f16"]
default = "f16"
about = "Values."
"""
QUANTISED = SPACE.replace('["f16"]', '["f16", "q8_0", "q4_0"]').replace("[2048, 1536, 1024]", "[2048]") + "".join(
    f'[[seeds]]\nname = "{kind}"\nbecause = "a test"\nvalues = {{ cache_type_k = "{kind}", cache_type_v = "{kind}" }}\n'
    for kind in ("q8_0", "q4_0")
)
BOTH = "0.5, deep = 0.5 }\nleast"


def study(bench: Bench, fault: str, *more: str, space: str = SPACE) -> str:
    """A study with a shallow and a deep cell; what it said."""
    bench.monkeypatch.setenv("FAKE_FAULT", fault)
    words = bench.quick("--space", str(bench.file("space.toml", space)), *more)
    words[words.index("64")] = "512,2048"
    words[words.index("--profiles") + 1] = str(bench.file("two.toml", QUICK_PROFILES.replace("1.0 }\nleast", BOTH)))
    said = bench.tuner(*words)
    assert said.code == 0, said.err
    return said.out


def outcomes(bench: Bench, stage: str = "search") -> dict[object, tuple[Outcome, str]]:
    """Batch size -> outcome and reason of its last launch; of `None` that of the baseline."""
    return {
        None if record.is_baseline else record.configuration.values["batch_size"]: (
            record.verdict.outcome,
            record.verdict.reason,
        )
        for record in bench.records(stage)
        if record.verdict is not None
    }


WRONG = {
    1024: ("garbage_deep@1500", "answers none of 8 known questions that the baseline answers at depth"),
    1280: ("garbage", "answers none of 12 known questions that the baseline answers;"),
    1792: ("forgetful", "finds none of 3 hidden facts"),
}
"""Batch size -> the fault that it meets, and what is said of it."""


def test_fast_and_wrong_is_never_recommended(bench: Bench) -> None:
    fault = ",".join(f"{fault}?batch_size={size}" for size, (fault, _) in WRONG.items())
    space = SPACE.replace("[2048, 1536, 1024]", f"[2048, 1536, {', '.join(map(str, WRONG))}]")
    out = study(bench, fault, "--trials", "5", "--confirm-rounds", "2", space=space)
    found = outcomes(bench)
    assert found.keys() == {None, 1536, *WRONG}
    assert found[None][0] is found[1536][0] is Outcome.OK
    for size, (_, reason) in WRONG.items():
        assert found[size][0] is Outcome.WRONG_OUTPUT
        assert reason in found[size][1]
    assert out.count("WRONG_OUTPUT") == len(WRONG)
    speeds = {
        record.configuration.values["batch_size"]: record.measurement.cells[-1].decode_tps
        for record in bench.records()
        if record.measurement is not None
    }
    assert speeds[1024] > 1.2 * speeds[1536], "it would have won"  # type: ignore[operator]
    assert outcomes(bench, "confirm").keys() == {None, 1536}
    (best,) = json.loads(bench.tuner("best", "s", "--json").out)["profiles"]
    assert best["is_baseline"] or "1536" in best["command"]["argv"]


def test_loops_are_seen_over_enough_cells(bench: Bench) -> None:
    four = QUICK_PROFILES.replace("{ code = 1.0 }", '{ code = 0.5, "prose-en" = 0.5 }').replace("1.0 }\nleast", BOTH)
    bench.monkeypatch.setenv("FAKE_FAULT", "loops?batch_size=1024")
    words = bench.quick("--space", str(bench.file("space.toml", SPACE)), "--trials", "3", "--confirm-rounds", "2")
    words[words.index("64")] = "512,1024"
    words[words.index("8")] = "128"
    words[words.index("--profiles") + 1] = str(bench.file("four.toml", four))
    assert bench.tuner(*words).code == 0
    found = outcomes(bench)
    assert found[1024][0] is Outcome.WRONG_OUTPUT, found
    assert "goes round in circles in 4 of 4 cells" in found[1024][1]
    assert found[1536][0] is Outcome.OK, found


def test_what_turns_wrong_only_when_confirmed_is_not_recommended(bench: Bench) -> None:
    confirm = run_study.confirm

    def turned(kit):  # type: ignore[no-untyped-def]
        kit.environment["FAKE_FAULT"] = "garbage_deep@1500?batch_size!=2048"
        confirm(kit)

    bench.monkeypatch.setattr(run_study, "confirm", turned)
    study(bench, "", "--trials", "3", "--confirm-rounds", "2")
    assert {outcome for outcome, _ in outcomes(bench).values()} == {Outcome.OK}
    confirmed = outcomes(bench, "confirm")
    assert confirmed.pop(None)[0] is Outcome.OK
    assert {outcome for outcome, _ in confirmed.values()} == {Outcome.WRONG_OUTPUT}
    (best,) = json.loads(bench.tuner("best", "s", "--json").out)["profiles"]
    assert best["is_baseline"] or best["command"]["argv"][-1] not in map(str, confirmed)


def test_a_model_that_knows_nothing_is_told_once_and_tuned(bench: Bench) -> None:
    out = study(bench, "garbage", "--trials", "3", "--confirm-rounds", "2")
    assert out.count("the model answers none of the known questions: only distributions are compared") == 1
    assert {outcome for outcome, _ in outcomes(bench).values()} == {Outcome.OK}
    assert {outcome for outcome, _ in outcomes(bench, "confirm").values()} == {Outcome.OK}


def test_an_engine_without_probabilities_is_judged_by_its_answers(bench: Bench) -> None:
    out = study(bench, "no_probabilities,garbage_deep@1500?batch_size=1024", "--trials", "3", "--confirm-rounds", "2")
    assert "tells no probabilities" in out
    found = outcomes(bench)
    assert (found[1024][0], found[1536][0]) == (Outcome.WRONG_OUTPUT, Outcome.OK)


def test_a_quantised_cache_shows_what_it_costs(bench: Bench) -> None:
    out = study(bench, "", "--trials", "3", "--confirm-rounds", "2", space=QUANTISED)
    costs = {}
    for record in bench.records():
        assert record.verdict is not None
        assert record.verdict.outcome is Outcome.OK, record.verdict.reason
        assert record.measurement is not None
        assert record.measurement.quality is not None
        if record.measurement.quality.cost is not None:
            costs[record.configuration.values["cache_type_k"]] = record.measurement.quality.cost
        raw = [
            json.loads(line)
            for line in (bench.study() / record.folder / "requests.jsonl").read_text().splitlines()
            if '"quality ' in line
        ]
        assert len(raw) == len(record.measurement.quality.answers), "every answer can be looked up"
    for place in ("alone", "deep"):
        q8, q4 = (getattr(costs[kind], place).kl for kind in ("q8_0", "q4_0"))
        assert 0 < q8 < 0.05 < q4
    assert "nats off" in next(line for line in out.splitlines() if "cache_type_k=q4_0" in line)
    (best,) = json.loads(bench.tuner("best", "s", "--json").out)["profiles"]
    told = best["metrics"]["quality"]
    assert told.keys() == {
        "depth_tokens", "alone", "deep", "needles_found", "needles_hidden", "loop_share_added",
    }  # fmt: skip
    assert told["depth_tokens"] == 2048
    assert told["deep"].keys() == told["alone"].keys() == {"kl_nats", "known_right", "known_asked"}
    assert "quality   behind 2048 tokens: " in bench.tuner("best", "s", "--details").out


WORKLOAD = Workload(cells=(Cell(content=Content.CODE, depth=1024),), predict_tokens=8)


def measured(client: LlamaServerClient, salt: str, *, is_baseline: bool = False) -> QualityResult:
    questions = QualityRun(client, log=lambda *_: None, first_token_s=lambda _: 30.0, is_baseline=is_baseline)
    run = WorkloadRun(
        client, WORKLOAD, salt_key=salt, slots=1, log=lambda *_: None, patience=Patience(), quality=questions
    ).measure()
    assert run.failure is None, run.failure
    assert run.quality is not None
    return run.quality


def test_what_is_right_is_never_rejected_in_fifty_runs(tmp_path: Path, tiny_model: Path) -> None:
    """Other batches and the caches that people use, each time behind other text."""
    variants = [[], ["-ub", "1024"], ["-ctk", "q8_0", "-ctv", "q8_0"], ["-ctk", "q5_1", "-ctv", "q5_1"], ["-t", "2"]]
    env = {"FAKE_TIME_SCALE": "0.0001", "FAKE_RIG": str(RIGS / "default.toml")}
    reference: Measurement | None = None
    passed = 0
    for number, arguments in enumerate(variants):
        words = ["-m", str(tiny_model), "-c", "2048", "-np", "1", *arguments]
        with launched(tmp_path / f"log{number}", words, env) as server:
            client = LlamaServerClient(server.url)
            if reference is None:
                first = measured(client, "baseline", is_baseline=True)
                assert (first.known_right, first.needles_found) == (first.known_asked, 3)
                reference = Measurement(cells=(), ready_s=1.0, actual=ActualSettings(), quality=first)
            for run in range(10):
                cost = against_baseline(measured(client, f"{number}/{run}"), reference).cost
                assert cost is not None
                assert what_is_wrong(cost) is None, f"{arguments}: {what_is_wrong(cost)}"
                assert cost.deep.known_asked == 8
                passed += 1
            client.close()
    assert passed == 50
