"""A Gaussian process for tuning landscapes: effects of single parameters that add up, and one term for all together.

In logarithms most flags multiply a speed, so their effects add: the additive part learns each from few trials, and the
joint part what they do to each other (cf. Duvenaud et al. 2011, additive Gaussian processes). Hyperparameters are found
by maximum a posteriori with analytic gradients. Several outputs share one kernel, so a linear mix of outputs is
predicted in closed form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize

from tuner.search.features import distances

Array = NDArray[np.float64]

_SINGLE_REACH = 0.4
"""Length scale of the single effects, of features between 0 and 1."""
_MOST_FITTED = 120
"""Trials that the hyperparameters are fitted to; predictions use all of them."""
_ITERATIONS = 25
_JITTER = 1e-8
_PRIORS = {"single": (np.log(0.06), 1.3), "reach": (np.log(0.4), 1.2), "joint": (np.log(0.25), 1.0)}
"""Mean and standard deviation of the logarithms: most parameters matter little, and a few matter much."""
_NOISE_SPREAD = 0.7
_STUMBLE = 0.3
"""By how much a stumbling machine may be slower, as a logarithm."""
_SLOW_AMONG_OTHERS = 1.0
"""Standard deviations below what the others let expect from which on a row that stands alone is doubted."""


@dataclass(frozen=True)
class Posterior:
    """Means and standard deviations at some configurations, in the outputs' own units: (configurations, outputs)."""

    mean: Array
    deviation: Array


