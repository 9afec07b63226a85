"""Which of several kernels may have the greatest evidence, without an eigendecomposition of each.

    K = Q T Q^T,  T tridiagonal;     T + ridge I = L diag(p) L^T,     z = L^-1 Q^T (y, 1)
    log det = sum log p,    u.K^-1 v = sum z_u z_v / p

Bringing a matrix to tridiagonal form is a third to a fifth of its eigendecomposition, and a ridge costs O(n) then. All
kernels and all ridges go through one recursion over n. Rounding is larger than that of an eigendecomposition where a
ridge is not far above the machine's precision: costs come with a margin, and who chooses decides exactly among the few
that are within it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import scipy
from numpy.typing import NDArray

from fzoos._util.arrays import FloatArray

__all__ = ["least_costs"]

_EPSILON = float(np.finfo(float).eps)
_ROUNDING = 0.25  # of n eps |K| / ridge; 0.03 to 0.2 is usual
_BLOCK = 64  # columns that dormqr applies at once
_TINY = 1e-300


def least_costs(
    kernels: Iterable[FloatArray], values: FloatArray, ridges: FloatArray
) -> tuple[FloatArray, FloatArray, NDArray[np.intp]]:
    """n/2 log a^2 + 1/2 log det at the likeliest ridge of each kernel, and the least that it may be without rounding.

    Args:
        kernels: k symmetric matrices of shape (n, n), n > 1, which are overwritten.
        values: shape (n,).
        ridges: what is added to the diagonal of each, shape (k, r).

    Returns:
        Three arrays of shape (k,), the last of the number of that ridge. Minus infinity in the second where a ridge has
        drowned in rounding, infinity in the first where all have.

    Example:
        >>> import numpy as np
        >>> from fzoos.surrogates.tridiagonal import least_costs
        >>> kernels = np.array([[[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.9], [0.9, 1.0]]])
        >>> least, lowest, _ = least_costs(kernels, np.array([0.0, 1.0]), np.full((2, 1), 1e-6))
        >>> [round(float(cost), 4) for cost in least]                      # log(1 / (4 (1 - c))) + log(1 - c^2) / 2
        [-0.837, 0.0859]
    """
    parts = [_tridiagonal(kernel, values) for kernel in kernels]
    diagonals, beside, turned = (np.stack(part) for part in zip(*parts, strict=True))  # (k, n), (k, n - 1), (k, n, 2)
    count, (size, r) = len(values), ridges.shape
    with np.errstate(all="ignore"):
        pivots, z = _eliminated(diagonals, beside, turned, ridges)
        by_pivot = z[:, 1] / pivots
        mean = np.sum(by_pivot * z[:, 0], axis=0) / np.sum(by_pivot * z[:, 1], axis=0)
        rest = z[:, 0] - mean * z[:, 1]
        amplitude = np.maximum(np.sum(rest * rest / pivots, axis=0) / count, _TINY)
        costs = (0.5 * count * np.log(amplitude) + 0.5 * np.sum(np.log(pivots), axis=0)).reshape(size, r)
    norms = np.max(np.abs(diagonals), axis=1) + 2.0 * np.max(np.abs(beside), axis=1)
    margins = _ROUNDING * count * _EPSILON * norms[:, None] / ridges
    unknown = np.isnan(costs)
    known = np.where(unknown, np.inf, costs)
    lowest = np.min(np.where(unknown, -np.inf, costs - margins), axis=1)
    return np.min(known, axis=1), lowest, np.argmin(known, axis=1)


def _tridiagonal(kernel: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Diagonal, what is beside it, and Q^T (y, 1), shape (n, 2)."""
    lapack, n = scipy.linalg.lapack, len(values)
    turned = np.ones((n, 2), order="F")
    turned[:, 0] = values
    # What is above the diagonal here is below it for LAPACK: nothing is copied.
    reflectors, diagonal, beside, tau, _ = lapack.dsytrd(kernel.T, lower=1, lwork=_BLOCK * n, overwrite_a=1)
    turned[1:] = lapack.dormqr("L", "T", reflectors[1:, :-1], tau, turned[1:], lwork=2 * _BLOCK)[0]
    return diagonal, beside, turned


def _eliminated(
    diagonals: FloatArray, beside: FloatArray, turned: FloatArray, ridges: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """p, shape (n, k r), and z of values and ones, shape (n, 2, k r)."""
    size, r = ridges.shape
    n = diagonals.shape[1]
    pivots = (diagonals.T[:, :, None] + ridges).reshape(n, size * r)
    e = np.repeat(beside.T, r, axis=1)
    z = np.repeat(turned.transpose(1, 2, 0), r, axis=2)
    for i in range(1, n):
        factor = e[i - 1] / pivots[i - 1]
        pivots[i] -= factor * e[i - 1]
        z[i] -= factor * z[i - 1]
    return pivots, z
