"""What an engine build knows, and in what a machine differs from the one a study was made on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import MACHINE, engine_facts, frozen, model_facts
from tuner.domain.facts import FlagCatalogue, FlagEntry

CATALOGUE = FlagCatalogue(
    entries=(
        FlagEntry(names=("-ub", "--ubatch-size"), takes_value=True),
        FlagEntry(names=("--mmap",), negations=("--no-mmap",)),
        FlagEntry(names=("--draft-max",), removed="use --spec-draft-n-max"),
        FlagEntry(names=("--spec-draft-n-max",), takes_value=True),
    )
)


def test_every_spelling_is_known_and_a_removed_one_is_only_found() -> None:
    assert all(map(CATALOGUE.knows, ("-ub", "--ubatch-size", "--mmap", "--no-mmap")))
    assert not CATALOGUE.knows("--draft-max")
    assert not CATALOGUE.knows("--ubatch")
    found = CATALOGUE.find("--draft-max")
    assert found is not None
    assert found.removed == "use --spec-draft-n-max"
    assert CATALOGUE.find("--no-mmap") is CATALOGUE.find("--mmap")
    assert CATALOGUE.find("--ubatch") is None


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [
        ("--ubatchsize", "--ubatch-size"),
        ("--nommap", "--no-mmap"),
        ("--draft-maxx", "--spec-draft-n-max"),
        ("--zzz", None),
    ],
)
def test_the_nearest_flag_is_one_that_is_accepted(wrong: str, nearest: str | None) -> None:
    assert CATALOGUE.nearest(wrong) == nearest


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"host": "lap"}, "host was desk, is lap"),
        ({"cpu": "Other CPU"}, "cpu was Some CPU, is Other CPU"),
        ({"physical_cores": 4}, "physical cores was 8, is 4"),
        ({"logical_cores": 8}, "logical cores was 16, is 8"),
        ({"memory_mib": 32000}, "memory mib was 64000, is 32000"),
        ({"gpus": ("CUDA0: A", "CUDA1: B")}, "gpus was none, is CUDA0: A, CUDA1: B"),
    ],
)
def test_another_machine_is_told_in_words(changes: dict[str, Any], told: str) -> None:
    study = frozen()
    now = MACHINE.model_copy(update=changes)
    assert study.differences(now, study.engines, study.models) == [f"machine: {told}"]


def test_another_boot_is_the_same_machine() -> None:
    study = frozen()
    assert study.differences(MACHINE.model_copy(update={"boot_id": "next"}), study.engines, study.models) == []
    # A kernel update moves the memory that it reports by a little.
    assert study.differences(MACHINE.model_copy(update={"memory_mib": 63900}), study.engines, study.models) == []


def test_another_build_or_file_is_told_for_the_one_that_changed() -> None:
    study = frozen(
        engines=(engine_facts(), engine_facts(binary="/bin/f")), models=(model_facts(), model_facts(path="/n.gguf"))
    )
    engines = (study.engines[0], engine_facts(binary="/bin/f", version="2"))
    models = (model_facts(size_bytes=5), study.models[1])
    told = study.differences(MACHINE, engines, models)
    assert told == [
        "engine: /bin/f was 1, is 2",
        "model: /m.gguf was small, 1000000000 bytes, is small, 5 bytes",
    ]
    renamed = (study.models[0], model_facts(path="/n.gguf", name="other"))
    assert len(study.differences(MACHINE, study.engines, renamed)) == 1
