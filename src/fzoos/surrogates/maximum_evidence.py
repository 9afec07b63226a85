"""The kernel, length scale and ridge of maximum evidence, and the Gaussian-process fit that they give.

    K + r I = L L^T,   z = L^-1 (y, 1),   m = z_y.z_1 / z_1.z_1,   a^2 = |z_y - m z_1|^2 / n
    cost = n/2 log a^2 + sum log L_ii,   alpha = L^-T (z_y - m z_1)

A Cholesky factor costs a twentieth of an eigendecomposition. Along ridges and lengths, costs nearly always have one
valley per polynomial: from where the previous search ended, some 20 of the grid's 135 factors find it again. The first
search, and every eighth, tries every length, each from the ridge of the one before.

A fit is extended by k points with the same choice and scale in O(n^2) per point:

    [ K    B^T ]   [ L        ] [ L^T  L_21^T ]
    [ B    C   ] = [ L_21 L_22] [      L_22^T ],    L_21 = B L^-T,   L_22 L_22^T = C - L_21 L_21^T

New entries of z_y - m z_1, over a, are the prediction's errors over their standard deviations. diag K^-1 grows by the
squares of the new rows of the factor's inverse, L_22^-1 (-L_21 L^-1, I). A factor of 450 points has 1.6 MB, and reading
it dominates the time, so it is stored with room for a tenth more rows, rows of the identity until they are needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy

from fzoos._util.arrays import FloatArray

__all__ = ["Choice", "Fit", "Grid", "Polynomial", "SearchState", "extended_fit", "maximum_evidence", "solve_lower"]

_FULL_SEARCH = 8  # every eighth search tries all lengths
_ROOM = 0.1  # extra rows of an extended factor, as a fraction of its rows
_SURPRISE = 9.0  # (y - mu)^2 over its variance beyond which a value contradicts the fit
_TINY = 1e-300
_sum = np.add.reduce  # np.sum without its overhead


class Polynomial(NamedTuple):
    """Coefficients b_1, b_2 and b_3 of the kernel's polynomial, and the scale of its ridge."""

    linear: float = 0.0
    square: float = 0.0
    bowl: float = 0.0
    unit: float = 1.0


class Choice(NamedTuple):
    """A length l, a polynomial and a ridge."""

    length: float
    polynomial: Polynomial
    ridge: float


class SearchState(NamedTuple):
    """Where a search ended: the indices of the best length and ridge per polynomial, and the number of searches."""

    places: tuple[tuple[int, int], ...]
    searches: int = 0


class Fit(NamedTuple):
    """A fit: K = L L^T with the ridge in it, alpha = K^-1 (y - m), a^2 = alpha.(y - m) / n."""

    choice: Choice
    amplitude: float  # a^2
    mean: float  # m
    alpha: FloatArray
    lower: FloatArray  # L, possibly with room for more rows; entries above the diagonal are arbitrary
    search: SearchState
    z: FloatArray  # L^-1 (y, 1), shape (n, 2)
    diagonal: FloatArray | None = None  # of K^-1, once computed


class Grid(NamedTuple):
    """The lengths, polynomials and ridges to choose from."""

    lengths: Sequence[float]
    polynomials: Sequence[Polynomial]
    ridges: Sequence[float]


def maximum_evidence(
    squares: FloatArray, s: FloatArray, values: FloatArray, grid: Grid, before: SearchState | None = None
) -> Fit:
    """Return the fit of maximum evidence.

    Args:
        squares: squared distances, shape (n, n).
        s: inner products over rho^2, shape (n, n).
        values: y, shape (n,).
        grid: the choices.
        before: where the previous search ended, on a grid with as many lengths and polynomials.

    Raises:
        ValueError: values are not finite.

    Example:
        >>> import numpy as np
        >>> from fzoos.surrogates.maximum_evidence import Grid, Polynomial, maximum_evidence
        >>> x = np.linspace(-1.0, 1.0, 9)
        >>> squares, s = (x[:, None] - x) ** 2, np.outer(x, x)
        >>> grid = Grid((0.1, 1.0), (Polynomial(), Polynomial(200.0, 0.0, 100.0, 101.0)), (1e-8, 1e-2))
        >>> maximum_evidence(squares, s, 3.0 * x, grid).choice.polynomial.linear                      # a plane
        200.0
    """
    if not np.isfinite(values).all():
        raise ValueError("the values of the surrogate are not finite")
    search = _Search(squares, s, values, grid)
    count = before.searches if before is not None else 0
    if before is None or len(before.places) != len(grid.polynomials) or count % _FULL_SEARCH == 0:
        places = tuple(search.every_length(j) for j in range(len(grid.polynomials)))
    else:
        places = tuple(search.from_place(j, *before.places[j]) for j in range(len(grid.polynomials)))
    return search.fit(SearchState(places, count + 1))


