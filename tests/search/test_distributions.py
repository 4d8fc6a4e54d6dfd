"""How parameters are told to Optuna."""

from __future__ import annotations

import warnings

import optuna
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, IntDistribution

from tests.search.spaces import parameter, resolved, space, spaces, values_of
from tuner.domain.space import SearchSpace
from tuner.search.distributions import distributions, from_optuna, to_optuna
from tuner.search.space import complete


@given(spaces(), st.data())
def test_every_value_comes_back_through_optuna_with_its_type(of: SearchSpace, data: st.DataObject) -> None:
    values = values_of(data.draw, of)
    told = to_optuna(of, values)
    # A trial made of them is one that Optuna accepts, and that it gives back as it was.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trial = optuna.trial.create_trial(params=told, distributions=distributions(of), value=0.0)
    back = from_optuna(of, trial.params)
    assert back == values
    assert [type(back[name]) for name in values] == [type(value) for value in values.values()]


@given(spaces(), st.data())
def test_what_is_left_out_is_told_as_the_default(of: SearchSpace, data: st.DataObject) -> None:
    values = {k: v for k, v in values_of(data.draw, of).items() if data.draw(st.booleans())}
    assert complete(of, from_optuna(of, to_optuna(of, values))) == complete(of, values)


@given(spaces(), st.integers(0, 1000))
def test_whatever_a_sampler_draws_is_a_configuration(of: SearchSpace, seed: int) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    for _ in range(3):
        drawn = complete(of, from_optuna(of, study.ask(distributions(of)).params))
        assert all(of.by_name[name].contains(value) for name, value in drawn.values.items())


def test_numbers_are_told_in_their_order_and_words_as_categories() -> None:
    of = space(
        parameter("chunk", [512, 128, 2048]),
        parameter("type", ["f16", "q8_0"]),
        parameter("switch", [True, False]),
        parameter("threads", low=1, high=8, default=8),
        parameter("only", ["x"]),
        parameter("pinned", low=4, high=4, default=4),
    )
    told = distributions(of)
    assert told == {
        "chunk": IntDistribution(0, 2),
        "type": CategoricalDistribution(("f16", "q8_0")),
        "switch": CategoricalDistribution((True, False)),
        "threads": IntDistribution(1, 8),
    }
    assert [to_optuna(of, {"chunk": size})["chunk"] for size in (128, 512, 2048)] == [0, 1, 2]
    assert from_optuna(of, {"chunk": 2})["only"] == "x"


def test_a_users_value_between_the_steps_is_one_of_the_values() -> None:
    text = '[parameters.moe]\nflag = "--moe"\nlow = 0\nhigh = 49\nstep = 4\ndefault = 0\n'
    of = resolved(text, present={"moe": 30})
    assert from_optuna(of, to_optuna(of, {}))["moe"] == 30
    assert from_optuna(of, to_optuna(of, {"moe": 48}))["moe"] == 48
