"""Completion, rules and random values, without launching anything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.search.spaces import parameter, space, spaces, values_of
from tuner.domain.errors import BadInput
from tuner.domain.space import SearchSpace
from tuner.search.expressions import evaluate
from tuner.search.space import complete, random_values, violations

CHAIN = space(
    parameter("spec", ["none", "draft"]),
    parameter("depth", [3, 5], when="spec == draft"),
    parameter("sure", [0.0, 0.5], when="depth > 4"),
    parameter("batch", [512, 256]),
    parameter("chunk", [128, 512], when="batch >= 512"),
)


def test_what_is_switched_off_is_absent_and_so_is_what_depends_on_it() -> None:
    assert complete(CHAIN, {}).values == {"spec": "none", "batch": 512, "chunk": 128}
    assert complete(CHAIN, {"spec": "draft"}).values == {"spec": "draft", "depth": 3, "batch": 512, "chunk": 128}
    deep = complete(CHAIN, {"spec": "draft", "depth": 5})
    assert deep.values["sure"] == 0.0
    # `depth` is set but inactive: `sure`, which depends on it, must not see its value.
    assert complete(CHAIN, {"depth": 5, "sure": 0.5}) == complete(CHAIN, {})


@given(spaces(), st.data())
def test_completion_is_stable_and_has_exactly_what_is_active(of: SearchSpace, data: st.DataObject) -> None:
    given_values = values_of(data.draw, of)
    done = complete(of, given_values)
    assert complete(of, done.values) == done
    for one in of.parameters:
        active = (
            one.when is None or evaluate(one.when, {p.name: done.values.get(p.name) for p in of.parameters}) is True
        )
        assert (one.name in done.values) is active
        if active:
            assert done.values[one.name] == given_values[one.name]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"bach": 512}, "did you mean `batch`"),
        ({"zzz": 1}, "spec, depth, sure, batch, chunk"),
        ({"batch": 1024}, "512, 256"),
        ({"batch": "512"}, "'512'"),
        ({"batch": 512.0}, "512.0"),
        ({"batch": True}, "True"),
    ],
)
def test_a_name_or_value_that_is_not_there_is_refused(values: dict[str, object], told: str) -> None:
    with pytest.raises(BadInput) as caught:
        complete(CHAIN, values)  # type: ignore[arg-type]
    assert told in str(caught.value)


def test_rules_are_broken_only_by_what_is_certain() -> None:
    ruled = space(
        *CHAIN.parameters,
        parameter("fa", ["auto", "off"]),
        rules=["chunk <= batch", "fa != off or spec == none", "depth < 5 or sure == 0.0"],
    )

    def broken(**values: object) -> list[str]:
        return [rule.require for rule in violations(ruled, complete(ruled, values))]  # type: ignore[arg-type]

    assert broken() == []
    assert broken(spec="draft", depth=5, sure=0.5) == ["depth < 5 or sure == 0.0"]
    assert broken(spec="draft", fa="off") == ["fa != off or spec == none"]
    # `chunk` is switched off: a rule about it is met.
    assert broken(batch=256, chunk=512) == []


@pytest.mark.parametrize("rule", ["first <= second", "second >= first", "first == second", "second == first"])
def test_a_rule_is_met_when_either_side_is_switched_off(rule: str) -> None:
    ruled = space(
        parameter("on", [False, True]), parameter("first", [2, 8]), parameter("second", [1, 2], when="on"), rules=[rule]
    )
    assert violations(ruled, complete(ruled, {})) == []
    assert len(violations(ruled, complete(ruled, {"on": True}))) == 1


@given(spaces(), st.integers(0, 2**32 - 1))
def test_random_values_lie_in_the_domain(of: SearchSpace, seed: int) -> None:
    drawn = random_values(of, np.random.default_rng(seed))
    assert drawn.keys() == of.by_name.keys()
    assert all(of.by_name[name].contains(value) for name, value in drawn.items())
    complete(of, drawn)


def test_random_values_reach_every_value() -> None:
    small = space(parameter("a", [1, 2, 4]), parameter("b", low=3, high=6, default=3), parameter("c", ["x", "y"]))
    rng = np.random.default_rng(1)
    seen = [random_values(small, rng) for _ in range(200)]
    assert {v["a"] for v in seen} == {1, 2, 4}
    assert {v["b"] for v in seen} == {3, 4, 5, 6}
    assert {v["c"] for v in seen} == {"x", "y"}
