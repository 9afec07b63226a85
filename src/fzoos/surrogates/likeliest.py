"""Which kernel, length and ridge have the greatest evidence, by one Cholesky factor for each that is tried.

    K + r I = L L^T,   z = L^-1 (y, 1),   m = z_y.z_1 / z_1.z_1,   a^2 = |z_y - m z_1|^2 / n
    cost = n/2 log a^2 + sum log L_ii,   alpha = L^-T (z_y - m z_1)

A factor is a twentieth of an eigendecomposition. Along ridges and lengths costs nearly always have one valley for each
polynomial: from where it was the last time some 20 factors find it again, where the whole grid has 135. From time to
time, and where nothing is known, every length is tried, from the ridge of the one before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy

from fzoos._util.arrays import FloatArray

__all__ = ["Choice", "Fit", "Known", "Polynomial", "centred", "likeliest"]

_AGAIN = 8  # searches from one through all lengths to the next
_TINY = 1e-300
_sum = np.add.reduce  # np.sum without what it asks before


class Polynomial(NamedTuple):
    """b_1, b_2 and b_3, and what a ridge of 1 is beside them."""

    linear: float = 0.0
    square: float = 0.0
    bowl: float = 0.0
    unit: float = 1.0


class Choice(NamedTuple):
    """What the evidence chooses: l, the polynomial and the ridge."""

    length: float
    polynomial: Polynomial
    ridge: float


class Known(NamedTuple):
    """Where a search ended: for each polynomial the numbers of its likeliest length and ridge, and searches so far."""

    places: tuple[tuple[int, int], ...]
    searches: int = 0


class Fit(NamedTuple):
    """K = L L^T with the ridge in it,  alpha = K^-1 (y - m),  a^2 = alpha.(y - m) / n."""

    choice: Choice
    amplitude: float  # a^2
    mean: float  # m
    alpha: FloatArray
    lower: FloatArray  # L, and room for more rows; what is above its diagonal means nothing
    known: Known
    z: FloatArray  # L^-1 (y, 1), shape (n, 2)
    diagonal: FloatArray | None = None  # of K^-1, once somebody has needed it


class Grid(NamedTuple):
    """What is tried."""

    lengths: Sequence[float]
    polynomials: Sequence[Polynomial]
    ridges: Sequence[float]


def likeliest(squares: FloatArray, s: FloatArray, values: FloatArray, grid: Grid, known: Known | None = None) -> Fit:
    """The fit of the greatest evidence.

    Args:
        squares: squared distances, shape (n, n).
        s: inner products over rho^2, shape (n, n).
        values: shape (n,).
        grid: what is tried.
        known: where the search before ended, with as many lengths and polynomials.

    Raises:
        ValueError: values are not finite.

    Example:
        >>> import numpy as np
        >>> from fzoos.surrogates.likeliest import Grid, Polynomial, likeliest
        >>> x = np.linspace(-1.0, 1.0, 9)
        >>> squares, s = (x[:, None] - x) ** 2, np.outer(x, x)
        >>> grid = Grid((0.1, 1.0), (Polynomial(), Polynomial(200.0, 0.0, 100.0, 101.0)), (1e-8, 1e-2))
        >>> likeliest(squares, s, 3.0 * x, grid).choice.polynomial.linear                             # a plane
        200.0
    """
    if not np.isfinite(values).all():
        raise ValueError("the values of the surrogate are not finite")
    search = _Search(squares, s, values, grid)
    count = known.searches if known is not None else 0
    if known is None or len(known.places) != len(grid.polynomials) or count % _AGAIN == 0:
        places = tuple(search.every_length(j) for j in range(len(grid.polynomials)))
    else:
        places = tuple(search.from_place(j, *known.places[j]) for j in range(len(grid.polynomials)))
    return search.fit(Known(places, count + 1))


class _Search:
    def __init__(self, squares: FloatArray, s: FloatArray, values: FloatArray, grid: Grid) -> None:
        self._squares, self._s, self._grid, self._lapack = squares, s, grid, scipy.linalg.lapack
        self._both = np.ones((len(values), 2), order="F")
        self._both[:, 0] = values
        self._near: dict[int, FloatArray] = {}
        self._polynomials: dict[int, FloatArray | float] = {}
        self._costs: dict[tuple[int, int, int], float] = {}
        self._least, self._best = math.inf, (0, 0, 0)
        self._factor: tuple[FloatArray, FloatArray] | None = None  # L and z of the best

    def every_length(self, j: int) -> tuple[int, int]:
        """All ridges of the first length, and from the likeliest of them on those beside it."""
        if len(self._grid.ridges) == len(self._grid.lengths) == 1:
            self._cost(0, j, 0)
            return 0, 0
        ridge = min(range(len(self._grid.ridges)), key=lambda k: self._cost(0, j, k))
        ridges = [ridge := self._ridge(i, j, ridge) for i in range(len(self._grid.lengths))]
        at = min(range(len(ridges)), key=lambda i: self._cost(i, j, ridges[i]))
        return at, ridges[at]

    def from_place(self, j: int, length: int, ridge: int) -> tuple[int, int]:
        """To a length that is likelier than those beside it, each with its own ridge."""
        ridges, last = {length: self._ridge(length, j, ridge)}, len(self._grid.lengths) - 1
        while True:
            around = range(max(length - 1, 0), min(length + 1, last) + 1)
            for i in around:
                if i not in ridges:
                    ridges[i] = self._ridge(i, j, ridges[length])
            best = min(around, key=lambda i: self._cost(i, j, ridges[i]))
            if not self._cost(best, j, ridges[best]) < self._cost(length, j, ridges[length]):
                return length, ridges[length]
            length = best

    def _ridge(self, i: int, j: int, ridge: int) -> int:
        """To a ridge that is likelier than those beside it; one without a factor is too small."""
        last = len(self._grid.ridges) - 1
        while True:
            best = max(ridge - 1, 0)
            least = self._cost(i, j, best)
            for k in range(best + 1, min(ridge + 1, last) + 1):
                cost = self._cost(i, j, k)
                if cost < least:
                    best, least = k, cost
            if least == math.inf and ridge < last:
                best = ridge + 1
            elif not least < self._cost(i, j, ridge):
                return ridge
            ridge = best

    def _cost(self, i: int, j: int, k: int) -> float:
        found = self._costs.get((i, j, k))
        if found is None:
            found = self._costs[i, j, k] = self._compute(i, j, k)
        return found

    def _compute(self, i: int, j: int, k: int) -> float:
        kernel, lapack = self._kernel(i, j), self._lapack
        n = len(kernel)
        kernel.reshape(-1)[:: n + 1] += self._grid.ridges[k] * self._grid.polynomials[j].unit
        lower, failed = lapack.dpotrf(kernel.T, 1, 0, 1)  # lower, not clean, in place
        if failed:
            return math.inf
        z, _ = lapack.dtrtrs(lower, self._both, 1)
        _, amplitude, _ = centred(z)
        cost = 0.5 * n * math.log(amplitude) + float(_sum(np.log(lower.diagonal())))
        if cost < self._least:
            self._least, self._best, self._factor = cost, (i, j, k), (lower, z)
        return cost

    def _kernel(self, i: int, j: int) -> FloatArray:
        if i not in self._near:
            near = self._squares * (-0.5 / self._grid.lengths[i] ** 2)
            self._near[i] = np.exp(near, out=near)
        if j not in self._polynomials:
            b, s = self._grid.polynomials[j], self._s
            there = b.linear * s
            if b.square:
                there += (b.square * s) * s
            if b.bowl:
                there += (b.bowl * s.diagonal())[:, None] * s.diagonal()
            self._polynomials[j] = there if b.linear else 0.0
        made: FloatArray = self._near[i] + self._polynomials[j]
        return made

    def fit(self, known: Known) -> Fit:
        """Of the likeliest of all that were tried; by eigenvalues where rounding has left no factor of any."""
        i, j, k = self._best
        polynomial, ridge = self._grid.polynomials[j], self._grid.ridges[k]
        if self._factor is None:
            spectrum, vectors = np.linalg.eigh(self._kernel(i, j))
            roots = np.sqrt(np.maximum(spectrum, 0.0) + ridge * polynomial.unit)
            upper = np.linalg.qr((vectors * roots).T)[1]
            lower = np.asfortranarray((upper * np.sign(upper.diagonal())[:, None]).T)
            self._factor = lower, scipy.linalg.lapack.dtrtrs(lower, self._both, lower=1)[0]
        lower, z = self._factor
        mean, amplitude, rest = centred(z)
        alpha, _ = scipy.linalg.lapack.dtrtrs(lower, rest, lower=1, trans=1)
        return Fit(Choice(self._grid.lengths[i], polynomial, ridge), amplitude, mean, alpha, lower, known, z)


def centred(z: FloatArray) -> tuple[float, float, FloatArray]:
    """m, a^2 and z_y - m z_1."""
    values, ones = z[:, 0], z[:, 1]
    mean = float(ones.dot(values)) / float(ones.dot(ones))
    rest = values - mean * ones
    return mean, max(float(rest.dot(rest)) / len(rest), _TINY), rest
