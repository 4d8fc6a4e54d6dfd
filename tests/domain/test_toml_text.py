"""Every mistake in a TOML text is named with its line and the nearest key."""

from __future__ import annotations

import pytest

from tuner.domain.errors import BadInput
from tuner.domain.toml_text import parse_toml
from tuner.search.profiles_file import ProfilesFile
from tuner.search.space_file import SpaceFile

SPACE = """\
schema_version = 1
engine = "llama_server"

[parameters.first]
flag = "--first"
choices = [1, { value = 2, requires = "machine.gpus > 0" }]
default = 1
about = "the first"

[parameters.second]
flag = "--second"
low = 1
high = 8
default = 3
about = "the second"

[[rules]]
require = "first <= second"
because = "so it is"

[[rules]]
require = "first != 2"
because = "no reason"

[[seeds]]
name = "one"
because = "it is known"
values = { first = 2 }
"""


def broken(old: str, new: str) -> str:
    assert SPACE.count(old) == 1
    return SPACE.replace(old, new)


def test_the_text_itself_is_right() -> None:
    assert list(parse_toml(SPACE, SpaceFile, where="f").parameters) == ["first", "second"]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (broken("low = 1", "low = "), 12, "not valid TOML"),
        (broken('engine = "llama_server"\n', ""), None, "engine"),
        (broken("schema_version = 1", "schema_version = 2"), 1, "schema_version"),
        (broken('flag = "--second"', 'flagg = "--second"'), 11, "did you mean `flag`"),
        (broken('flag = "--second"', "flag = 7"), 11, "parameters.second.flag"),
        (broken('about = "the first"\n', ""), 4, "parameters.first.about"),
        (broken('about = "the second"', 'about = ""'), 15, "parameters.second.about"),
        (broken('because = "no reason"', 'becuase = "no reason"'), 23, "did you mean `because`"),
        (broken('because = "no reason"\n', ""), 21, "because"),
        (broken("values = { first = 2 }", "values = { first = [2] }"), 28, "seeds"),
        (broken('values = { first = 2 }', 'values = 2'), 28, "seeds"),
        (broken("[[seeds]]", "[[sedes]]"), 25, "did you mean `seeds`"),
        (broken("requires =", "requirs ="), 6, "did you mean `requires`"),
        (broken("default = 3", "default = [3]"), 14, "parameters.second.default"),
        (SPACE + "\n[something.else]\n", 30, "known keys"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(text: str, line: int | None, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_toml(text, SpaceFile, where="my.toml")
    told = str(caught.value)
    assert words in told
    if "not valid TOML" in words:
        assert f"line {line}" in told
        assert caught.value.where == "my.toml"
    else:
        assert caught.value.where == (f"my.toml, line {line}" if line else "my.toml")


@pytest.mark.parametrize("place", ["choices", "default", "values"])
def test_a_place_holds_names_of_the_file_only(place: str) -> None:
    """The kinds of value that were tried are no keys that a person could look for."""
    text = {
        "choices": broken("[1, {", "[[1], {"),
        "default": broken("default = 3", "default = [3]"),
        "values": broken("{ first = 2 }", "{ first = [2] }"),
    }[place]
    with pytest.raises(BadInput) as caught:
        parse_toml(text, SpaceFile, where="f")
    named = caught.value.what.split(":")[0]
    assert set(named.split(".")) <= {"parameters", "first", "second", "choices", "0", "default", "seeds", "values"}


def test_a_word_of_a_value_or_a_comment_is_no_key() -> None:
    text = """\
schema_version = 1
# [profiles.me] about = 1
[profiles.you]
about = "prefill = 3"
contents = { code = 1 }
depths = { deep = 1 }

[profiles.me]
contents = { code = 1 }
depths = { deep = 1 }
prefill = -1
"""
    with pytest.raises(BadInput) as caught:
        parse_toml(text, ProfilesFile, where="p")
    assert caught.value.where == "p, line 11"
