"""A gradient from fewer points than dimensions: a Gaussian process around x with a bowl as its trend.

    f(p) = b_0 + b_1 |p - x|^2 / 2 + process,     k(u, v) = exp(-|u - v|^2 / 2 l^2),  l = sqrt(d) / 2

All values of a wide design have b_1 H^2 / 2 in common, which the process alone would explain by slopes. Trend and
process are estimated jointly (universal kriging), so that everything here is linear in the values: where all clients
query the same points, the mean of their gradients is the gradient of the mean's surrogate, however much they differ.
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

__all__ = ["Slope", "credible_values", "fill_kernel", "fit_slope", "length_scale"]

_LENGTH = 0.5  # l over the diagonal of the cube: only its polynomial regime matters
_TINY = float(np.finfo(float).tiny)
_RANK = 1e-12  # the relative difference below which two equations are the same one
_CUT = 8.0  # standard deviations: slopes along random directions are normal, and none of 10^14 is further off


class Slope(NamedTuple):
    """A surrogate's gradient at x, shape (d,), and the curvature b_1 of its trend."""

    gradient: FloatArray
    curvature: float

    def between(self, first: FloatArray, second: FloatArray, x: FloatArray) -> float:
        """Return the predicted f(p_1) - f(p_2) = (p_1 - p_2).g + b_1 (|p_1 - x|^2 - |p_2 - x|^2) / 2."""
        bend = float(np.sum((first - x) ** 2) - np.sum((second - x) ** 2))
        return float((first - second) @ self.gradient) + 0.5 * self.curvature * bend


def length_scale(dim: int) -> float:
    """Return the kernel's length scale, l = sqrt(d) / 2."""
    return _LENGTH * math.sqrt(dim)


def fit_slope(
    offsets: FloatArray,
    values: FloatArray,
    ridge: float,
    squares: FloatArray | None = None,
    kernel: FloatArray | None = None,
) -> Slope:
    """Return gradient and mean curvature at x.

        alpha = (K + ridge I)^-1 (y - B b),     grad mu(x) = sum_j alpha_j k(x, x_j) (x_j - x) / l^2

    Args:
        offsets: of the points from x, shape (n, d), in the unit cube.
        values: y, shape (n,).
        ridge: the noise's variance over the process's.
        squares: squared lengths of the offsets, if they are known.
        kernel: K above its diagonal, if it is known.

    Example:
        >>> import numpy as np
        >>> from fzoos.surrogates.trend import fit_slope
        >>> offsets = 0.1 * np.array([[0, 0, 0], [1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0.0]])
        >>> slope = fit_slope(offsets, np.sum((offsets + 0.3) ** 2, axis=1), 1e-8)
        >>> slope.gradient.round(2)                                      # no point lies along the last coordinate
        array([0.6, 0.6, 0. ])
        >>> round(slope.curvature, 2)
        2.0
    """
    squares = row_squares(offsets) if squares is None else squares
    largest = max(float(squares.max()), _TINY)
    if not math.isfinite(largest):  # NaN included
        raise ValueError("the points of the surrogate are not finite")
    if kernel is None:
        kernel = np.empty((len(offsets), len(offsets)))
        fill_kernel(kernel, offsets, squares)
    trend = np.ones((len(values), 2))  # B
    np.divide(squares, largest, out=trend[:, 1])
    factor = _factor(kernel, ridge)
    right = np.empty((len(values), 3), order="F")  # LAPACK's order
    right[:, :2], right[:, 2] = trend, values
    solved = scipy.linalg.lapack.dpotrs(factor, right, lower=1, overwrite_b=1)[0]
    weights = _least_squares(trend.T @ solved[:, :2], trend.T @ solved[:, 2])  # b
    alpha = solved[:, 2] - solved[:, :2] @ weights
    length2 = length_scale(offsets.shape[1]) ** 2
    gradient = (alpha * np.exp(-0.5 * squares / length2) / length2) @ offsets
    return Slope(gradient, float(2.0 * weights[1] / largest))


def _least_squares(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """Return the shortest solution of two equations: NumPy's `lstsq` without its overhead."""
    solution: FloatArray = scipy.linalg.lapack.dgelsd(matrix, right, *_workspace(), _RANK)[0]
    return solution[:2].reshape(-1)


@cache
def _workspace() -> tuple[int, int]:
    numbers, integers, _ = scipy.linalg.lapack.dgelsd_lwork(2, 2, 1, _RANK)
    return int(numbers), int(integers)


def _factor(kernel: FloatArray, ridge: float) -> FloatArray:
    """Return a Cholesky factor of K + ridge I; the ridge grows tenfold until there is one."""
    diagonal = 1.0 + ridge
    while True:
        matrix = kernel.copy()
        matrix.reshape(-1)[:: len(matrix) + 1] = diagonal
        # What is above the diagonal here is below it in LAPACK's order: nothing is copied.
        lower, failed = scipy.linalg.lapack.dpotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
        if not failed:
            return lower  # type: ignore[no-any-return]
        ridge *= 10.0
        diagonal += ridge


def fill_kernel(kernel: FloatArray, offsets: FloatArray, squares: FloatArray, first: int = 0) -> None:
    """Fill a kernel's columns from `first` on with exp(-|u_i - u_j|^2 / 2 l^2) for j >= i; the rest is arbitrary.

    Halves and doubles are exact: all bits are those of (|u|^2 + |v|^2 - 2 u.v) / 2 l^2.
    """
    products = offsets @ offsets[first:].T
    halves, over = 0.5 * squares, -(length_scale(offsets.shape[1]) ** 2)
    for part in panels(*products.shape):
        begin = max(first, part.start)
        distances = halves[part, None] + halves[begin:]
        distances -= products[part, begin - first :]
        np.maximum(distances, 0.0, out=distances)
        distances /= over
        np.exp(distances, out=kernel[part, begin:])


def credible_values(values: FloatArray) -> NDArray[np.bool_]:
    """Return which values of a design are credible: those within 8 robust standard deviations of the median.

    The slopes of any function along random directions are close to normal, and so are its values at one distance.

    Example:
        >>> import numpy as np
        >>> from fzoos.surrogates.trend import credible_values
        >>> credible_values(np.array([1.0, 1.2, 0.9, 110.0, 0.8]))
        array([ True,  True,  True, False,  True])
    """
    distances = np.abs(values - _median(values))
    spread = 1.4826 * _median(distances)
    return distances <= _CUT * spread if spread > 0.0 else np.ones(len(values), dtype=bool)


def _median(values: FloatArray) -> float:
    """Return the median; NumPy's takes ten times as long for so few values."""
    ordered, half = np.sort(values), len(values) // 2
    return float(ordered[half] if len(values) % 2 else 0.5 * (ordered[half - 1] + ordered[half]))
