"""The samplers that can be chosen by name."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib.util import find_spec

from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler

from tuner.domain.errors import BadInput
from tuner.domain.profile import Profile
from tuner.domain.space import SearchSpace
from tuner.domain.workload import Workload
from tuner.search.composite import Compared, CompositeSampler, unheard

SamplerFactory = Callable[[int], BaseSampler]
"""Makes a sampler from a seed."""

SAMPLERS = ("composite", "tpe", "gp", "random")
"""`composite` is the tuner's own; `gp` needs torch, which Optuna asks for."""

DEFAULT_SAMPLER = "composite"

_STARTUP_TRIALS = 5


def make_sampler(
    name: str,
    space: SearchSpace,
    profiles: Sequence[Profile],
    workload: Workload,
    note: Callable[[str], None] = unheard,
    compared: Compared = list,
) -> SamplerFactory:
    """A factory for the sampler called `name`.

    Args:
        name: one of `SAMPLERS`.
        space: the study's.
        profiles: whom the composite sampler serves.
        workload: what is measured.
        note: takes what a user should know, in a sentence.
        compared: the search's records -> the same as they compare, without the machine's drift.

    Raises:
        BadInput: no sampler has this name, or what it needs is not installed.
    """
    if name == "composite":
        return lambda seed: CompositeSampler(space, profiles, workload, tpe(seed), note, compared)
    if name == "tpe":
        return tpe
    if name == "random":
        return RandomSampler
    if name == "gp":
        return _gaussian_process()
    nearest = get_close_matches(name, SAMPLERS, n=1)
    advice = f"did you mean {nearest[0]}?" if nearest else f"there are: {', '.join(SAMPLERS)}"
    raise BadInput(f"There is no sampler `{name}`", advice=advice)


def tpe(seed: int) -> BaseSampler:
    """Optuna's TPE, set as it works best here: all parameters jointly, and soon after the seeds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TPESampler(multivariate=True, n_startup_trials=_STARTUP_TRIALS, constant_liar=False, seed=seed)


def _gaussian_process() -> SamplerFactory:
    if find_spec("torch") is None:
        raise BadInput(
            "The sampler `gp` needs torch, which is not installed",
            advice="install torch (750 MB), or leave the sampler at `composite`",
        )
    return lambda seed: GPSampler(seed=seed, n_startup_trials=_STARTUP_TRIALS, deterministic_objective=False)
