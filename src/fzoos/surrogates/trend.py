"""A gradient from fewer points than dimensions: a Gaussian process around a centre, with a bowl as its trend.

    f(p) = b_0 + b_1 |p - x|^2 / 2 + process,     k(u, v) = exp(-|u - v|^2 / 2 l^2),  l = sqrt(d) / 2

All values of a wide star of points have b_1 H^2 / 2 in common, which the process alone would explain by slopes. Trend
and process are found together (universal kriging), so that everything here is linear in the values: where all clients
ask at the same points, the mean of their gradients is the gradient of the mean's surrogate, however much they differ.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from fzoos._util.arrays import FloatArray
from fzoos._util.panels import panels, row_squares

__all__ = ["Slope", "fill_kernel", "fit_slope", "length_scale", "slope_around", "without_outliers"]

_LENGTH = 0.5  # l over the diagonal of the cube: only its polynomial regime matters
_PANEL = 64  # rows of the kernel that are worked on at a time
_TINY = float(np.finfo(float).tiny)
_RANK = 1e-12  # equations that differ by less, as a share, are the same one
_CUT = 8.0  # standard deviations: slopes along random directions are normal, and none of 10^14 is further off


class Slope(NamedTuple):
    """A surrogate's gradient at the centre, shape (d,), and the curvature b_1 of its trend."""

    gradient: FloatArray
    curvature: float

    def between(self, first: FloatArray, second: FloatArray, x: FloatArray) -> float:
        """f(p_1) - f(p_2) as predicted: (p_1 - p_2).g + b_1 (|p_1 - x|^2 - |p_2 - x|^2) / 2."""
        bend = float(np.sum((first - x) ** 2) - np.sum((second - x) ** 2))
        return float((first - second) @ self.gradient) + 0.5 * self.curvature * bend


def length_scale(dim: int) -> float:
    """The kernel's length scale, l = sqrt(d) / 2."""
    return _LENGTH * math.sqrt(dim)


def fit_slope(points: FloatArray, values: FloatArray, x: FloatArray, ridge: float) -> Slope:
    """Gradient and mean curvature at x.

        alpha = (K + ridge I)^-1 (y - B b),     grad mu(x) = sum_j alpha_j k(x, x_j) (x_j - x) / l^2

    Args:
        points: shape (n, d), in the unit cube.
        values: y, shape (n,).
        x: the centre, shape (d,).
        ridge: the noise's variance over the process's.

    Example:
        >>> import numpy as np
        >>> from fzoos.surrogates.trend import fit_slope
        >>> x = np.array([0.5, 0.5, 0.5])
        >>> points = x + 0.1 * np.array([[0, 0, 0], [1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0.0]])
        >>> slope = fit_slope(points, np.sum((points - 0.2) ** 2, axis=1), x, 1e-8)
        >>> slope.gradient.round(2)                                      # nothing was asked along the last coordinate
        array([0.6, 0.6, 0. ])
        >>> round(slope.curvature, 2)
        2.0
    """
    return slope_around(points - x, values, ridge)


def slope_around(
    offsets: FloatArray,
    values: FloatArray,
    ridge: float,
    squares: FloatArray | None = None,
    kernel: FloatArray | None = None,
) -> Slope:
    """The same, given the points' offsets from x, and where they are known their squared lengths and the kernel."""
    squares = row_squares(offsets) if squares is None else squares
    largest = max(float(squares.max()), _TINY)
    trend = np.ones((len(values), 2))
    np.divide(squares, largest, out=trend[:, 1])
    factor = _factor(offsets, squares, ridge, kernel)
    right = np.empty((len(values), 3), order="F")  # as LAPACK takes it
    right[:, :2], right[:, 2] = trend, values
    solved = scipy.linalg.lapack.dpotrs(factor, right, lower=1, overwrite_b=1)[0]
    weights = _least_squares(trend.T @ solved[:, :2], trend.T @ solved[:, 2])
    alpha = solved[:, 2] - solved[:, :2] @ weights
    length2 = length_scale(offsets.shape[1]) ** 2
    gradient = (alpha * np.exp(-0.5 * squares / length2) / length2) @ offsets
    return Slope(gradient, float(2.0 * weights[1] / largest))


