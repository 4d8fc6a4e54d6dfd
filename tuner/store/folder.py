"""The files of a study.

studies/NAME/
  study.toml        what was asked; edit it before the first run
  frozen.json       what was resolved for this machine at the first run
  study.db          all trials: an Optuna storage in SQLite
  run.log           what `tuner run` said, with times
  trials/0007/      engine.log, requests.jsonl; confirm-0007 for a re-measurement, verify-0007 for a verification
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from tuner.domain.definition import StudyDefinition
from tuner.domain.errors import BadInput, MissingFile, NotPermitted
from tuner.domain.frozen import FrozenStudy
from tuner.domain.measurement import RequestFailure, RequestTiming
from tuner.domain.quality import Reply
from tuner.store.study_toml import read_definition, write_definition

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class StudyFolder:
    """One study's folder. Nothing here opens the storage."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.definition_path = path / "study.toml"
        self.frozen_path = path / "frozen.json"
        self.storage_path = path / "study.db"
        self.log_path = path / "run.log"
        self.lock_path = path / "lock"
        self.pause_path = path / "pause"
        self.done_path = path / "done"

    @property
    def name(self) -> str:
        """The study's name."""
        return self.path.name

    @classmethod
    def in_(cls, studies: Path, name: str) -> StudyFolder:
        """The folder of the study `name`, whether it exists or not.

        Raises:
            BadInput: the name could lead out of the folder, or is none.
        """
        if not _NAME.fullmatch(name):
            raise BadInput(
                f"`{name}` is no name for a study", advice="use letters, digits, dots, dashes and underscores"
            )
        return cls(studies / name)

    @classmethod
    def existing(cls, studies: Path, name: str) -> StudyFolder:
        """The folder of a study that exists.

        Raises:
            MissingFile: there is none of that name; lists those that there are.
        """
        folder = cls.in_(studies, name)
        if not folder.definition_path.is_file():
            names = list_studies(studies)
            advice = f"there are: {', '.join(names)}" if names else "make one with `tuner run --model FILE`"
            raise MissingFile(f"There is no study `{name}`", where=str(studies), advice=advice)
        return folder

    def exists(self) -> bool:
        """Whether the study was made."""
        return self.definition_path.is_file()

    def has_lost_its_storage(self) -> bool:
        """Whether trials left files but no storage: to start anew among them would mix two studies."""
        stored = self.storage_path.is_file() and self.storage_path.stat().st_size > 0
        return not stored and any((self.path / "trials").glob("*"))

    def create(self, definition: StudyDefinition) -> None:
        """Makes the folder with its `study.toml`, or leaves nothing behind.

        Raises:
            NotPermitted: the place cannot be written.
            BadInput: the definition cannot be written down.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            draft = Path(tempfile.mkdtemp(prefix=f".{self.name}-", dir=self.path.parent))
        except OSError as error:
            raise NotPermitted(
                f"Cannot write the studies folder: {error.strerror}",
                where=str(self.path.parent),
                advice="choose another one with --studies DIR or the variable TUNER_STUDIES",
            ) from error
        try:
            draft.chmod(0o755)
            write_definition(draft / "study.toml", definition)
            draft.rename(self.path)
        except OSError as error:
            raise NotPermitted(f"Cannot make the study's folder: {error}", where=str(self.path)) from error
        finally:
            # Gone already when it was renamed.
            shutil.rmtree(draft, ignore_errors=True)

    def rewrite(self, definition: StudyDefinition) -> None:
        """Replaces `study.toml` in one piece."""
        draft = self.definition_path.with_suffix(".tmp")
        write_definition(draft, definition)
        draft.replace(self.definition_path)

    def definition(self) -> StudyDefinition:
        """The content of `study.toml`. Raises MissingFile and BadInput."""
        return read_definition(self.definition_path)

    def last_lines(self, count: int) -> list[str]:
        """The end of what the run has said."""
        try:
            return self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()[-count:]
        except OSError:
            return []

    def ask_for_pause(self) -> None:
        """Has a run wait after its present trial."""
        self.pause_path.touch()

    def end_pause(self) -> bool:
        """Lets it go on; whether there was a pause."""
        there = self.pause_path.exists()
        self.pause_path.unlink(missing_ok=True)
        return there

    def note_end(self) -> None:
        """Remembers that the study has used up its budget."""
        self.done_path.write_text(self.definition_path.read_text(encoding="utf-8"), encoding="utf-8")

    def is_done(self) -> bool:
        """Whether a run came to its end with the present definition: more hours or trials open it again."""
        try:
            return self.done_path.read_text(encoding="utf-8") == self.definition_path.read_text(encoding="utf-8")
        except OSError:
            return False

    def frozen(self) -> FrozenStudy | None:
        """What was resolved at the first run; None before it.

        Raises:
            BadInput: the file is damaged, or was written by another version of the tuner.
        """
        if not self.frozen_path.is_file():
            return None
        try:
            return FrozenStudy.model_validate_json(self.frozen_path.read_bytes())
        except ValidationError as error:
            raise BadInput(
                f"frozen.json is damaged or of another version: {error.errors()[0]['msg']}",
                where=str(self.frozen_path),
                advice="start a new study under another name; this one's files are left as they are",
            ) from error

    def freeze(self, frozen: FrozenStudy) -> None:
        """Writes what was resolved, durably and in one piece."""
        draft = self.frozen_path.with_suffix(".tmp")
        with draft.open("w", encoding="utf-8") as file:
            file.write(frozen.model_dump_json(indent=1))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.frozen_path)

    def trial(self, number: int, *, confirm: bool) -> TrialFolder:
        """The folder of a trial, made if it is not there."""
        return self._trial(f"confirm-{number:04}" if confirm else f"{number:04}")

    def verification(self, number: int) -> TrialFolder:
        """The folder of a launch of `tuner verify`, made if it is not there."""
        return self._trial(f"verify-{number:04}")

    def _trial(self, name: str) -> TrialFolder:
        path = self.path / "trials" / name
        path.mkdir(parents=True, exist_ok=True)
        return TrialFolder(path, relative=str(path.relative_to(self.path)))


class TrialFolder:
    """The files of one launch."""

    def __init__(self, path: Path, relative: str) -> None:
        self.path = path
        self.relative = relative
        """Relative to the study's folder."""
        self.log_path = path / "engine.log"
        self.dry_run_log_path = path / "dry-run.log"
        self.gpu_csv_path = path / "gpu.csv"
        self._requests: IO[str] | None = None

    def log_text(self) -> str:
        """The engine's log so far; empty if there is none."""
        return _text_so_far(self.log_path)

    def dry_run_log_text(self) -> str:
        """The dry run's log so far; empty if there is none."""
        return _text_so_far(self.dry_run_log_path)

    def log_request(self, cell: str, counts: bool, answer: RequestTiming | Reply | RequestFailure) -> None:
        """Appends one line to `requests.jsonl`: the raw figures of one request."""
        if self._requests is None:
            self._requests = (self.path / "requests.jsonl").open("a", encoding="utf-8")
        line = {"cell": cell, "counts": counts, **answer.model_dump()}
        self._requests.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._requests.flush()

    def close(self) -> None:
        """Closes the files."""
        if self._requests is not None:
            self._requests.close()
            self._requests = None


def _text_so_far(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def list_studies(studies: Path) -> list[str]:
    """The names of all studies in a folder."""
    if not studies.is_dir():
        return []
    return sorted(path.parent.name for path in studies.glob("*/study.toml"))
