"""Whole studies on the fake engine, through the real command line."""

from __future__ import annotations

import json
import statistics
import sys

import pytest

from tests.bench import FAKE, Bench, configurations
from tests.fake_engine.tiny_gguf import write_tiny_gguf
from tuner.domain.measurement import RequestTiming
from tuner.domain.record import Stage, TrialRecord
from tuner.domain.verdict import Outcome


def argv(record: TrialRecord) -> list[str]:
    assert record.command is not None
    return list(record.command.argv)


def value_of(record: TrialRecord, flag: str) -> str | None:
    words = argv(record)
    return words[words.index(flag) + 1] if flag in words else None


def outcome(record: TrialRecord) -> Outcome | None:
    return None if record.verdict is None else record.verdict.outcome


def best(bench: Bench, name: str = "s") -> dict[str, dict[str, object]]:
    said = bench.tuner("best", name, "--json")
    assert said.code == 0, said.err
    return {profile["name"]: profile for profile in json.loads(said.out)["profiles"]}


def test_a_study_from_its_baseline_to_its_best_commands(bench: Bench) -> None:
    said = bench.tuner(*bench.quick("--trials", "8", "--confirm-rounds", "2"))
    assert said.code == 0, said.err
    searched, confirmed = bench.records(), bench.records("confirm")

    baseline, *others = searched
    assert baseline.stage is Stage.BASELINE
    assert argv(baseline) == [str(FAKE), "--model", str(bench.model), "--host", "127.0.0.1", "--port", "8080"]
    stages = [record.stage for record in others]
    assert stages == sorted(stages, key=[Stage.SEED, Stage.SEARCH].index), "seeds come before the sampler"
    assert stages.count(Stage.SEED) >= 5
    assert len(searched) == 8

    # A B, B A, with a runner-up if it came near.
    order = [record.is_baseline for record in confirmed]
    assert order == order[::-1]
    assert order.count(True) == 2
    assert len(order) in (4, 6)
    assert {record.verdict.outcome for record in confirmed if record.verdict} == {Outcome.OK}

    found = best(bench)["quick"]
    assert isinstance(found["gain"], float)
    assert found["gain"] > 1.3, "the rig's decoding gains that much from MTP"
    assert found["command"]["argv"][:3] == [str(FAKE), "--model", str(bench.model)]  # type: ignore[index]
    assert str(found["command_line"]) in said.out
    bench.assert_nothing_left()

    # The same again launches nothing.
    before = [bench.raw_records(stage) for stage in ("search", "confirm")]
    again = bench.tuner("run", "s")
    assert again.code == 0
    assert [bench.raw_records(stage) for stage in ("search", "confirm")] == before
    assert str(found["command_line"]) in again.out
    folders = {path.name for path in (bench.study() / "trials").iterdir()}
    assert folders == {f"{n:04}" for n in range(8)} | {f"confirm-{n:04}" for n in range(len(order))}

    # More trials, asked for later, are more configurations.
    assert bench.tuner("run", "s", "--trials", "11").code == 0
    measured = configurations(bench.records())
    assert len(measured) == len(set(measured)) == 11


