"""The little language of search space files."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.domain.configuration import Value
from tuner.domain.errors import BadInput
from tuner.search.expressions import evaluate, parse

VALUES: dict[str, Value | None] = {
    "one": 1, "two": 2, "half": 0.5, "on": True, "off": False, "spec": "draft-mtp,ngram-mod", "word": "none",
    "digit": "2", "empty": "", "lost": None, "model.layers": 48, "dash-ed": 3,
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("one == 1", True),
        ("one != 1", False),
        ("one < two", True),
        ("two <= two", True),
        ("two > two", False),
        ("two >= one", True),
        ("half < 0.75", True),
        ("half == 5e-1", True),
        ("one > -3", True),
        ("one>=1 and two<3", True),
        ("model.layers > 32", True),
        ("dash-ed == 3", True),
        ("on", True),
        ("off", False),
        ("empty", False),
        ("on == true", True),
        ("off == false", True),
        ("word == none", True),
        ('word == "none"', True),
        ("word != none", False),
        ("word == nothing", False),
        ("spec contains ngram-mod", True),
        ('spec contains ","', True),
        ("word contains draft-", False),
        ('digit == "2"', True),
        ("digit == 2", False),
        ('one == "1"', False),
        ("digit < 3", False),
        ("one == 1 or lost", True),
        ("one == 2 and lost", False),
        ("one == 2 or two == 2 and one == 1", True),
        ("(one == 1 or two == 2) and one == 2", False),
        ("one == 1 or two == 2 and one == 2", True),
        ("((on))", True),
        ("off or off or on", True),
        ("on and on and off", False),
    ],
)
def test_truth(text: str, truth: bool) -> None:
    assert evaluate(text, VALUES) is truth


@pytest.mark.parametrize(
    "text",
    [
        "lost", "lost == 1", "lost != 1", "one == lost", "one < lost", "lost or off", "lost and on", "lost contains a",
        "strange == 1", "one < strange", "one >= strange", "off or strange",
    ],
)  # fmt: skip
def test_what_is_not_known_is_neither_true_nor_false(text: str) -> None:
    assert evaluate(text, VALUES) is None


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("", "its end"),
        ("   ", "its end"),
        ("one ==", "nothing to its right"),
        ("one == == 2", "nothing to its right"),
        ("== 2", "=="),
        ("one and", "its end"),
        ("and one", "and"),
        ("one two", "two"),
        ("one == 2 two", "two"),
        ("(one == 2", "not closed"),
        ("one == 2)", ")"),
        ("()", ")"),
        ("one = 2", "= 2"),
        ("one & two", "& two"),
        ("one == (2)", "nothing to its right"),
        ("not one", "one"),
        ('word == "none', '"none'),
        ("__import__('os')", "'os'"),
    ],
)
def test_what_is_no_expression_is_told_where_it_breaks(text: str, near: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse(text)
    assert f"`{text}`" in caught.value.what
    assert near in caught.value.what.split("near: ")[1]


@given(st.text('ab=<>!()" .,1andorcontains', max_size=25))
def test_any_text_is_an_expression_or_named_as_none(text: str) -> None:
    try:
        parsed = parse(text)
    except BadInput:
        return
    assert parsed.evaluate(VALUES) in (True, False, None)


def test_names_are_all_that_must_exist() -> None:
    """A word can be compared with anything; what is greater or less can only be compared with a number or a name."""
    assert parse("a == b and (c or d contains e) or f <= g and h > 3").names() == {"a", "c", "d", "f", "g", "h"}


names = st.sampled_from(["a", "b", "c"])
Tree = tuple[str, Callable[[dict[str, bool | None]], bool | None]]


def _join(word: str, parts: list[Tree]) -> Tree:
    def truth(values: dict[str, bool | None]) -> bool | None:
        results = [part[1](values) for part in parts]
        if word == "and":
            return False if False in results else None if None in results else True
        return True if True in results else None if None in results else False

    return "(" + f" {word} ".join(part[0] for part in parts) + ")", truth


trees = st.recursive(
    names.map(lambda name: (name, lambda values: values[name])),
    lambda inner: st.builds(_join, st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3)),
    max_leaves=8,
)


@given(trees, st.fixed_dictionaries({name: st.sampled_from([True, False, None]) for name in "abc"}))
def test_three_valued_logic_is_kleenes(tree: Tree, values: dict[str, bool | None]) -> None:
    text, truth = tree
    assert evaluate(text, values) is truth(values)


@given(st.lists(st.sampled_from(["and", "or"]), max_size=5), st.data())
def test_and_binds_tighter_than_or(words: list[str], data: st.DataObject) -> None:
    values = {f"x{i}": data.draw(st.booleans()) for i in range(len(words) + 1)}
    text = "x0" + "".join(f" {word} x{i + 1}" for i, word in enumerate(words))
    assert evaluate(text, values) is eval(text, {}, values)


numbers = st.one_of(st.integers(-99, 99), st.sampled_from([0.5, -1.25, 64.0]))


@given(numbers, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), numbers)
def test_numbers_compare_as_numbers_do(left: Value, operator: str, right: Value) -> None:
    expected = eval(f"{left} {operator} {right}")
    assert evaluate(f"x {operator} {right}", {"x": left}) is expected
    assert evaluate(f"x {operator} y", {"x": left, "y": right}) is expected


@given(st.text(st.characters(exclude_characters='"', codec="utf-8"), max_size=10), st.text("ab,-", max_size=6))
def test_quoted_text_is_taken_as_it_is(text: str, other: str) -> None:
    assert evaluate(f'x == "{text}"', {"x": text, text: "another"}) is True
    assert evaluate(f'x != "{text}"', {"x": other}) is (other != text)
    assert evaluate(f'x contains "{text}"', {"x": other + text + other}) is True
