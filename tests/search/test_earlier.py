"""Winners of earlier studies as seeds."""

from __future__ import annotations

from tests.search.spaces import parameter, space
from tuner.domain.space import Seed
from tuner.search.earlier import with_earlier

SPACE = space(
    parameter("chunk", [128, 256, 512], default=256),
    parameter("batch", [256, 2048], default=2048),
    parameter("cache", ["f16", "q8_0"]),
    rules=["chunk <= batch"],
)


def won(name: str, **values: int | str) -> Seed:
    return Seed(name=name, because="an earlier study found it", values=values)


def test_winners_come_before_the_other_seeds_and_alike_ones_once() -> None:
    shipped = SPACE.model_copy(update={"seeds": (won("a rule of thumb", chunk=128),)})
    found, told = with_earlier(
        shipped, [won("one", chunk=512), won("other", chunk=512, cache="f16"), won("x", chunk=128)]
    )
    assert [seed.name for seed in found.seeds] == ["one", "x", "a rule of thumb"]
    assert told == []


def test_what_this_space_does_not_have_is_left_at_its_default_and_told() -> None:
    found, (told,) = with_earlier(SPACE, [won("one", chunk=512, cache="q2_k", device="CUDA1")])
    assert found.seeds[0].values == {"chunk": 512}
    assert told == "one: not taken over, since it is not searched here: cache, device"


def test_what_breaks_a_rule_here_is_not_tried() -> None:
    found, (told,) = with_earlier(SPACE, [won("one", chunk=512, batch=256)])
    assert found.seeds == ()
    assert told.startswith("one is not tried: ")