def test_figures_can_be_computed_again_from_the_raw_requests(bench: Bench) -> None:
    assert bench.tuner(*bench.quick("--trials", "3", "--confirm-rounds", "2", "--repeats", "3")).code == 0
    for record in [*bench.records(), *bench.records("confirm")]:
        folder = bench.study() / record.folder
        assert "model loaded" in (folder / "engine.log").read_text()
        lines = [json.loads(line) for line in (folder / "requests.jsonl").read_text().splitlines()]
        uncounted = [line["cell"] for line in lines if not line["counts"]]
        apart = [name for name in uncounted if not name.startswith("quality ")]
        assert set(apart) == {"warm-up"}
        assert 2 <= len(apart) <= 5
        assert record.measurement is not None
        for result in record.measurement.cells:
            timings = [
                RequestTiming.model_validate({key: line[key] for key in RequestTiming.model_fields})
                for line in lines
                if line["counts"] and line["cell"] == result.cell.name
            ]
            assert 3 <= len(timings) <= 9
            speeds = [1000 * (each.completion_tokens - 1) / (each.decode_ms or 0) for each in timings]
            assert result.decode_tps == pytest.approx(statistics.median(speeds))
            assert list(result.decode_tps_samples) == pytest.approx(speeds)
            cold = timings[0]
            assert cold.cached_tokens == 0
            assert result.prefill_tps == pytest.approx(1000 * cold.prompt_tokens / (cold.prefill_ms or 0))
            assert result.ttft_ms == cold.ttft_ms
            warm = [each.ttft_ms for each in timings[1:]]
            assert result.warm_ttft_ms == pytest.approx(statistics.median(warm))
            gaps = sorted(gap for each in timings for gap in each.gaps_ms)
            assert len(gaps) == 3 * 7, "eight tokens have seven gaps"
            assert result.inter_token_p50_ms == gaps[10]
            assert result.inter_token_p95_ms == gaps[19]
            assert result.prompt_tokens == tuple(each.prompt_tokens for each in timings)
            assert result.cached_tokens[0] == 0
            assert all(cached is not None and cached >= 60 for cached in result.cached_tokens[1:])
            assert result.finish_reasons == ("limit",) * 3
            drafted = sum(each.draft_tokens or 0 for each in timings)
            accepted = sum(each.accepted_tokens or 0 for each in timings)
            assert result.acceptance_length == (pytest.approx(24 / (24 - accepted)) if drafted else None)
            # The prompts are as deep as they claim, and no two are alike.
            assert cold.prompt_tokens >= result.cell.depth


def test_a_record_lies_in_the_storage_before_its_engine_starts(bench: Bench) -> None:
    witness = bench.folder / "witness.txt"
    program = bench.file(
        "wrapped-server",
        f"""#!{sys.executable}
import json, os, sqlite3, sys
argv = sys.argv[1:]
if "--alias" in argv and "dry-run" not in argv:
    with sqlite3.connect({str(bench.study() / "study.db")!r}) as database:
        rows = database.execute("SELECT value_json FROM trial_user_attributes WHERE key = 'record'").fetchall()
    open_ones = [record for (text,) in rows if "verdict" not in (record := json.loads(json.loads(text)))]
    mine = [record for record in open_ones if record["launched"]["argv"][1:] == argv]
    with open({str(witness)!r}, "a") as file:
        file.write(f"{{len(open_ones)}} {{len(mine)}}\\n")
os.execv({sys.executable!r}, [{sys.executable!r}, {str(FAKE)!r}, *argv])
""",
    )
    program.chmod(0o755)
    words = bench.quick("--trials", "3", "--confirm-rounds", "2")
    words[words.index(str(FAKE))] = str(program)
    assert bench.tuner(*words).code == 0
    launches = len(bench.records()) + len(bench.records("confirm"))
    assert witness.read_text().splitlines() == ["1 1"] * launches


@pytest.mark.parametrize(
    ("rig", "tuned", "not_tuned"),
    [
        ("two_gpus", {"device", "tensor_split", "split_mode", "fit"}, {"threads", "gomp_spincount"}),
        ("cpu_only", {"threads", "threads_batch", "gomp_spincount"}, {"device", "tensor_split", "n_gpu_layers"}),
    ],
)
def test_the_space_follows_the_machine(bench: Bench, rig: str, tuned: set[str], not_tuned: set[str]) -> None:
    bench.rig(rig)
    said = bench.tuner(*bench.quick("--trials", "12", "--confirm-rounds", "2"))
    assert said.code == 0, said.err
    space: dict[str, list[dict[str, str]]] = bench.frozen()["space"]  # type: ignore[assignment]
    names = {parameter["name"] for parameter in space["parameters"]}
    assert tuned <= names
    assert not names & not_tuned
    told = {dropped["name"]: dropped["reason"] for dropped in space["dropped"]}
    assert all(told[name] for name in not_tuned), "what is left out is named with its reason"
    records = bench.records()
    assert len(configurations(records)) == len(set(configurations(records)))
    assert all(record.verdict is not None and record.verdict.reason for record in records)
    assert any(record.stage is Stage.SEARCH and outcome(record) is Outcome.OK for record in records)
    bench.assert_nothing_left()


