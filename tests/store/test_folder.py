"""The files of a study."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders import definition, frozen
from tuner.domain.errors import BadInput, MissingFile, NotPermitted, TunerError
from tuner.domain.measurement import RequestFailure, RequestTiming
from tuner.store import folder as folder_module
from tuner.store.folder import StudyFolder, list_studies


def made(studies: Path, name: str = "night") -> StudyFolder:
    folder = StudyFolder.in_(studies, name)
    folder.create(definition())
    return folder


def test_a_study_is_made_with_its_definition_and_found_again(tmp_path: Path) -> None:
    studies = tmp_path / "a" / "studies"
    folder = StudyFolder.in_(studies, "night")
    assert not folder.exists()
    folder.create(definition(hours=2.0))
    assert folder.exists()
    found = StudyFolder.existing(studies, "night")
    assert found.definition() == definition(hours=2.0)
    assert found.name == "night"
    assert found.frozen() is None
    assert [path.name for path in studies.iterdir()] == ["night"]
    assert folder.path.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("name", ["night", "v1.2_a-b", "0", "a" * 200])
def test_names(tmp_path: Path, name: str) -> None:
    assert made(tmp_path, name).path == tmp_path / name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "/etc", "a\\b", "a b", "-x", ".hidden", "a\n", "a\0", "ü", "a/../../b"]
)
def test_a_name_that_could_lead_out_is_refused(tmp_path: Path, name: str) -> None:
    for reach in (StudyFolder.in_, StudyFolder.existing):
        with pytest.raises(BadInput, match="no name for a study"):
            reach(tmp_path, name)


def test_a_study_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(MissingFile) as caught:
        StudyFolder.existing(tmp_path / "none", "night")
    assert "tuner run" in (caught.value.advice or "")
    made(tmp_path, "b")
    made(tmp_path, "a")
    (tmp_path / "no-study").mkdir()
    assert list_studies(tmp_path) == ["a", "b"]
    with pytest.raises(MissingFile) as caught:
        StudyFolder.existing(tmp_path, "night")
    assert caught.value.advice == "there are: a, b"


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_place_that_cannot_be_written_is_told(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotPermitted) as caught:
        made(tmp_path / "file" / below)
    assert "--studies" in (caught.value.advice or "")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), BadInput("not text"), KeyboardInterrupt()])
def test_whatever_goes_wrong_on_the_way_leaves_nothing_half_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fails(path: Path, _: object) -> None:
        path.write_text("half a de")
        raise error

    monkeypatch.setattr(folder_module, "write_definition", fails)
    with pytest.raises((TunerError, KeyboardInterrupt)):
        made(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert list_studies(tmp_path) == []


def test_a_study_that_is_there_is_never_overwritten(tmp_path: Path) -> None:
    made(tmp_path)
    with pytest.raises(NotPermitted):
        StudyFolder.in_(tmp_path, "night").create(definition(hours=1.0))
    assert StudyFolder.existing(tmp_path, "night").definition() == definition()
    assert [path.name for path in tmp_path.iterdir()] == ["night"]
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(NotPermitted):
        made(tmp_path, "taken")
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_definition_is_replaced_in_one_piece(tmp_path: Path) -> None:
    folder = made(tmp_path)
    folder.rewrite(definition(trials=9))
    assert folder.definition().trials == 9
    assert [path.name for path in folder.path.iterdir()] == ["study.toml"]


def test_what_was_frozen_comes_back_whole(tmp_path: Path) -> None:
    folder = made(tmp_path)
    study = frozen(notes=("ünï\n",), definition=definition(env={"A": "\u2028"}))
    folder.freeze(study)
    assert folder.frozen() == study
    folder.freeze(frozen())
    assert folder.frozen() == frozen()
    assert {path.name for path in folder.path.iterdir()} == {"study.toml", "frozen.json"}


@pytest.mark.parametrize("content", ["", "{", "{}", '{"schema_version": 1}'])
def test_a_damaged_file_is_told_and_left_as_it_is(tmp_path: Path, content: str) -> None:
    folder = made(tmp_path)
    folder.frozen_path.write_text(content)
    with pytest.raises(BadInput) as caught:
        folder.frozen()
    assert caught.value.where == str(folder.frozen_path)
    assert folder.frozen_path.read_text() == content


def test_every_launch_has_its_folder(tmp_path: Path) -> None:
    folder = made(tmp_path)
    search, confirm = folder.trial(7, confirm=False), folder.trial(7, confirm=True)
    assert (search.relative, confirm.relative) == ("trials/0007", "trials/confirm-0007")
    assert search.path.is_dir()
    assert confirm.path.is_dir()
    assert search.log_text() == ""
    search.log_path.write_bytes(b"odd \xff bytes\n")
    assert folder.trial(7, confirm=False).log_text() == "odd \ufffd bytes\n"


def test_requests_are_on_disk_as_soon_as_they_are_logged(tmp_path: Path) -> None:
    trial = made(tmp_path).trial(1, confirm=False)
    timing = RequestTiming(
        prompt_tokens=9, cached_tokens=0, completion_tokens=2, prefill_ms=1.0, decode_ms=None, ttft_ms=2.0,
        total_ms=3.0, text="日本\n\u2028",
    )  # fmt: skip
    trial.log_request("code@512", True, timing)
    path = trial.path / "requests.jsonl"
    (line,) = path.read_text(encoding="utf-8").strip("\n").split("\n")
    assert json.loads(line) == {"cell": "code@512", "counts": True, **timing.model_dump(mode="json")}
    trial.close()
    trial.log_request("code@512", False, RequestFailure(kind="stalled", detail="silent"))
    trial.close()
    trial.close()
    assert [json.loads(line)["counts"] for line in path.read_text(encoding="utf-8").strip("\n").split("\n")] == [
        True,
        False,
    ]
