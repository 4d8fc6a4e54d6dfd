"""optuna-dashboard on a study: it looks at a view of the storage, and can change nothing in it.

optuna-dashboard 0.21 reads constraints under the key that samplers wrote before Optuna 5 had named constraints. The
view gives it both: what is infeasible shows as that. Records are shown as the few facts that a person looks for.
"""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Container
from typing import Any, NoReturn

from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.study._frozen import FrozenStudy
from optuna.trial import FrozenTrial, TrialState

from tuner.domain.errors import MissingFile
from tuner.domain.record import TrialRecord
from tuner.search.pool import CONSTRAINTS, OBJECTIVES
from tuner.search.records import RECORD

_OLD_KEY = "constraints"
_METRIC_NAMES = "study:metric_names"
"""Where Optuna keeps what `Study.set_metric_names` was told."""


def serve_dashboard(storage: BaseStorage, host: str, port: int) -> None:
    """Serves optuna-dashboard until Ctrl-C.

    Raises:
        MissingFile: it is not installed.
    """
    if importlib.util.find_spec("optuna_dashboard") is None:
        raise MissingFile("optuna-dashboard is not installed", advice="pip install 'llm-engine-tuner[dashboard]'")
    from optuna_dashboard import run_server

    run_server(StudyView(storage), host=host, port=port)


class StudyView(BaseStorage):
    """A storage as it is, for reading alone, with feasibility where older programs look for it."""

    def __init__(self, storage: BaseStorage) -> None:
        self._storage = storage

    def get_study_id_from_name(self, study_name: str) -> int:
        return self._storage.get_study_id_from_name(study_name)

    def get_study_name_from_id(self, study_id: int) -> str:
        return self._storage.get_study_name_from_id(study_id)

    def get_study_directions(self, study_id: int) -> list[StudyDirection]:
        return self._storage.get_study_directions(study_id)

    def get_study_user_attrs(self, study_id: int) -> dict[str, Any]:
        return self._storage.get_study_user_attrs(study_id)

    def get_study_system_attrs(self, study_id: int) -> dict[str, Any]:
        return self._named(self._storage.get_study_system_attrs(study_id), study_id)

    def get_all_studies(self) -> list[FrozenStudy]:
        studies = copy.deepcopy(self._storage.get_all_studies())
        for study in studies:
            study.system_attrs = self._named(study.system_attrs, study._study_id)
        return studies

    def get_trial(self, trial_id: int) -> FrozenTrial:
        return _shown(self._storage.get_trial(trial_id))

    def get_all_trials(
        self,
        study_id: int,
        deepcopy: bool = True,  # noqa: ARG002 - every trial is a copy
        states: Container[TrialState] | None = None,
    ) -> list[FrozenTrial]:
        return [_shown(trial) for trial in self._storage.get_all_trials(study_id, deepcopy=False, states=states)]

    def _named(self, attrs: dict[str, Any], study_id: int) -> dict[str, Any]:
        objectives = len(self._storage.get_study_directions(study_id))
        return {_METRIC_NAMES: list(OBJECTIVES), **attrs} if objectives == len(OBJECTIVES) else attrs

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise PermissionError("the dashboard only reads a study of the tuner")

    create_new_study = delete_study = set_study_user_attr = set_study_system_attr = _refuse
    create_new_trial = set_trial_param = set_trial_state_values = set_trial_intermediate_value = _refuse
    set_trial_user_attr = set_trial_system_attr = _refuse


def _shown(trial: FrozenTrial) -> FrozenTrial:
    shown = copy.copy(trial)
    missed = trial.constraints
    if missed:
        values = [missed[name] for name in (*CONSTRAINTS, *sorted(missed.keys() - set(CONSTRAINTS))) if name in missed]
        shown._system_attrs = {**trial._system_attrs, _OLD_KEY: values}
    text = trial.user_attrs.get(RECORD)
    if text is not None:
        kept = {name: value for name, value in trial.user_attrs.items() if name != RECORD}
        shown._user_attrs = {**kept, **_facts(TrialRecord.model_validate_json(text))}
    return shown


def _facts(record: TrialRecord) -> dict[str, str | float | None]:
    verdict = record.verdict
    return {
        "outcome": verdict.outcome.value if verdict else "OPEN",
        "reason": verdict.reason if verdict else None,
        "feasible": str(verdict.feasible) if verdict else None,
        "stage": record.stage.value,
        "note": record.note,
        "seconds": record.seconds,
        "command": record.command.posix_line() if record.command else None,
        "folder": record.folder,
    }