PASTED = "-c 65536 -ngl 999 --jinja --cache-type-k=q8_0 -ctv q8_0 -fa on --spec-type draft-mtp --draft-max 4 --temp 0.7"


def test_a_pasted_command_is_the_baseline_and_keeps_its_other_flags(bench: Bench) -> None:
    words = bench.quick("--trials", "9", "--confirm-rounds", "2")
    for option in ("--model", "--binary"):
        del words[words.index(option) : words.index(option) + 2]
    said = bench.tuner(*words, "--", "GGML_X=1", str(FAKE), "-m", str(bench.model), *PASTED.split())
    assert said.code == 0, said.err
    baseline, *others = bench.records()
    assert argv(baseline) == [
        str(FAKE), "--model", str(bench.model), "-c", "65536", "-ngl", "999", "--jinja", "--cache-type-k", "q8_0",
        "-ctv", "q8_0", "-fa", "on", "--spec-type", "draft-mtp", "--spec-draft-n-max", "4", "--temp", "0.7",
        "--host", "127.0.0.1", "--port", "8080",
    ]  # fmt: skip
    assert "--draft-max is called --spec-draft-n-max in this build" in said.out
    for record in [*others, *bench.records("confirm")]:
        assert record.command is not None
        assert record.command.env["GGML_X"] == "1"
        assert value_of(record, "--temp") == "0.7"
        assert argv(record).count("--jinja") == 1
        # No parameter is given twice, under whatever spelling.
        if not record.is_baseline:
            assert not {"-c", "-ngl", "-ctv", "-fa", "--draft-max"} & set(argv(record))
    seeds = [record for record in others if record.stage is Stage.SEED]
    assert all(value_of(record, "--ctx-size") == "65536" for record in seeds), "a seed changes only what it names"

    found = best(bench)["quick"]
    differences = found["differences_from_baseline"]
    shown = bench.tuner("best", "s").out
    if found["is_baseline"]:
        assert not differences
    else:
        assert isinstance(differences, dict)
        assert differences
        for name, change in differences.items():
            flag = "--" + name.replace("_", "-")
            assert f"{flag}: {'not set' if change['baseline'] is None else change['baseline']}" in shown


@pytest.mark.parametrize(
    "written",
    [
        ["{fake} -m {model} -c 8192 -np 1 --temp 0.7"],
        ["env", "A=1", "{fake}", "--model={model}", "--ctx-size=8192", "--parallel", "1", "--temp=0.7"],
        ["{fake}", "\\", "-m", "{model}", "\\", "-c", "8192", "--parallel", "1", "\\", "--temp", "0.7"],
    ],
)
def test_one_command_written_in_many_ways_is_one_study(bench: Bench, written: list[str]) -> None:
    words = bench.quick("--trials", "1")
    for option in ("--model", "--binary"):
        del words[words.index(option) : words.index(option) + 2]
    pasted = [word.format(fake=FAKE, model=bench.model) for word in written]
    said = bench.tuner(*words, "--", *pasted)
    assert said.code == 0, said.err
    frozen = bench.frozen()
    assert frozen["baseline"] == {"ctx_size": 8192, "parallel": 1}
    assert frozen["fixed"] == ["--temp", "0.7"]
    (baseline,) = bench.records()
    assert baseline.measurement is not None
    assert baseline.measurement.actual.context_per_slot == 8192
    assert baseline.measurement.actual.slots == 1


def test_several_models_are_a_parameter(bench: Bench) -> None:
    other = write_tiny_gguf(bench.folder / "other.gguf", layers=2, embd=64)
    space = bench.file(
        "space.toml",
        """
schema_version = 1
engine = "llama_server"
[parameters.model]
kind = "model"
flag = "--model"
about = "The file."
""",
    )
    words = bench.quick("--trials", "8", "--confirm-rounds", "2", "--model", str(other), "--space", str(space))
    said = bench.tuner(*words)
    assert said.code == 0, said.err
    records = bench.records()
    models = [value_of(record, "--model") for record in records]
    assert models[0] == str(bench.model), "the first one is the baseline's"
    assert models == [str(bench.model), str(other)]
    assert all(argv(record).count("--model") == 1 for record in records)


