"""Configurations and the commands they become."""

from __future__ import annotations

import random
import shlex
import subprocess

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tuner.domain.command import LaunchCommand
from tuner.domain.configuration import Configuration, Value

names = st.text("abc_", min_size=1, max_size=4)
values = st.one_of(
    st.booleans(), st.integers(-3, 3), st.sampled_from([0.0, 0.5, 1.0, 2.0]), st.text(max_size=3), st.just("1")
)
tables = st.dictionaries(names, values, max_size=5)


def same(one: dict[str, Value], other: dict[str, Value]) -> bool:
    """Alike in names, values and types."""
    return one.keys() == other.keys() and all(
        type(one[name]) is type(other[name]) and one[name] == other[name] for name in one
    )


@given(tables, tables)
@example({"a": 1}, {"a": True})
@example({"a": 1}, {"a": 1.0})
@example({"a": 1}, {"a": "1"})
@example({"a": False}, {"a": 0})
@example({"a": 1}, {})
@example({"a": "1", "b": "2"}, {"a": '1","b":"2'})
def test_fingerprints_are_equal_exactly_when_all_values_are(one: dict[str, Value], other: dict[str, Value]) -> None:
    fingerprints = [Configuration(values=table).fingerprint for table in (one, other)]
    assert (fingerprints[0] == fingerprints[1]) is same(one, other)


@given(tables, st.randoms(use_true_random=False))
def test_order_and_a_way_through_json_change_nothing(table: dict[str, Value], order: random.Random) -> None:
    items = list(table.items())
    order.shuffle(items)
    there = Configuration(values=dict(items))
    back = Configuration.model_validate_json(there.model_dump_json())
    assert same(back.values, table)
    assert back.fingerprint == there.fingerprint == Configuration(values=table).fingerprint


def test_differences_name_what_is_absent() -> None:
    now = Configuration(values={"same": 1, "new": True, "other": "x"})
    assert now.differences_from({"same": 1, "other": "y", "gone": 0}) == {
        "gone": (0, None),
        "new": (None, True),
        "other": ("y", "x"),
    }


argument = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


@given(
    st.lists(argument, min_size=1, max_size=4), st.dictionaries(st.from_regex(r"[A-Z_]{1,5}", fullmatch=True), argument)
)
def test_a_printed_command_reads_back_word_for_word(argv: list[str], env: dict[str, str]) -> None:
    line = LaunchCommand(argv=tuple(argv), env=env).posix_line()
    assert shlex.split(line) == [*(f"{name}={value}" for name, value in env.items()), *argv]


@settings(max_examples=15)
@given(st.lists(argument, max_size=3), argument)
@example(["$(false)", "`x`", "a b", "it's", "*", "~", "new\nline", "\\"], "$HOME 'x'")
def test_a_real_shell_runs_exactly_the_command(arguments: list[str], variable: str) -> None:
    program = ("/bin/sh", "-c", 'printf "%s\\0" "$ODD" "$@"', "sh")
    line = LaunchCommand(argv=(*program, *arguments), env={"ODD": variable}).posix_line()
    shown = subprocess.run(["/bin/sh", "-c", line], capture_output=True, timeout=30, check=True).stdout
    assert shown == b"".join(text.encode() + b"\0" for text in (variable, *arguments))
