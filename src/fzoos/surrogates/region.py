"""A surrogate for a trust region: a Gaussian process with a polynomial beside it, all of it found by evidence.

    k(u, u') = exp(-|u - u'|^2 / 2 l^2) + b_1 s + b_2 s^2 + b_3 |u|^2 |u'|^2 / rho^4,     s = u.u' / rho^2
    u = x - centre,  rho = rms |u|;  constant mean

The polynomial is none, a plane and a bowl (b_2 = 0), which a star of points is enough to find, or any quadratic, which
needs (d + 1)(d + 2) / 2 of them. Which one, l and the ridge are those of the greatest evidence; amplitude and mean
follow in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fzoos._util.arrays import FloatArray

__all__ = ["Choice", "RegionProcess"]

_LENGTHS = np.geomspace(0.3, 30.0, 5)  # l, in units of rho
_RIDGES = (1e-13, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
_SMOOTH = 1e-8  # the ridge where there is no noise
_EXACT = 1e-12  # a ridge below it is for the arithmetic, not for noise
_MOST_OUTLIERS = 3  # at once
_LEAST_RHO = 1e-12  # points may all be the same
_TINY = 1e-300


class Polynomial(NamedTuple):
    """b_1, b_2 and b_3, and what a ridge of 1 is beside them."""

    linear: float = 0.0
    square: float = 0.0
    bowl: float = 0.0
    unit: float = 1.0


_NONE, _BOWL, _QUADRATIC = Polynomial(), Polynomial(200.0, 0.0, 100.0, 101.0), Polynomial(200.0, 100.0, 100.0, 101.0)


class Choice(NamedTuple):
    """What the evidence chooses: l, the polynomial and the ridge."""

    length: float
    polynomial: Polynomial
    ridge: float


class _Fit(NamedTuple):
    """K = Q diag(v) Q^T with the ridge in v,  alpha = K^-1 (y - m),  a^2 = alpha.(y - m) / n."""

    choice: Choice
    amplitude: float  # a^2
    mean: float  # m
    alpha: FloatArray
    eigenvalues: FloatArray  # v
    vectors: FloatArray  # Q


class RegionProcess:
    """Posterior of the process, conditioned on values around a centre.

    Args:
        points: shape (n, d), in the unit cube.
        values: shape (n,), of any scale: they are divided by their range.
        centre: where the quadratic is expanded, shape (d,).
        like: take this choice; None: the one of the greatest evidence.
        plain: whether there is neither a polynomial nor noise to choose.

    Example:
        >>> import numpy as np
        >>> from fzoos.surrogates.region import RegionProcess
        >>> points = np.random.default_rng(0).random((12, 2))
        >>> process = RegionProcess(points, np.sum((points - 0.3) ** 2, axis=1), np.array([0.5, 0.5]))
        >>> value, gradient = process(np.array([0.4, 0.2]))
        >>> round(value, 4), gradient.round(4)
        (0.02, array([ 0.2, -0.2]))
    """

    def __init__(
        self,
        points: FloatArray,
        values: FloatArray,
        centre: FloatArray,
        like: Choice | None = None,
        *,
        plain: bool = False,
    ) -> None:
        self.centre, self.offsets = centre, points - centre
        self.rho2 = max(float(np.mean(np.sum(self.offsets**2, axis=1))), _LEAST_RHO**2)
        self._range, self._lowest = max(float(np.ptp(values)), _TINY), float(values.min())
        products = self.offsets @ self.offsets.T
        squares = np.diag(products)[:, None] + np.diag(products) - 2.0 * products
        self._fit = _best(squares, products / self.rho2, (values - self._lowest) / self._range, self._grid(like, plain))

    def _grid(self, like: Choice | None, plain: bool) -> list[tuple[float, Polynomial, Sequence[float]]]:
        """(l, polynomial, ridges) to try. A star of d + 1 points says nothing of l, nor of a quadratic."""
        if like is not None:
            return [(like.length, like.polynomial, (like.ridge,))]
        count, dim = self.offsets.shape
        rho, star = math.sqrt(self.rho2), count <= dim + 1
        lengths = rho * (_LENGTHS[-1:] if star else _LENGTHS)
        if plain:
            return [(float(length), _NONE, (_SMOOTH,)) for length in lengths]
        kinds = (_NONE, _BOWL) if star else (_NONE, _BOWL, _QUADRATIC)
        return [(float(length), kind, _RIDGES) for length in lengths for kind in kinds]

    @property
    def choice(self) -> Choice:
        """l, b and the ridge in use."""
        return self._fit.choice

    def __call__(self, x: FloatArray) -> tuple[float, FloatArray]:
        """mu(x) and grad mu(x)."""
        (length, b, _), alpha = self._fit.choice, self._fit.alpha
        u = x - self.centre
        gap = u - self.offsets
        near = np.exp(-0.5 * np.sum(gap * gap, axis=1) / length**2) * alpha
        s = self.offsets @ u / self.rho2
        bowl = b.bowl * (alpha @ np.sum(self.offsets**2, axis=1)) / self.rho2**2
        polynomial = alpha @ (b.linear * s + b.square * s * s) + bowl * (u @ u)
        slope = (alpha * (b.linear + 2.0 * b.square * s)) @ self.offsets / self.rho2 + 2.0 * bowl * u
        value = self._lowest + self._range * (self._fit.mean + near.sum() + polynomial)
        return float(value), self._range * (slope - (near @ gap) / length**2)

    @property
    def sigma(self) -> float:
        """Standard deviation of an observation, as the evidence has it."""
        _, b, ridge = self._fit.choice
        if ridge <= _EXACT:
            return 0.0
        return self._range * math.sqrt(self._fit.amplitude * ridge * b.unit)

    def unknown(self, x: FloatArray) -> FloatArray:
        """Posterior covariance of the gradient at x over its prior variance at the centre, shape (d, d)."""
        length, b, _ = self._fit.choice
        u = x - self.centre
        gap = u - self.offsets
        near = np.exp(-0.5 * np.sum(gap * gap, axis=1) / length**2)
        s = self.offsets @ u / self.rho2
        slopes = -(near[:, None] * gap) / length**2
        slopes = slopes + ((b.linear + 2.0 * b.square * s) / self.rho2)[:, None] * self.offsets
        slopes = slopes + (2.0 * b.bowl / self.rho2**2) * np.outer(np.sum(self.offsets**2, axis=1), u)
        seen = self._fit.vectors.T @ slopes
        prior = np.eye(len(x)) * (1.0 / length**2 + b.linear / self.rho2 + 2.0 * b.square * (u @ u) / self.rho2**2)
        prior = prior + (2.0 * b.square + 4.0 * b.bowl) * np.outer(u, u) / self.rho2**2
        left: FloatArray = prior - seen.T @ (seen / self._fit.eigenvalues[:, None])
        return left / (1.0 / length**2 + b.linear / self.rho2)

    def outliers(self) -> list[int]:
        """The k <= 3 points without which the misfit (y - m)^T K^-1 (y - m) falls below 10^-k of what it was.

        Greedily the largest alpha_j^2 / [K^-1]_jj, which is what the misfit falls by; then a rank-one downdate.
        """
        values, vectors, alpha = self._fit.eigenvalues, self._fit.vectors, self._fit.alpha.copy()
        inverse, left = (vectors / values) @ vectors.T, 1.0
        out, found = list[int](), list[int]()
        for k in range(1, _MOST_OUTLIERS + 1):
            falls = alpha**2 / np.maximum(np.diag(inverse), _TINY)
            falls[out] = 0.0
            worst = int(np.argmax(falls))
            left -= falls[worst] / (len(values) * self._fit.amplitude)
            out.append(worst)
            if left < 0.1**k:
                found = list(out)
            column = inverse[:, worst].copy()
            if not column[worst] > 0.0:  # rounding has left nothing of it
                break
            alpha = alpha - column * alpha[worst] / column[worst]
            inverse = inverse - np.outer(column, column) / column[worst]
        return found


def _best(
    squares: FloatArray, s: FloatArray, values: FloatArray, grid: list[tuple[float, Polynomial, Sequence[float]]]
) -> _Fit:
    """The choice of the greatest evidence: least n/2 log a^2 + 1/2 sum log v. One eigendecomposition for all ridges."""
    least, best = math.inf, None
    bowl = np.outer(np.diag(s), np.diag(s))
    for length, b, ridges in grid:
        polynomial = b.linear * s + b.square * s * s + b.bowl * bowl
        spectrum, vectors = np.linalg.eigh(np.exp(-0.5 * squares / length**2) + polynomial)
        spectrum = np.maximum(spectrum, 0.0)
        turned, ones = vectors.T @ values, vectors.T @ np.ones(len(values))
        for ridge in ridges:
            v = spectrum + ridge * b.unit
            mean = (ones @ (turned / v)) / (ones @ (ones / v))
            rest = turned - mean * ones
            amplitude = max(rest @ (rest / v) / len(values), _TINY)
            cost = 0.5 * len(values) * math.log(amplitude) + 0.5 * np.sum(np.log(v))
            if cost < least:
                choice = Choice(length, b, ridge)
                least, best = cost, _Fit(choice, float(amplitude), float(mean), vectors @ (rest / v), v, vectors)
    if best is None:
        raise ValueError("the values of the surrogate are not finite")
    return best