def test_profiles_and_a_space_of_ones_own(bench: Bench) -> None:
    profiles = bench.file(
        "mine.toml",
        """
schema_version = 1
[profiles.typing]
decode = 1.0
contents = { prose-en = 1.0 }
depths = { shallow = 1.0 }
least_context = 2048
""",
    )
    space = bench.file(
        "space.toml",
        """
schema_version = 1
engine = "llama_server"
[parameters.ubatch_size]
flag = "--ubatch-size"
choices = [256, 512]
default = 512
about = "Chunks."
[parameters.flash_attn]
flag = "--flash-attn"
choices = ["auto", "off"]
default = "auto"
about = "Attention."
""",
    )
    said = bench.tuner(
        "run", "--model", str(bench.model), "--binary", str(FAKE), "--name", "s", "--space", str(space), "--depths",
        "32,96", "--predict-tokens", "8", "--profiles", str(profiles), "--profile", "typing", "--profile", "chat",
        "--trials", "50", "--confirm-rounds", "2", "--fixed", "-c 16384",
    )  # fmt: skip
    assert said.code == 0, said.err
    assert "the search ends: every configuration of the space has been tried" in said.out
    records = bench.records()
    tried = [(value_of(record, "--ubatch-size"), value_of(record, "--flash-attn")) for record in records]
    assert tried[0] == (None, None), "the baseline stands for what the engine does unasked"
    assert sorted(tried[1:]) == [("256", "auto"), ("256", "off"), ("512", "off")]
    assert all(value_of(record, "-c") == "16384" for record in records)
    assert set(best(bench)) == {"typing", "chat"}
    cells = {result.cell.name for result in (records[0].measurement.cells if records[0].measurement else ())}
    assert {"prose-en@32", "code@96"} <= cells


def test_own_prompts_and_sampling_are_measured_in_every_launch(bench: Bench) -> None:
    asked = ["Alpha, who are you?", "Bravo, who are you?", "Charlie, who are you?"]
    chats = [{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": t}]} for t in asked]
    prompts = bench.file("mine.jsonl", "\n".join(json.dumps(chat) for chat in chats))
    words = bench.quick("--trials", "2", "--confirm-rounds", "2", "--repeats", "4", "--prompts", str(prompts))
    said = bench.tuner(*words, "--predict-tokens", "24", "--sampling", "temperature=0.7,top_p=0.9")
    assert said.code == 0, said.err
    assert "3 prompts of your own" in said.out
    assert "sampling  temperature 0.7, top_p 0.9" in said.out
    prompts.unlink()
    again = bench.tuner("run", "s", "--trials", "3")
    assert again.code == 0, again.err

    for record in [*bench.records(), *bench.records("confirm")]:
        assert not {"--temp", "--top-p", "--sampling"} & set(argv(record))
        assert record.measurement is not None
        (own,) = (result for result in record.measurement.cells if result.cell.content.value == "own")
        assert own.cell.name == "own@64"
        assert len(own.finish_reasons) >= 4
        assert own.prefix_reused is True, "it stands behind the depth's prefix like every other content"
    told = json.loads(bench.tuner("best", "s", "--json").out)
    assert told["sampling"] == {"temperature": 0.7, "top_p": 0.9}
    assert {"quick", "own-prompts"} == {profile["name"] for profile in told["profiles"]}
    # Prompts of unlike content have answers of their own; the fourth repeat asks the first one again.
    lines = (bench.study() / bench.records()[0].folder / "requests.jsonl").read_text().splitlines()
    texts = [one["text"] for one in map(json.loads, lines) if one["cell"] == "own@64" and one["counts"]]
    assert len(set(texts)) == 3
    assert texts[0] == texts[3]
