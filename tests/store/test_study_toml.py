"""`study.toml` holds any definition, and a person can edit it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import definition
from tuner.domain.definition import StudyDefinition
from tuner.domain.errors import BadInput, MissingFile
from tuner.domain.sampling import Sampling
from tuner.store.study_toml import read_definition, write_definition

odd = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=12),
    st.sampled_from(
        ['"', "'", '"""', "'''", "\\", "\\u0041", "\n", "\r\n", "\t", "\x00", "\x7f", "\x1b[1m", "\u2028", "\ufeff",
         "a = 1", "# no comment", "[table]", "/with space/m.gguf", "日本.gguf", "😀", "-ot", ".ffn_.*_exps.=CPU", ""]
    ),
)  # fmt: skip
numbers = st.floats(min_value=0, exclude_min=True, allow_nan=False, allow_infinity=False)
definitions = st.builds(
    StudyDefinition,
    engine=odd,
    binary=st.lists(odd, min_size=1, max_size=2).map(tuple),
    model=st.lists(odd, min_size=1, max_size=2).map(tuple),
    space=st.none() | odd,
    fixed=st.lists(odd, max_size=3).map(tuple),
    env=st.dictionaries(odd, odd, max_size=3),
    pasted=st.none() | st.lists(odd, max_size=3).map(tuple),
    profiles=st.lists(odd, max_size=2).map(tuple),
    profiles_file=st.none() | odd,
    ctx_min=st.none() | st.integers(1, 10**9),
    depths=st.lists(st.integers(1, 10**6), max_size=8).map(tuple),
    prompts=st.none() | odd,
    sampling=st.builds(
        Sampling,
        temperature=st.floats(0.001, 2),
        top_p=st.none() | st.floats(0.001, 1),
        top_k=st.none() | st.integers(0, 100),
        seed=st.none() | st.integers(0, 2**32 - 1),
    )
    | st.just(Sampling()),
    predict_tokens=st.none() | st.integers(2, 10**6),
    repeats=st.integers(1, 100),
    decode_limit_s=numbers,
    hours=st.none() | numbers,
    trials=st.none() | st.integers(1, 10**9),
    confirm_rounds=st.integers(2, 99),
)


@given(definitions)
def test_every_definition_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, given_one: StudyDefinition
) -> None:
    path = tmp_path_factory.getbasetemp() / "round.toml"
    write_definition(path, given_one)
    assert read_definition(path) == given_one


def test_every_key_is_there_with_a_comment_and_one_without_a_value_can_be_filled_in(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    write_definition(path, definition())
    text = path.read_text()
    lines = text.splitlines()
    for name in StudyDefinition.model_fields:
        place = next(i for i, line in enumerate(lines) if line.startswith((f"{name} =", f"# {name} =", f"[{name}]")))
        assert lines[place - 1].startswith("# ")
        assert len(lines[place - 1]) > 15
    assert "# hours =" in lines
    path.write_text(text.replace("# hours =", "hours = 2").replace("# pasted =", 'pasted = ["-c", "4096"]'))
    filled = read_definition(path)
    assert (filled.hours, filled.pasted) == (2.0, ("-c", "4096"))
    assert tomllib.loads(text)["env"] == {}


def test_nothing_pasted_differs_from_an_empty_command(tmp_path: Path) -> None:
    for pasted in (None, ()):
        write_definition(tmp_path / "s.toml", definition(pasted=pasted))
        assert read_definition(tmp_path / "s.toml").pasted == pasted


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"engine =": "engin ="}, "did you mean `engine`"),
        ({"repeats = 1": "repeats = 0"}, "repeats"),
        ({"# hours =": "hours = -1"}, "hours"),
        ({"# hours =": "hours = inf"}, "hours"),
        ({"# hours =": "hours = nan"}, "hours"),
        ({"decode_limit_s = 60.0": "decode_limit_s = inf"}, "decode_limit_s"),
        ({"depths = []": "depths = [1, 2, 3, 4, 5, 6, 7, 8, 9]"}, "depths"),
        ({"# ctx_min =": 'ctx_min = "much"'}, "ctx_min"),
    ],
)
def test_a_mistake_made_by_hand_is_told_with_its_line(tmp_path: Path, changes: dict[str, str], told: str) -> None:
    path = tmp_path / "study.toml"
    write_definition(path, definition())
    text = path.read_text()
    for old, new in changes.items():
        assert text.count(f"\n{old}") == 1
        text = text.replace(f"\n{old}", f"\n{new}")
    path.write_text(text)
    wrong = 1 + next(i for i, line in enumerate(text.splitlines()) if line.startswith(tuple(changes.values())))
    with pytest.raises(BadInput) as caught:
        read_definition(path)
    assert told in str(caught.value)
    assert caught.value.where == f"{path}, line {wrong}"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(MissingFile):
        read_definition(tmp_path / "study.toml")
    (tmp_path / "study.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(MissingFile):
        read_definition(tmp_path / "study.toml")


@pytest.mark.parametrize("place", [{"model": ("/m\udcff.gguf",)}, {"env": {"A": "\udc80"}}, {"fixed": ("\ud800",)}])
def test_a_name_that_is_no_text_is_refused_in_words(tmp_path: Path, place: dict[str, Any]) -> None:
    """File names are bytes; TOML is UTF-8."""
    with pytest.raises(BadInput, match="UTF-8"):
        write_definition(tmp_path / "study.toml", definition(**place))
