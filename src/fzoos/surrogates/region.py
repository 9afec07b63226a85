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
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy

from fzoos._util.arrays import FloatArray
from fzoos.surrogates.tridiagonal import least_costs

__all__ = ["Choice", "RegionProcess", "Shape"]

_LENGTHS = np.geomspace(0.3, 30.0, 5)  # l, in units of rho
_RIDGES = (1e-13, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
_SMOOTH = 1e-8  # the ridge where there is no noise
_EXACT = 1e-12  # a ridge below it is for the arithmetic, not for noise
_MOST_OUTLIERS = 3  # at once
_MANY = 150  # points that only clients with noise have, most of them in surrogates whose shape is known
_LEAST_RHO = 1e-12  # points may all be the same
_TINY = 1e-300
_EPSILON = float(np.finfo(float).eps)
_sum = np.add.reduce  # np.sum without what it asks before


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


class Shape(NamedTuple):
    """What of a choice has no unit: l over rho, and the polynomial."""

    length: float
    polynomial: Polynomial


class _Fit(NamedTuple):
    """K^-1 = Q diag(1 / v) Q^T with the ridge in it,  alpha = K^-1 (y - m),  a^2 = alpha.(y - m) / n."""

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
        like: take this choice, or of this shape that of the greatest evidence; None: of all.
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
        like: Choice | Shape | None = None,
        *,
        plain: bool = False,
    ) -> None:
        self.centre, self.offsets = centre, points - centre
        self.rho2 = max(float(np.mean(np.sum(self.offsets**2, axis=1))), _LEAST_RHO**2)
        self._range, self._lowest = max(float(np.ptp(values)), _TINY), float(values.min())
        products = self.offsets @ self.offsets.T
        squares = np.diag(products)[:, None] + np.diag(products) - 2.0 * products
        scaled = (values - self._lowest) / self._range
        self._fit = _best(squares, products / self.rho2, scaled, *self._grid(like, plain))
        length, b, _ = self._fit.choice
        self._length2 = length**2
        self._bowl = b.bowl * float(self._fit.alpha @ _sum(self.offsets**2, 1)) / self.rho2**2
        self._plane = (self._fit.alpha * b.linear) @ self.offsets / self.rho2  # the slope, where there is no square

    def _grid(
        self, like: Choice | Shape | None, plain: bool
    ) -> tuple[Sequence[float], Sequence[Polynomial], Sequence[float]]:
        """l, polynomials and ridges to try. A star of d + 1 points says nothing of l, nor of a quadratic."""
        rho = math.sqrt(self.rho2)
        if isinstance(like, Choice):
            return (like.length,), (like.polynomial,), (like.ridge,)
        if like is not None:
            return (rho * like.length,), (like.polynomial,), _RIDGES
        count, dim = self.offsets.shape
        star = count <= dim + 1
        lengths = [float(length) for length in rho * (_LENGTHS[-1:] if star else _LENGTHS)]
        if plain:
            return lengths, (_NONE,), (_SMOOTH,)
        return lengths, (_NONE, _BOWL) if star else (_NONE, _BOWL, _QUADRATIC), _RIDGES

    @property
    def choice(self) -> Choice:
        """l, b and the ridge in use."""
        return self._fit.choice

    @property
    def shape(self) -> Shape:
        """The same without units."""
        return Shape(self.choice.length / math.sqrt(self.rho2), self.choice.polynomial)

    def __call__(self, x: FloatArray) -> tuple[float, FloatArray]:
        """mu(x) and grad mu(x)."""
        return self._mean(x)[:2]

    def curved(self, x: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """mu(x), grad mu(x) and the second derivatives there, shape (d, d)."""
        value, slope, near, gap = self._mean(x)
        bend: FloatArray = (near[:, None] * gap).T @ gap
        bend /= self._length2
        bend[np.diag_indices(len(x))] -= _sum(near)
        bend *= self._range / self._length2
        bend += self._bend
        return value, slope, bend

    def gradients(self, x: FloatArray) -> FloatArray:
        """grad mu at many points at once, shape (m, d)."""
        (_, b, _), alpha, offsets = self._fit.choice, self._fit.alpha, self.offsets
        u = x - self.centre
        products = u @ offsets.T
        near = np.exp((products - 0.5 * (_sum(u * u, 1)[:, None] + self._squares)) / self._length2)
        near *= alpha
        slopes: FloatArray = (near @ offsets - _sum(near, 1)[:, None] * u) / self._length2
        if b.linear:
            slopes += ((b.linear + (2.0 * b.square / self.rho2) * products) * alpha) @ offsets / self.rho2
            slopes += (2.0 * self._bowl) * u
        slopes *= self._range
        return slopes

    def _mean(self, x: FloatArray) -> tuple[float, FloatArray, FloatArray, FloatArray]:
        """mu(x), grad mu(x), alpha_j exp(-|x - x_j|^2 / 2 l^2) and x - x_j."""
        (_, b, _), _, mean, alpha, *_ = self._fit
        offsets, u = self.offsets, x - self.centre
        gap = u - offsets
        near = _sum(gap * gap, 1)
        near /= -2.0 * self._length2
        np.exp(near, out=near)
        near *= alpha
        value, slope = mean + float(_sum(near)), near @ gap
        slope /= -self._length2
        if b.linear:
            s = offsets @ u
            s /= self.rho2
            line = b.linear * s
            if b.square:
                bent = b.square * s
                line += bent * s
                weights = (2.0 * b.square) * s
                weights += b.linear
                weights *= alpha
                across = weights @ offsets
                across /= self.rho2
            else:
                across = self._plane
            value += float(alpha @ line) + self._bowl * float(u @ u)
            slope += across + (2.0 * self._bowl) * u
        slope *= self._range
        return float(self._lowest + self._range * value), slope, near, gap

    @cached_property
    def _squares(self) -> FloatArray:
        return np.asarray(_sum(self.offsets * self.offsets, 1))

    @cached_property
    def _bend(self) -> FloatArray:
        """Second derivatives of the polynomial, which are the same everywhere."""
        b, offsets, dim = self._fit.choice.polynomial, self.offsets, self.offsets.shape[1]
        bend = np.zeros((dim, dim))
        if b.square:
            bend += (offsets.T * (self._fit.alpha * (2.0 * b.square / self.rho2**2))) @ offsets
        bend[np.diag_indices(dim)] += 2.0 * self._bowl
        return bend * self._range

    @cached_property
    def rounding(self) -> float:
        """The error of mu near the centre due to rounding, about: that of a sum, each term of which has its own."""
        b, far = self._fit.choice.polynomial, np.sqrt(self._squares / self.rho2)
        sizes = self._fit.alpha * (1.0 + far * (b.linear + far * (b.square + b.bowl)))
        return _EPSILON * (abs(self._lowest) + self._range * (1.0 + math.sqrt(float(sizes @ sizes))))

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

    def rest(self) -> None:
        """Give back what only `unknown` and `outliers` need, an n x n matrix; mean and choice stay."""
        self._fit = self._fit._replace(eigenvalues=np.empty(0), vectors=np.empty((0, 0)))

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
    squares: FloatArray,
    s: FloatArray,
    values: FloatArray,
    lengths: Sequence[float],
    kinds: Sequence[Polynomial],
    ridges: Sequence[float],
) -> _Fit:
    """The choice of the greatest evidence: least n/2 log a^2 + 1/2 sum log v. One eigendecomposition for all ridges.

    Only kernels that may have it are decomposed, the likeliest first.
    """
    bowl = np.outer(np.diag(s), np.diag(s))
    polynomials = [b.linear * s + b.square * s * s + b.bowl * bowl if b.linear else 0.0 for b in kinds]
    near = [np.exp(-0.5 * squares / length**2) for length in lengths]
    if len(lengths) == len(kinds) == 1 and len(values) > _MANY:
        found = _by_cholesky(near[0] + polynomials[0], values, Shape(lengths[0], kinds[0]), ridges)
        if found is not None:
            return found
    pairs = [(i, j) for i in range(len(lengths)) for j in range(len(kinds))]
    lowest = np.zeros(len(pairs))
    order = np.arange(len(pairs))
    if len(pairs) > 1 and len(values) > 1:
        units = np.array([kinds[j].unit for _, j in pairs])
        made = (near[i] + polynomials[j] for i, j in pairs)
        costs, lowest, _ = least_costs(made, values, units[:, None] * np.array(ridges))
        order = np.argsort(costs, kind="stable")
    least, best = (math.inf, len(pairs)), None
    for k in map(int, order):
        if best is not None and lowest[k] > least[0]:
            continue
        i, j = pairs[k]
        spectrum, vectors = np.linalg.eigh(near[i] + polynomials[j])
        decomposed = _Decomposed(np.maximum(spectrum, 0.0), vectors, values)
        cost, ridge = decomposed.likeliest(np.array(ridges), kinds[j].unit)
        if cost < math.inf and (cost, k) < least:
            least, best = (cost, k), (decomposed, Choice(lengths[i], kinds[j], ridge))
    if best is None:
        raise ValueError("the values of the surrogate are not finite")
    decomposed, choice = best
    return decomposed.fit(choice, choice.ridge * choice.polynomial.unit)


