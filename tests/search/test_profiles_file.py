"""Profiles: those that come with the tuner, and a user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import DEPTHS
from tests.search.spaces import SHIPPED
from tuner.domain.errors import BadInput, MissingFile
from tuner.domain.workload import Content
from tuner.search.profiles_file import read_profiles, select_profiles

OWN = """
schema_version = 1
[profiles.chat]
decode = 1
contents = { prose-zh = 2 }
depths = { shallow = 1 }
[profiles.mine]
prefill = 1
context = 0.5
contents = { code = 1, tool = 1 }
depths = { deep = 1 }
least_context = 2048
streams = 3
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    return path


def test_the_shipped_profiles_speak_for_themselves() -> None:
    profiles = read_profiles(SHIPPED / "profiles.toml")
    assert "coding-agent" in profiles
    assert len(profiles) >= 4
    for name, profile in profiles.items():
        assert profile.name == name
        assert len(profile.about) > 20
        assert profile.prefill + profile.decode + profile.context == pytest.approx(1)
        assert sum(profile.contents.values()) == pytest.approx(1)
        assert sum(profile.depth_weights(DEPTHS).values()) == pytest.approx(1)


def test_a_users_profile_replaces_the_one_of_its_name_and_adds_others(own: Path) -> None:
    shipped = read_profiles(SHIPPED / "profiles.toml")
    profiles = read_profiles(SHIPPED / "profiles.toml", own)
    assert profiles.keys() == {*shipped, "mine"}
    assert profiles["chat"].contents == {Content.PROSE_ZH: 2.0}
    assert (profiles["chat"].prefill, profiles["chat"].least_context) == (0, 4096)
    assert (profiles["mine"].streams, profiles["mine"].least_context) == (3, 2048)
    assert profiles["coding-agent"] == shipped["coding-agent"]


def test_profiles_are_selected_in_the_order_they_were_named(own: Path) -> None:
    profiles = read_profiles(SHIPPED / "profiles.toml", own)
    assert [p.name for p in select_profiles(profiles, ("mine", "chat"))] == ["mine", "chat"]
    assert [p.name for p in select_profiles(profiles, ())] == [name for name in profiles if name != "own-prompts"]


def test_an_unknown_profile_is_told_with_the_nearest(own: Path) -> None:
    profiles = read_profiles(own)
    with pytest.raises(BadInput) as caught:
        select_profiles(profiles, ("chat", "chatt"))
    assert "`chatt`" in caught.value.what
    assert caught.value.advice == "did you mean `chat`? known: chat, mine"
    with pytest.raises(BadInput) as caught:
        select_profiles(profiles, ("zzzz",))
    assert caught.value.advice == "known: chat, mine"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("decode = 1", "decod = 1", "did you mean `decode`"),
        ("decode = 1", "decode = -1", "profiles.chat.decode"),
        ("decode = 1", "prefill = 0", "`chat`: at least one of prefill, decode and context"),
        ("{ shallow = 1 }", "{ shallow = 0 }", "`chat`: needs at least one entry"),
        ("{ shallow = 1 }", "{ middle = 1 }", "profiles.chat.depths"),
        ("{ prose-zh = 2 }", "{ poetry = 2 }", "profiles.chat.contents"),
        ("contents = { prose-zh = 2 }\n", "", "profiles.chat.contents"),
        ("streams = 3", "streams = 0", "profiles.mine.streams"),
    ],
)
def test_a_mistake_names_the_profile_and_the_file(own: Path, old: str, new: str, told: str) -> None:
    assert OWN.count(old) == 1
    own.write_text(OWN.replace(old, new))
    with pytest.raises(BadInput) as caught:
        read_profiles(SHIPPED / "profiles.toml", own)
    assert told in str(caught.value)
    assert str(own) in (caught.value.where or "")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MissingFile):
        read_profiles(tmp_path / "no.toml")