class GaussianProcess:
    """A process fitted to rows of features `x` and outputs `y` of shape (rows, outputs).

    `noise` is the standard deviation of a measurement that is expected, in the outputs' units. `fitted_rows` chooses
    the rows that the hyperparameters are fitted to, where there are many.

    Raises:
        numpy.linalg.LinAlgError: the matrix cannot be decomposed.
    """

    def __init__(
        self, x: Array, y: Array, groups: Sequence[slice], noise: float, *, slow_outliers: bool = False
    ) -> None:
        self._x, self._groups = x, groups
        self._centre = y.mean(axis=0)
        self._scale = np.maximum(y.std(axis=0), 1e-3)
        self._z = (y - self._centre) / self._scale
        self._expected_noise = float(np.log((noise / self._scale.mean()) ** 2 + 1e-9))
        squared = distances(x, x, groups)
        # Added to the noise of a row, in the units of `z`.
        self._doubt = np.zeros(len(x))
        alone = _sole_witnesses(squared) if slow_outliers else np.zeros(len(x), dtype=bool)
        self._doubt[alone] = (_STUMBLE / self._scale.mean()) ** 2
        self._theta = self._fitted()
        covariance = self._covariance(squared)
        self._solve(covariance)
        if slow_outliers:
            self._believe_what_is_not_slow(alone, covariance)
            self._weigh_down_slow_outliers(covariance)

    def predict(self, x: Array) -> Posterior:
        """The posterior of the noise-free outputs at rows of features."""
        cross = self._covariance(distances(x, self._x, self._groups))
        mean = cross @ self._alpha
        half = solve_triangular(self._factor, cross.T, lower=True)
        single, _, joint, _ = self._unpacked(self._theta)
        variance = np.maximum(single.sum() + joint - (half * half).sum(axis=0), 1e-10)
        return Posterior(self._centre + mean * self._scale, np.sqrt(variance)[:, None] * self._scale[None, :])

    def leave_one_out(self) -> Array:
        """By how many standard deviations each row differs from what all others predict: (rows, outputs)."""
        inverse = cho_solve((self._factor, True), np.eye(len(self._x)))
        spread = np.sqrt(1 / np.diag(inverse))
        residual: Array = (self._alpha / np.diag(inverse)[:, None]) / spread[:, None]
        return residual

    def _unpacked(self, theta: Array) -> tuple[Array, Array, float, float]:
        count = len(self._groups)
        values = np.exp(theta)
        return values[:count], values[count : 2 * count], float(values[-2]), float(values[-1])

    def _covariance(self, squared: Array) -> Array:
        single, reach, joint, _ = self._unpacked(self._theta)
        total: Array = np.tensordot(single, _matern(squared / _SINGLE_REACH**2)[0], axes=1)
        total += joint * _matern(np.tensordot(reach, squared, axes=1))[0]
        return total

    def _solve(self, covariance: Array) -> None:
        noise = self._unpacked(self._theta)[3]
        noisy = covariance + np.diag(noise + self._doubt + _JITTER)
        self._factor = cholesky(noisy, lower=True)
        self._alpha = cho_solve((self._factor, True), self._z)

    def _believe_what_is_not_slow(self, alone: NDArray[np.bool_], covariance: Array) -> None:
        """Ends the doubt in rows that are the only ones with some value, where the others do not expect more of them.

        A slow launch that alone shows a value may show what the value does, or a machine that stumbled. As long as the
        doubt lasts the value stays worth another look.
        """
        expected, deviation = self._without_each()
        certain = np.sqrt(self._unpacked(self._theta)[3])
        short = ((expected - self._z) / np.hypot(deviation, certain)[:, None]).mean(axis=1)
        self._doubt[alone & (short < _SLOW_AMONG_OTHERS)] = 0.0
        self._solve(covariance)

    def _weigh_down_slow_outliers(self, covariance: Array) -> None:
        """A launch far slower than all others let expect is believed less: once in a while a machine stumbles."""
        for _ in range(2):
            residual = self.leave_one_out().mean(axis=1)
            slow = (residual < -3.0) & (self._doubt == 0.0)
            if not slow.any():
                return
            noise = self._unpacked(self._theta)[3]
            self._doubt = np.where(slow, noise * residual**2 * 10.0, self._doubt)
            self._solve(covariance)

    def _without_each(self) -> tuple[Array, Array]:
        """What all other rows predict of each, (rows, outputs), and the standard deviation, noise-free, (rows,)."""
        inverse = cho_solve((self._factor, True), np.eye(len(self._x)))
        own = self._unpacked(self._theta)[3] + self._doubt
        variance = np.maximum(1 / np.diag(inverse) - own, 1e-10)
        return self._z - self._alpha / np.diag(inverse)[:, None], np.sqrt(variance)

    def _fitted(self) -> Array:
        rows = np.arange(len(self._x))
        if len(rows) > _MOST_FITTED:
            # The best ones, where the surface matters, and the rest evenly.
            order = np.argsort(-self._z.mean(axis=1), kind="stable")
            best, rest = order[: _MOST_FITTED // 2], order[_MOST_FITTED // 2 :]
            rows = np.concatenate([best, rest[:: max(1, 2 * len(rest) // _MOST_FITTED)]])
        squared = distances(self._x[rows], self._x[rows], self._groups)
        alone = _matern(squared / _SINGLE_REACH**2)[0]
        z = self._z[rows]
        count, outputs = len(self._groups), z.shape[1]
        centre = np.concatenate(
            [
                np.full(count, _PRIORS["single"][0]), np.full(count, _PRIORS["reach"][0]),
                [_PRIORS["joint"][0], self._expected_noise],
            ]
        )  # fmt: skip
        spread = np.concatenate(
            [
                np.full(count, _PRIORS["single"][1]), np.full(count, _PRIORS["reach"][1]),
                [_PRIORS["joint"][1], _NOISE_SPREAD],
            ]
        )  # fmt: skip

        def objective(theta: Array) -> tuple[float, Array]:
            single, reach, joint, noise = self._unpacked(theta)
            together, slope = _matern(np.tensordot(reach, squared, axes=1))
            matrix = np.tensordot(single, alone, axes=1) + joint * together
            matrix[np.diag_indices(len(rows))] += noise + self._doubt[rows] + _JITTER
            factor = cholesky(matrix, lower=True)
            inverse = cho_solve((factor, True), np.eye(len(rows)))
            alpha = inverse @ z
            value = 0.5 * float((alpha * z).sum()) / outputs + float(np.log(np.diag(factor)).sum())
            weight = inverse - alpha @ alpha.T / outputs
            gradient = np.empty_like(theta)
            gradient[:count] = 0.5 * np.tensordot(alone, weight, axes=2) * single
            gradient[count : 2 * count] = 0.5 * joint * np.tensordot(squared, weight * slope, axes=2) * reach
            gradient[-2] = 0.5 * float((weight * together).sum()) * joint
            gradient[-1] = 0.5 * float(np.trace(weight)) * noise
            off = (theta - centre) / spread
            return value + 0.5 * float(off @ off), gradient + off / spread

        bounds = list(zip(centre - 4 * spread, centre + 4 * spread, strict=True))
        found = minimize(
            objective, centre, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": _ITERATIONS}
        )
        if not np.all(np.isfinite(found.x)):
            raise np.linalg.LinAlgError("the hyperparameters could not be fitted")
        result: Array = found.x
        return result


def _sole_witnesses(squared: Array) -> NDArray[np.bool_]:
    """Rows that differ from every other row in some group of features; `squared`: (groups, rows, rows)."""
    apart = squared > 1e-9
    counts = apart.sum(axis=2)
    result: NDArray[np.bool_] = (counts == squared.shape[1] - 1).any(axis=0)
    return result


def _matern(squared: Array) -> tuple[Array, Array]:
    """The Matérn kernel 5/2 of squared distances, and its derivative by them."""
    scaled = np.sqrt(5 * squared)
    decay = np.exp(-scaled)
    return (1 + scaled + scaled * scaled / 3) * decay, -(5 / 6) * (1 + scaled) * decay
