"""Whether a study may go on here: as it was, as one of several machines, or to be verified after an update."""

from __future__ import annotations

from tuner.domain.definition import StudyDefinition
from tuner.domain.errors import BadInput, StudyMismatch
from tuner.domain.frozen import FrozenStudy
from tuner.study.create import Surveyed


def continued(
    frozen: FrozenStudy, definition: StudyDefinition, surveyed: Surveyed, *, accept_changes: bool
) -> FrozenStudy:
    """The study as it goes on, checked against what is asked and what is there now.

    Raises:
        BadInput: the frozen study names a program that nobody asked for.
        StudyMismatch: the machine, the model or the engine build is another one now, or study.toml was edited.
    """
    programs = {one for p in frozen.space.parameters if p.target == "binary" for one in p.choices or ()}
    if not programs <= set(definition.binary):
        raise BadInput(
            "frozen.json names a program that study.toml does not",
            advice="it was changed by hand; start a new study with --name",
        )
    changes = frozen.definition.changes_to(definition)
    if changes:
        raise StudyMismatch(
            "study.toml was changed after the first trial:\n  " + "\n  ".join(changes),
            advice="undo it, or start a new study with --name; only hours, trials, rounds and sampler may change",
        )
    differences = frozen.differences(surveyed.machine, surveyed.engines, surveyed.models)
    if differences and not accept_changes:
        raise StudyMismatch(
            "The study was made under other conditions:\n  " + "\n  ".join(differences),
            advice="start a new study with --name, or continue this one with --accept-changes",
        )
    return _as_it_is_here(frozen, definition, surveyed)


def joined(first: FrozenStudy, here: FrozenStudy, *, accept_changes: bool) -> FrozenStudy:
    """The study of the first of several machines, as this one works on it.

    Raises:
        StudyMismatch: this machine, its engine, its model or what it was asked differs.
    """
    changes = first.definition.changes_to(here.definition)
    if changes:
        raise StudyMismatch(
            "The storage holds a study of this name with other settings:\n  " + "\n  ".join(changes),
            where=here.definition.storage,
            advice="join it by its name alone (`tuner run NAME --storage ...`), or give this one another --name",
        )
    differences = first.differences(here.machine, here.engines, here.models, same_host=False)
    if differences and not accept_changes:
        raise StudyMismatch(
            f"This machine is not like {first.machine.host}, which the study was made on:\n  "
            + "\n  ".join(differences),
            where=here.definition.storage,
            advice="only identical machines share a study; make both alike, or join with --accept-changes",
        )
    own = {name: getattr(here, name) for name in ("study_id", "definition", "machine", "engines", "models")}
    return first.model_copy(update=own)


def updated(
    frozen: FrozenStudy, definition: StudyDefinition, surveyed: Surveyed, *, accept_changes: bool
) -> FrozenStudy:
    """The study with the engine, the driver and the devices as they are now, which is what a verification is for.

    Raises:
        StudyMismatch: the machine or the model is another one: no figure could be compared.
    """
    alike = surveyed.machine.model_copy(update={"cards": frozen.machine.cards, "gpus": frozen.machine.gpus})
    differences = frozen.differences(alike, frozen.engines, surveyed.models)
    if differences and not accept_changes:
        raise StudyMismatch(
            "The study was made on another machine or with another model:\n  " + "\n  ".join(differences),
            advice="start a new study with --name, or compare nevertheless with --accept-changes",
        )
    return _as_it_is_here(frozen, definition, surveyed)


def _as_it_is_here(frozen: FrozenStudy, definition: StudyDefinition, surveyed: Surveyed) -> FrozenStudy:
    return frozen.model_copy(
        update={
            "definition": definition,
            "machine": surveyed.machine,
            "engines": surveyed.engines,
            "models": surveyed.models,
        }
    )
