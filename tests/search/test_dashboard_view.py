"""What optuna-dashboard is shown: feasibility under the key that it reads, and nothing that it could change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import measurement, record
from tests.search.spaces import parameter, space
from tuner.domain.configuration import Configuration
from tuner.domain.record import Stage, TrialRecord
from tuner.domain.verdict import Outcome
from tuner.search.dashboard import StudyView
from tuner.search.pool import TrialPool

SMALL = space(parameter("a", [1, 2]), parameter("b", ["x", "y"]))


@pytest.fixture
def view(tmp_path: Path) -> StudyView:
    pool = TrialPool.open_file(tmp_path / "study.db", "s", SMALL)
    for outcome, missed in ((Outcome.OK, {}), (Outcome.OUT_OF_MEMORY, {"outcome": 1.0, "memory": 300.0})):
        proposal = pool.ask()
        assert proposal is not None
        done = _record(proposal.number, proposal.configuration, outcome, missed)
        pool.save(done)
        pool.tell(done, (100.0, 50.0, 4096.0) if outcome is Outcome.OK else None)
    return StudyView(pool.storage)


def _record(number: int, configuration: Configuration, outcome: Outcome, missed: dict[str, float]) -> TrialRecord:
    made = record(number, {}, measurement(), stage=Stage.SEARCH, outcome=outcome, constraints=missed)
    return made.model_copy(update={"configuration": configuration})


def test_feasibility_lies_under_the_older_key_and_the_facts_can_be_read(view: StudyView) -> None:
    study = view.get_study_id_from_name("search")
    fine, missed = view.get_all_trials(study)
    assert fine._system_attrs["constraints"] == [0.0, 0.0, 0.0, 0.0]
    assert missed._system_attrs["constraints"] == [1.0, 300.0, 0.0, 0.0]
    assert (fine.user_attrs["outcome"], fine.user_attrs["feasible"]) == ("OK", "True")
    assert (missed.user_attrs["outcome"], missed.user_attrs["reason"]) == ("OUT_OF_MEMORY", "because")
    assert "record" not in fine.user_attrs
    assert view.get_trial(fine._trial_id)._system_attrs == fine._system_attrs
    (named,) = [one for one in view.get_all_studies() if one.study_name == "search"]
    assert named.system_attrs["study:metric_names"] == ["prefill_tps", "decode_tps", "context_tokens"]


def test_nothing_can_be_changed_through_it(view: StudyView) -> None:
    study = view.get_study_id_from_name("search")
    trial = view.get_all_trials(study)[0]._trial_id
    for change in (
        lambda: view.delete_study(study), lambda: view.set_study_system_attr(study, "note", "x"),
        lambda: view.set_trial_user_attr(trial, "a", 1), lambda: view.create_new_trial(study),
    ):  # fmt: skip
        with pytest.raises(PermissionError):
            change()
    assert len(view.get_all_trials(study)) == 2


def test_the_storage_itself_is_left_as_it_is(view: StudyView) -> None:
    study = view.get_study_id_from_name("search")
    view.get_all_trials(study)
    assert all("constraints" not in trial._system_attrs for trial in view._storage.get_all_trials(study))
