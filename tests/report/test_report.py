"""The report: its figures are those of `tuner best --json`; no text breaks out of it, and nothing goes out."""

from __future__ import annotations

import json
import re
import time
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.builders import frozen, measurement, record
from tests.report.simulated_nights import HOST, UUID, Records, many_trials, simulated_night
from tuner.domain.command import LaunchCommand
from tuner.domain.errors import BadInput
from tuner.domain.record import BASELINE_NOTE, Stage, TrialRecord
from tuner.domain.verdict import Outcome, Verdict
from tuner.report.json_form import best_json
from tuner.report.page import png as png_module
from tuner.report.page.compose import compose
from tuner.report.page.files import write
from tuner.report.page.html import html
from tuner.report.page.markdown import markdown
from tuner.report.page.source import Source
from tuner.report.page.steps import steps
from tuner.report.page.worth_section import worth_section
from tuner.report.recommendation import recommend

EVIL = "</script><script>alert('|`x`')</script>&amp;"


class Page(HTMLParser):
    """What a browser would make of a page, as far as these tests ask."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.figures: list[tuple[dict[str, str | None], str]] = []
        self.commands: list[str] = []
        self.words = ""
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "data":
            self.figures.append((dict(attrs), ""))
        if tag == "pre":
            self.commands.append("")
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.words += data
        if "data" in self._open:
            self.figures[-1] = (self.figures[-1][0], self.figures[-1][1] + data)
        if "pre" in self._open:
            self.commands[-1] += data


@cache
def night() -> Records:
    return simulated_night("laptop4090-7900xtx", 40)


@cache
def page_of_night() -> str:
    return html(compose("night", night().frozen, night().searched, night().confirmed))


def told_by_json(records: Records) -> dict[str, Any]:
    found = recommend(records.frozen, records.searched, records.confirmed)
    return best_json("night", records.frozen, found)


def at(root: Any, pointer: str) -> Any:
    for key in pointer.split("/")[1:]:
        name = key.replace("~1", "/").replace("~0", "~")
        root = root[int(name)] if isinstance(root, list) else root[name]
    return root


# ---- figures ---------------------------------------------------------------------------------------------------------


def test_every_figure_of_a_recommendation_is_the_one_in_json() -> None:
    told, page = told_by_json(night()), Page(page_of_night())
    sourced = [(attributes, text) for attributes, text in page.figures if attributes.get("data-json")]
    assert len(sourced) > 150
    for attributes, _ in sourced:
        assert float(str(attributes["value"])) == at(told, str(attributes["data-json"]))


def test_every_figure_is_shown_as_its_value_rounded() -> None:
    figures = Page(page_of_night()).figures
    assert len(figures) > 300
    for attributes, text in figures:
        value = float(str(attributes["value"])) * float(attributes.get("data-scale") or 1)
        assert re.fullmatch(r"[+-]?\d+(\.\d+)?", text), (attributes, text)
        step = 10.0 ** -len(text.partition(".")[2])
        assert abs(float(text) - value) <= step / 2 + 1e-9, (attributes, text)


def test_each_profile_tells_gain_quality_memory_and_watts_from_json_and_the_command_as_it_is() -> None:
    told, page = told_by_json(night()), Page(page_of_night())
    pointers = {attributes.get("data-json") for attributes, _ in page.figures}
    for place, profile in enumerate(told["profiles"]):
        here = f"/profiles/{place}"
        wanted = {f"{here}/candidate_gain", f"{here}/candidate_gain_interval/0", f"{here}/candidate_gain_interval/1"}
        wanted |= {f"{here}/metrics/quality/alone/kl_nats", f"{here}/metrics/gpus/0/memory_peak_mib"}
        assert wanted | {f"{here}/metrics/gpus/0/power_mean_w"} <= pointers
        assert profile["command_line"] in page.commands


def test_all_figures_of_the_markdown_are_those_of_the_page() -> None:
    document = compose("night", night().frozen, night().searched, night().confirmed)
    shown = Page(html(document)).figures
    text = markdown(document, {})
    for attributes, figure in shown:
        assert figure in text, attributes
    for profile in told_by_json(night())["profiles"]:
        assert f"```sh\n{profile['command_line']}\n```" in text


# ---- what is told ----------------------------------------------------------------------------------------------------

BASE = record(0, {"chunk": 256, "cache": "f16"}, measurement(1000.0, 40.0), stage=Stage.BASELINE)
FAST = record(1, {"chunk": 512, "cache": "f16"}, measurement(1500.0, 60.0))


def confirmed(factor: float, *, repeats: int = 3) -> list[TrialRecord]:
    made = []
    for number in range(repeats):
        drift = 1 + 0.01 * (number - 1)
        for of, speed, note in ((BASE, 1.0, BASELINE_NOTE), (FAST, factor, "trial 1")):
            measured = measurement(1000 * speed * drift, 40 * speed * drift)
            made.append(record(number, of.configuration.values, measured, stage=Stage.CONFIRM, note=note))
    return made


def words(*searched: TrialRecord, again: list[TrialRecord] | None = None, name: str = "night") -> str:
    return Page(html(compose(name, frozen(), searched, again or []))).words


def test_what_cannot_be_told_from_the_baseline_is_called_so() -> None:
    assert "No measurable difference" in words(BASE, FAST, again=confirmed(1.001))
    assert "1.50x baseline" in words(BASE, FAST, again=confirmed(1.5))
    assert "not confirmed" in words(BASE, FAST)
    assert "Nothing but the baseline was measured" in words(BASE)


def test_failures_are_grouped_by_reason_and_what_they_share_is_named() -> None:
    failed = [
        record(n, {"chunk": 128, "cache": "f16", "n": n}, outcome=Outcome.OUT_OF_MEMORY).model_copy(
            update={"verdict": Verdict(outcome=Outcome.OUT_OF_MEMORY, reason=f"CUDA0 failed to get {n} MiB")}
        )
        for n in range(2, 7)
    ]
    told = words(BASE, FAST, *failed)
    assert told.count("such as: CUDA0 failed to get") == 1
    assert "--chunk 128 in 5 of 5; of those that ran in 0 of 2" in told


def test_one_flag_is_told_from_trials_that_differ_in_it_alone() -> None:
    both = record(2, {"chunk": 512, "cache": "q8_0"}, measurement(3000.0, 60.0))
    source = Source.of("night", frozen(), [BASE, FAST, both], [])
    found = {(step.name, step.before, step.now): step for step in steps(source)}
    assert found.keys() == {("chunk", 256, 512), ("cache", "f16", "q8_0")}
    chunk, cache = found["chunk", 256, 512], found["cache", "f16", "q8_0"]
    assert chunk.decode is not None
    assert chunk.decode.ratio == pytest.approx(1.5)
    assert chunk.decode.low is None, "without repeated launches nobody knows the noise"
    assert cache.prefill is not None
    assert (cache.prefill.ratio, cache.prefill.pairs) == (pytest.approx(2.0), 1)


def test_one_flag_gets_an_interval_from_repeated_launches() -> None:
    source = Source.of("night", frozen(), [BASE, FAST], confirmed(1.5))
    (step,) = steps(source)
    assert step.decode is not None
    assert step.decode.is_measurable
    assert step.decode.confirmed
    (flat,) = steps(Source.of("night", frozen(), [BASE, FAST], confirmed(1.001)))
    assert flat.decode is not None
    assert not flat.decode.is_measurable


def test_what_the_confirm_stage_says_of_a_winners_flags_is_told_with_its_interval() -> None:
    source = Source.of("night", frozen(), [BASE, FAST], confirmed(1.5))
    source.best["profiles"][0]["worths"] = [
        {"parameter": "chunk", "ratio": 1.2, "interval": [1.1, 1.3], "needed": None, "dropped": False},
        {"parameter": "cache", "ratio": 1.001, "interval": [0.99, 1.01], "needed": None, "dropped": True},
    ]
    told = repr(worth_section(source))
    assert "/profiles/0/worths/0/ratio" in told
    assert "no measurable difference (" in told
    assert "left out of the command" in told


def test_a_study_of_which_only_the_baseline_is_known_has_a_report_too() -> None:
    told = words(BASE, record(1, {"chunk": 512}, outcome=None))
    assert "1 not finished" in told
    assert "no acceptance" in told or "nothing is told" in told


# ---- safe to open, safe to show --------------------------------------------------------------------------------------


def test_no_text_of_a_user_or_an_engine_becomes_markup() -> None:
    evil = LaunchCommand(argv=("engine", "--model", EVIL), env={"A": EVIL})
    base, fast = (one.model_copy(update={"command": evil, "note": EVIL}) for one in (BASE, FAST))
    bad = record(2, {"chunk": 128}, outcome=Outcome.CRASHED)
    bad = bad.model_copy(update={"verdict": Verdict(outcome=Outcome.CRASHED, reason=EVIL), "command": evil})
    plain = Page(html(compose("night", frozen(), [BASE, FAST, record(2, {"chunk": 128}, outcome=Outcome.CRASHED)], [])))
    page = Page(html(compose(EVIL, frozen(), [base, fast, bad], [])))
    # A command is cut into spans where its lines may break, and not every command has as many.
    assert [tag for tag, _ in page.tags if tag != "span"] == [tag for tag, _ in plain.tags if tag != "span"]
    assert evil.posix_line() in page.commands


def test_nothing_is_asked_of_the_network() -> None:
    text = page_of_night()
    for tag, attributes in Page(text).tags:
        assert not {"src", "srcset", "data", "action", "poster"} & attributes.keys(), tag
        assert tag not in ("link", "iframe", "object", "embed", "base"), tag
        assert (attributes.get("href") or "#").startswith("#"), attributes
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src 'none'" in text
    assert len(text.encode()) < 6_000_000


def test_nothing_tells_whose_machine_it_is() -> None:
    document = compose("night", night().frozen, night().searched, night().confirmed)
    for text in (html(document), markdown(document, {})):
        assert HOST not in text
        assert UUID not in text
        assert "rig" not in re.findall(r"\w+", text), "the owner of a trial's process"


def test_marks_tell_the_command_of_their_trial() -> None:
    text = page_of_night()
    hovers = json.loads(text.split('id="hovers">')[1].split("</script>")[0])
    marks = [int(str(attributes["data-h"])) for _, attributes in Page(text).tags if "data-h" in attributes]
    assert set(marks) == set(range(len(hovers)))
    commands = {r.command.posix_line() for r in (*night().searched, *night().confirmed) if r.command is not None}
    assert {hover["c"] for hover in hovers} <= commands


# ---- files -----------------------------------------------------------------------------------------------------------


def test_pictures_are_written_as_png_and_named_in_the_markdown(tmp_path: Path) -> None:
    pytest.importorskip("resvg_py")
    written = write(compose("night", frozen(), [BASE, FAST], confirmed(1.5)), tmp_path / "report")
    if written.no_pictures is not None:
        pytest.skip(written.no_pictures)
    assert {path.name for path in written.pictures} >= {"gains.png", "front.png", "decode.png", "worth.png"}
    text = written.text.read_text(encoding="utf-8")
    for path in written.pictures:
        assert path.read_bytes().startswith(b"\x89PNG")
        assert f"({path.name})" in text


def test_without_resvg_the_page_is_written_and_what_is_missing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(png_module, "find_spec", lambda _: None)
    written = write(compose("night", frozen(), [BASE, FAST], []), tmp_path / "report")
    assert written.pictures == []
    assert written.no_pictures is not None
    assert "llm-engine-tuner[report]" in written.no_pictures
    assert "![" not in written.text.read_text(encoding="utf-8")


def test_an_earlier_report_is_replaced_with_its_pictures_and_nothing_else_is(tmp_path: Path) -> None:
    document = compose("night", frozen(), [BASE, FAST], confirmed(1.5))
    written = write(document, tmp_path)
    old = tmp_path / "timeline-a-profile-that-is-gone.png"
    mine = tmp_path / "mine.png"
    for picture in (old, mine):
        picture.write_bytes(b"a picture")
    with written.text.open("a", encoding="utf-8") as file:
        file.write(f"\n![gone]({old.name})\n")
    again = write(document, tmp_path)
    assert not old.exists()
    assert mine.exists()
    assert [path.name for path in again.pictures] == [path.name for path in written.pictures]
    assert all(path.exists() for path in again.pictures)


@pytest.mark.parametrize("name", ["report.html", "report.md"])
def test_a_file_that_no_report_wrote_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("<b>mine</b>", encoding="utf-8")
    with pytest.raises(BadInput, match="not written by `tuner report`"):
        write(compose("night", frozen(), [BASE, FAST], []), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text(encoding="utf-8") == "<b>mine</b>"


def test_a_report_of_a_thousand_trials_takes_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the processor's clock: the wall's says nothing on a busy machine. PNG files take the same for any study."""
    monkeypatch.setattr(png_module, "find_spec", lambda _: None)
    many = many_trials(night(), 1000)
    started = time.process_time()
    written = write(compose("night", many.frozen, many.searched, many.confirmed), tmp_path)
    assert time.process_time() - started < 10
    assert written.page.stat().st_size < 6_000_000