def _by_cholesky(kernel: FloatArray, values: FloatArray, shape: Shape, ridges: Sequence[float]) -> _Fit | None:
    """Where the shape is known and points are many: a sixth of the time; None if rounding leaves no factor."""
    unit, at = shape.polynomial.unit, 0
    if len(ridges) > 1:
        _, _, (at,) = least_costs([kernel.copy()], values, unit * np.array([ridges]))
    kernel[np.diag_indices(len(values))] += ridges[at] * unit
    lower, failed = scipy.linalg.lapack.dpotrf(kernel.T, lower=1, overwrite_a=1)
    if failed or not np.all(np.isfinite(values)):
        return None
    inverse, _ = scipy.linalg.lapack.dtrtri(lower, lower=1, overwrite_c=1)
    choice = Choice(shape.length, shape.polynomial, ridges[at])
    return _Decomposed(np.ones(len(values)), inverse.T, values).fit(choice, 0.0)  # Q = L^-T and v = 1


class _Decomposed:
    """K = Q diag(spectrum) Q^T, and the values and ones in its coordinates.

    Args:
        spectrum: shape (n,).
        vectors: Q, shape (n, n).
        values: shape (n,).
    """

    def __init__(self, spectrum: FloatArray, vectors: FloatArray, values: FloatArray) -> None:
        self._spectrum, self._vectors = spectrum, vectors
        self._turned, self._ones = vectors.T @ values, vectors.T @ np.ones(len(values))

    def likeliest(self, ridges: FloatArray, unit: float) -> tuple[float, float]:
        """The least cost over the ridges, and the ridge that has it; infinite where values are not finite."""
        v = self._spectrum + (ridges * unit)[:, None]
        by_v, ones = self._ones / v, self._ones
        mean = (by_v @ self._turned) / (by_v @ ones)
        rest = self._turned - mean[:, None] * ones
        amplitude = np.maximum(_sum(rest * rest / v, 1) / len(ones), _TINY)
        costs = 0.5 * len(ones) * np.log(amplitude) + 0.5 * _sum(np.log(v), 1)
        at = int(np.argmin(np.where(np.isnan(costs), np.inf, costs)))
        return (math.inf if math.isnan(costs[at]) else float(costs[at])), float(ridges[at])

    def fit(self, choice: Choice, ridge: float) -> _Fit:
        """Mean, amplitude and weights, with what the spectrum lacks of the choice's ridge."""
        turned, ones = self._turned, self._ones
        v = self._spectrum + ridge
        mean = (ones @ (turned / v)) / (ones @ (ones / v))
        rest = turned - mean * ones
        amplitude = max(float(rest @ (rest / v)) / len(ones), _TINY)
        return _Fit(choice, amplitude, float(mean), self._vectors @ (rest / v), v, self._vectors)