def _least_squares(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """The shortest solution of two equations: NumPy's `lstsq` without what is around its call of LAPACK."""
    found: FloatArray = scipy.linalg.lapack.dgelsd(matrix, right, *_workspace(), _RANK)[0]
    return found[:2].reshape(-1)


@cache
def _workspace() -> tuple[int, int]:
    numbers, integers, _ = scipy.linalg.lapack.dgelsd_lwork(2, 2, 1, _RANK)
    return int(numbers), int(integers)


def _factor(offsets: FloatArray, squares: FloatArray, ridge: float, known: FloatArray | None = None) -> FloatArray:
    """Cholesky factor of the kernel + ridge I; the ridge grows tenfold until there is one."""
    if not math.isfinite(float(squares.max())):  # of NaN, too
        raise ValueError("the points of the surrogate are not finite")
    diagonal = 1.0 + ridge
    while True:
        kernel = _half_kernel(offsets, squares) if known is None else known.copy()
        kernel.reshape(-1)[:: len(kernel) + 1] = diagonal
        # What is above the diagonal here is below it for LAPACK: nothing is copied.
        lower, failed = scipy.linalg.lapack.dpotrf(kernel.T, lower=1, clean=0, overwrite_a=1)
        if not failed:
            return lower  # type: ignore[no-any-return]
        ridge *= 10.0
        diagonal += ridge


def _half_kernel(offsets: FloatArray, squares: FloatArray) -> FloatArray:
    """exp(-|u_i - u_j|^2 / 2 l^2) for j >= i, and anything below, in panels of rows that stay in cache."""
    kernel: FloatArray = offsets @ offsets.T
    halves, over = 0.5 * squares, -(length_scale(offsets.shape[1]) ** 2)
    for start in range(0, len(kernel), _PANEL):
        _exponentials(kernel[start : start + _PANEL, start:], halves[start : start + _PANEL], halves[start:], over)
    return kernel


def _exponentials(products: FloatArray, rows: FloatArray, columns: FloatArray, over: float) -> None:
    """exp(-|u - v|^2 / 2 l^2) in place of u.v, given |u|^2 / 2 of the rows and columns, and -l^2.

    Halves and doubles are exact: all bits are those of (|u|^2 + |v|^2 - 2 u.v) / 2 l^2.
    """
    distances = rows[:, None] + columns
    distances -= products
    np.maximum(distances, 0.0, out=distances)
    distances /= over
    np.exp(distances, out=products)


def fill_kernel(kernel: FloatArray, offsets: FloatArray, squares: FloatArray, first: int) -> None:
    """Columns from the first of these on."""
    if first == len(kernel):
        return
    if not first:
        kernel[:] = _half_kernel(offsets, squares)
        return
    columns = offsets @ offsets[first:].T
    halves, over = 0.5 * squares, -(length_scale(offsets.shape[1]) ** 2)
    for part in panels(*columns.shape):
        begin = max(first, part.start)  # below the diagonal there may be anything
        panel = columns[part, begin - first :]
        _exponentials(panel, halves[part], halves[begin:], over)
        kernel[part, begin:] = panel


def without_outliers(values: FloatArray) -> NDArray[np.bool_]:
    """Which values of a star are credible: those within 8 standard deviations, estimated by the median distance.

    Along random directions the slopes of any function are close to normal, and so are the values at one distance.

    Example:
        >>> import numpy as np
        >>> from fzoos.surrogates.trend import without_outliers
        >>> without_outliers(np.array([1.0, 1.2, 0.9, 110.0, 0.8]))
        array([ True,  True,  True, False,  True])
    """
    distances = np.abs(values - _median(values))
    spread = 1.4826 * _median(distances)
    return distances <= _CUT * spread if spread > 0.0 else np.ones(len(values), dtype=bool)


def _median(values: FloatArray) -> float:
    """As NumPy's, which takes ten times as long for so few."""
    ordered, half = np.sort(values), len(values) // 2
    return float(ordered[half] if len(values) % 2 else 0.5 * (ordered[half - 1] + ordered[half]))
