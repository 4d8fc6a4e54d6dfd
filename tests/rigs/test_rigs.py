"""Every rig of this folder: it loads, says what is fact and what is guess, and keeps its measured points."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.fake_engine.rig import Rig
from tests.fake_engine.rig_keys import FREE_TABLES, KEYS, SPECULATION_KEYS, check_rig
from tests.fake_engine.rig_tables import read_rig
from tests.fake_engine.sglang_rig import load_rig
from tests.rigs.measured import FOLDER, Point, points

README = (FOLDER / "README.md").read_text(encoding="utf-8")
FILES = sorted(FOLDER.glob("*.toml"))
LOADED = {path.stem: load_rig(path) for path in FILES}
MEASURED = sorted(name for name, rig in LOADED.items() if rig.measured)


@pytest.mark.parametrize("name", MEASURED)
def test_a_rig_keeps_every_point_that_was_measured_on_its_machine(name: str) -> None:
    found = list(points(LOADED[name]))
    assert found
    off = [f"{p.what}: {p.measured} measured, {p.modelled} here, {p.error:+.1%}" for p in found if not p.holds]
    assert off == []


@pytest.mark.parametrize("name", MEASURED)
def test_fact_and_guess_are_told_apart(name: str) -> None:
    text = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    head = text.split("\n\n")[0]
    for word in ("# Measured: ", "# Fitted to it: ", "# Assumed: "):
        assert word in head
    for table in LOADED[name].measured:
        assert table["source"] if "unmodelled" not in table else table["unmodelled"]
        assert "unmodelled" in table or {"is", "ratio", "between"} & table.keys(), table
    for cliff in LOADED[name].cliffs:
        assert cliff["because"].startswith(("measured: ", "assumed: "))


def test_a_point_that_is_off_is_seen() -> None:
    """The check itself: a rig whose decode is a tenth faster than measured misses its points."""
    rig = LOADED["rtx5090"]
    fast = Rig(**{**vars(rig), "decode": rig.decode | {"tps": 1.1 * rig.decode["tps"]}})
    assert [p for p in points(fast) if not p.holds]
    assert not Point("x", 100.0, 94.0, 0.05, "").holds
    assert not Point("x", "OK", "CRASHED", 0.05, "").holds
    assert not Point("x", "1..2", 2.2, 0.05, "", 1.0, 2.0).holds


def test_every_key_is_explained_and_every_explained_key_is_read() -> None:
    explained = set()
    for line in README.splitlines():
        if line.startswith("| `"):
            explained |= set(re.findall(r"`([a-z_0-9]+)`", line.split("|")[1]))
    known = {"extends", "engine", "about", *SPECULATION_KEYS, *(key for keys in KEYS.values() for key in keys)}
    assert explained == known
    for table in (*KEYS, *FREE_TABLES):
        assert f"`[{table}]`" in README or f"`[[{table}]]`" in README


def test_every_key_that_a_rig_uses_is_one_that_the_simulation_reads() -> None:
    source = "".join(
        (FOLDER.parent / place).read_text(encoding="utf-8")
        for place in (
            "fake_engine/rig.py",
            "fake_engine/sglang_plan.py",
            "fake_engine/slots.py",
            "rigs/measured.py",
            "search_benchmark/simulated.py",
        )
    )
    fields = {"name", "description", "total_mib", "free_mib", "speed", "bus_id", "card"}
    for key in {key for keys in KEYS.values() for key in keys} | SPECULATION_KEYS:
        by_phase = re.fullmatch(r"(mixed|spill)_(prefill|decode)", key)
        assert key in fields or f'"{key}"' in source or key in TOLD_ONLY or by_phase, key


TOLD_ONLY = {"goal", "because"}
"""For people; nothing is computed from them."""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('extends = "default.toml"\n[decode]\ntsp = 3.0', "[decode] has no key `tsp`; did you mean `tps`?"),
        ('extends = "default.toml"\n[decoded]\ntps = 3.0', "there is no table [decoded]; did you mean `decode`?"),
        (
            'extends = "default.toml"\n[speculation.draft-mtp]\nacept = 3.0',
            "[speculation.draft-mtp] has no key `acept`; did you mean `accept`?",
        ),
        ("[machine]\ncores = 8", "[machine] needs host_mib; `extends` another rig to have them"),
    ],
)
def test_mistakes_in_a_rig_are_told(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "rig.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=re.escape(told)):
        Rig.load(file)


def test_what_a_rig_extends_it_takes_over_but_for_what_is_its_parents_own(tmp_path: Path) -> None:
    child = tmp_path / "child.toml"
    child.write_text('extends = "r9700.toml"\n[prefill]\ntps = 1.0')
    values, parent = read_rig(child), read_rig(FOLDER / "r9700.toml")
    check_rig(child, values)
    assert values["prefill"] == parent["prefill"] | {"tps": 1.0}
    assert not {"measured", "cliffs", "base", "study", "about"} & values.keys()
    assert "measured" in tomllib.loads((FOLDER / "r9700.toml").read_text())


# ---- SGLang's own flags ----------------------------------------------------------------------------------------------

POOLED = LOADED["rtx-32gb-sglang"]
NEXTN = {"kv_cache_dtype": "fp8_e4m3", "speculative_algorithm": "NEXTN"}


def test_too_small_a_fraction_and_too_large_a_one_fail_in_opposite_ways() -> None:
    failures = [POOLED.measure(NEXTN | {"mem_fraction_static": share}).failure for share in (0.6, 0.88, 0.99)]
    assert failures == ["kv", None, "compute"]


def test_a_chunk_that_does_not_fit_beside_the_share_is_out_of_memory_while_a_prompt_is_read() -> None:
    roomy, tight = (POOLED.measure(NEXTN | {"mem_fraction_static": share}) for share in (0.88, 0.965))
    assert (roomy.outcome, tight.outcome) == ("OK", "OK")
    assert roomy.max_depth > 100_000 > tight.max_depth


def test_more_drafts_are_faster_and_leave_less_of_the_pool() -> None:
    made = [POOLED.measure(NEXTN | {"speculative_num_steps": steps}) for steps in (1, 3, 5)]
    speeds = [one.decode_tps("code") for one in made]
    contexts = [one.plan.context for one in made]
    assert speeds == sorted(speeds)
    assert contexts == sorted(contexts, reverse=True)


def test_an_algorithm_that_the_rig_does_not_have_is_not_set_up() -> None:
    assert POOLED.measure({"speculative_algorithm": "NGRAM"}).plan.spec_failed
    assert not POOLED.measure({"speculative_algorithm": "none"}).plan.spec_failed
