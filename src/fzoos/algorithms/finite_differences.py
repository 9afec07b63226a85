"""Gradient estimates by finite differences, with three kinds of directions.

FD(x) = (1/Q) sum_q (y(x + lambda u_q) - y(x)) / lambda * u_q, with u_q one row of U, shape (Q, d).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from fzoos._util.arrays import FloatArray, orthonormal_rows
from fzoos._util.checks import check_count, check_positive

__all__ = ["Directions", "FiniteDifferences"]

Directions = Literal["gaussian", "orthonormal", "sphere"]


@dataclass(frozen=True)
class FiniteDifferences:
    """Settings of the finite-difference estimate.

    Args:
        count: Q, the number of directions; an estimate costs Q + 1 queries.
        step: lambda, in units of the unit cube.
        directions: the distribution of the u_q:
            "gaussian": u ~ N(0, I) (the paper's);
            "orthonormal": orthonormalised Gaussian vectors (the authors' program), in groups of d if Q > d;
            "sphere": uniform on the unit sphere, the estimate times d (FedZO's own paper).

    With "gaussian" and "sphere" the estimate is unbiased as lambda -> 0; with "orthonormal" it is d times too short,
    to which Adam is invariant.

    Example:
        >>> import numpy as np
        >>> from fzoos import FiniteDifferences
        >>> fd = FiniteDifferences(count=2000, step=1e-3)
        >>> x, u = np.array([0.5, 0.5]), fd.draw(2, np.random.default_rng(0))
        >>> y = fd.points(x, u) @ np.array([1.0, -2.0])
        >>> fd.gradient(u, y).round(0)
        array([ 1., -2.])
    """

    count: int = 20  # Q
    step: float = 0.01  # lambda
    directions: Directions = "gaussian"  # u_q

    def __post_init__(self) -> None:
        check_count("count (directions Q)", self.count, low=1)
        check_positive("step (lambda)", self.step)
        if self.directions not in get_args(Directions):
            raise ValueError(f"directions must be one of {', '.join(get_args(Directions))}, got {self.directions!r}")

    @property
    def queries(self) -> int:
        """The number of queries per estimate, Q + 1."""
        return self.count + 1

    def draw(self, dim: int, rng: np.random.Generator) -> FloatArray:
        """Draw U, shape (Q, d)."""
        if self.directions == "orthonormal":
            return orthonormal_rows(self.count, dim, rng)
        u = rng.standard_normal((self.count, dim))
        return u / np.linalg.norm(u, axis=1, keepdims=True) if self.directions == "sphere" else u

    def points(self, x: FloatArray, u: FloatArray) -> FloatArray:
        """Return the points of an estimate, x and x + lambda u_q, shape (Q + 1, d)."""
        return np.concatenate([x[None, :], x + self.step * u])

    def slopes(self, y: FloatArray) -> FloatArray:
        """Return (y(x + lambda u_q) - y(x)) / lambda from the values at `points`; NaN if a query failed."""
        slopes: FloatArray = (y[1:] - y[0]) / self.step
        return slopes

    def gradient(self, u: FloatArray, y: FloatArray) -> FloatArray:
        """Return FD(x) from the values at `points`; directions that failed (NaN) are left out of the mean.

        If the points were clipped to the cube, the formula is unchanged: for Gaussian directions the slope along a
        clipped coordinate is at most halved, and other coordinates are unaffected.
        """
        slopes, dim = self.slopes(y), u.shape[1]
        good = np.isfinite(slopes)
        if not good.any():
            return np.zeros(dim)
        mean: FloatArray = (slopes[good] @ u[good]) / int(good.sum())
        return self.factor(dim) * mean

    def factor(self, dim: int) -> float:
        """Return the factor of the mean of slopes times directions."""
        return float(dim) if self.directions == "sphere" else 1.0