class _Search:
    """Searches the grid, where i, j and k index lengths, polynomials and ridges."""

    def __init__(self, squares: FloatArray, s: FloatArray, values: FloatArray, grid: Grid) -> None:
        self._squares, self._s, self._grid, self._lapack = squares, s, grid, scipy.linalg.lapack
        self._right = np.ones((len(values), 2), order="F")  # (y, 1)
        self._right[:, 0] = values
        self._exponentials: dict[int, FloatArray] = {}
        self._polynomials: dict[int, FloatArray | float] = {}
        self._costs: dict[tuple[int, int, int], float] = {}
        self._least, self._best = math.inf, (0, 0, 0)
        self._factor: tuple[FloatArray, FloatArray] | None = None  # L and z of the best

    def every_length(self, j: int) -> tuple[int, int]:
        """Try all ridges of the first length, and from the best ridge of each length those next to it."""
        if len(self._grid.ridges) == len(self._grid.lengths) == 1:
            self._cost(0, j, 0)
            return 0, 0
        ridge = min(range(len(self._grid.ridges)), key=lambda k: self._cost(0, j, k))
        ridges = [ridge := self._ridge(i, j, ridge) for i in range(len(self._grid.lengths))]
        best = min(range(len(ridges)), key=lambda i: self._cost(i, j, ridges[i]))
        return best, ridges[best]

    def from_place(self, j: int, length: int, ridge: int) -> tuple[int, int]:
        """Descend to a length that is better than those next to it, each with its own best ridge."""
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
        """Descend to a ridge that is better than those next to it; a ridge without a factor is too small."""
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
        cost = self._costs.get((i, j, k))
        if cost is None:
            cost = self._costs[i, j, k] = self._compute(i, j, k)
        return cost

    def _compute(self, i: int, j: int, k: int) -> float:
        kernel, lapack = self._kernel(i, j), self._lapack
        n = len(kernel)
        kernel.reshape(-1)[:: n + 1] += self._grid.ridges[k] * self._grid.polynomials[j].unit
        lower, failed = lapack.dpotrf(kernel.T, 1, 0, 1)  # lower, not clean, in place
        if failed:
            return math.inf
        z, _ = lapack.dtrtrs(lower, self._right, 1)
        _, amplitude, _ = _centred(z)
        cost = 0.5 * n * math.log(amplitude) + float(_sum(np.log(lower.diagonal())))
        if cost < self._least:
            self._least, self._best, self._factor = cost, (i, j, k), (lower, z)
        return cost

    def _kernel(self, i: int, j: int) -> FloatArray:
        if i not in self._exponentials:
            near = self._squares * (-0.5 / self._grid.lengths[i] ** 2)
            self._exponentials[i] = np.exp(near, out=near)
        if j not in self._polynomials:
            b, s = self._grid.polynomials[j], self._s
            polynomial = b.linear * s
            if b.square:
                polynomial += (b.square * s) * s
            if b.bowl:
                polynomial += (b.bowl * s.diagonal())[:, None] * s.diagonal()
            self._polynomials[j] = polynomial if b.linear else 0.0
        kernel: FloatArray = self._exponentials[i] + self._polynomials[j]
        return kernel

    def fit(self, state: SearchState) -> Fit:
        """Return the best fit found; by eigenvalues where rounding has left no factor of any."""
        i, j, k = self._best
        polynomial, ridge = self._grid.polynomials[j], self._grid.ridges[k]
        if self._factor is None:
            spectrum, vectors = np.linalg.eigh(self._kernel(i, j))
            roots = np.sqrt(np.maximum(spectrum, 0.0) + ridge * polynomial.unit)
            upper = np.linalg.qr((vectors * roots).T)[1]
            lower = np.asfortranarray((upper * np.sign(upper.diagonal())[:, None]).T)
            self._factor = lower, scipy.linalg.lapack.dtrtrs(lower, self._right, lower=1)[0]
        lower, z = self._factor
        mean, amplitude, rest = _centred(z)
        alpha, _ = scipy.linalg.lapack.dtrtrs(lower, rest, lower=1, trans=1)
        return Fit(Choice(self._grid.lengths[i], polynomial, ridge), amplitude, mean, alpha, lower, state, z)


def extended_fit(fit: Fit, cross: FloatArray, block: FloatArray, values: FloatArray) -> Fit | None:
    """Return the fit with k more points; None where they contradict it, or rounding has left no factor.

    Args:
        fit: a fit of n points.
        cross: B, the new points' rows of K, shape (k, n).
        block: C, the kernel among the new points with the ridge, shape (k, k).
        values: the new values, shape (k,).

    Example:
        >>> import numpy as np
        >>> from fzoos.surrogates.maximum_evidence import Grid, Polynomial, extended_fit, maximum_evidence
        >>> x, grid = np.linspace(-1.0, 1.0, 9), Grid((0.5,), (Polynomial(),), (1e-3,))
        >>> kernel = lambda a, b: np.exp(-0.5 * (a[:, None] - b) ** 2 / 0.25)
        >>> whole = maximum_evidence((x[:, None] - x) ** 2, np.outer(x, x), np.sin(x), grid)
        >>> part = maximum_evidence((x[:8, None] - x[:8]) ** 2, np.outer(x[:8], x[:8]), np.sin(x[:8]), grid)
        >>> grown = extended_fit(part, kernel(x[8:], x[:8]), kernel(x[8:], x[8:]) + 1e-3, np.sin(x[8:]))
        >>> bool(np.allclose(grown.alpha, whole.alpha))
        True
    """
    lapack, (count, n) = scipy.linalg.lapack, cross.shape
    side = solve_lower(fit.lower, cross.T)  # L_21^T
    corner, failed = lapack.dpotrf(block - side.T @ side, lower=1, clean=1)  # L_22
    if failed:
        return None
    right = np.ones((count, 2), order="F")  # (y, 1)
    right[:, 0] = values
    right -= side.T @ fit.z
    new = lapack.dtrtrs(corner, right, lower=1)[0]
    if np.any((new[:, 0] - fit.mean * new[:, 1]) ** 2 > _SURPRISE * fit.amplitude):
        return None
    lower = _with_room(fit.lower, n, count)
    lower[n : n + count, :n], lower[n : n + count, n : n + count] = side.T, corner
    z = np.asfortranarray(np.concatenate([fit.z, new]))
    mean, amplitude, rest = _centred(z)
    right = np.zeros((n + count, 1 + count), order="F")
    right[:, 0] = rest
    right[n:, 1:] = np.eye(count)
    solved = solve_lower(lower, right, transposed=1)  # alpha, and the new rows of L^-1
    diagonal = fit.diagonal
    if diagonal is not None:
        squares = solved[:, 1:] * solved[:, 1:]
        diagonal = np.concatenate([diagonal, np.zeros(count)]) + np.sum(squares, axis=1)
    alpha = solved[:, 0].copy()
    return fit._replace(amplitude=amplitude, mean=mean, alpha=alpha, lower=lower, z=z, diagonal=diagonal)


def solve_lower(lower: FloatArray, right: FloatArray, transposed: int = 0) -> FloatArray:
    """Return L^-1 or L^-T times `right`, which may have fewer rows than an L with room."""
    n, room = len(right), len(lower)
    if room > n:
        padded = np.zeros((room, *right.shape[1:]), order="F")
        padded[:n] = right
        right = padded
    solved: FloatArray = scipy.linalg.lapack.dtrtrs(lower, right, lower=1, trans=transposed)[0]
    return solved[:n] if room > n else solved


def _with_room(lower: FloatArray, n: int, count: int) -> FloatArray:
    """Return the factor itself if the rows after the n-th are still free, otherwise a copy with room."""
    rows = lower[n : n + count]
    if len(rows) == count and not rows[:, :n].any() and np.array_equal(rows[:, n : n + count], np.eye(count)):
        return lower
    larger = np.eye(n + count + int(_ROOM * n), order="F")
    larger[:n, :n] = lower[:n, :n]
    return larger


def _centred(z: FloatArray) -> tuple[float, float, FloatArray]:
    """Return m, a^2 and z_y - m z_1."""
    values, ones = z[:, 0], z[:, 1]
    mean = float(ones.dot(values)) / float(ones.dot(ones))
    rest = values - mean * ones
    return mean, max(float(rest.dot(rest)) / len(rest), _TINY), rest
