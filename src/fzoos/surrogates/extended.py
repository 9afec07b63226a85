"""A fit with more points: its Cholesky factor grows by their rows, in O(n^2) each.

    [ K    B^T ]   [ L        ] [ L^T  L_21^T ]
    [ B    C   ] = [ L_21 L_22] [      L_22^T ],    L_21 = B L^-T,   L_22 L_22^T = C - L_21 L_21^T

Choice and scale stay. New entries of z_y - m z_1 are what the values differ by from what was predicted, over a what was
expected of it. diag K^-1 grows by the squares of the new rows of the factor's inverse, L_22^-1 (-L_21 L^-1, I).

A factor of 450 points is 1.6 MB, and reading it is what takes the time. It has room for a tenth more, rows of the
identity until they are needed, so that it is not copied for every point.
"""

from __future__ import annotations

import numpy as np
import scipy

from fzoos._util.arrays import FloatArray
from fzoos.surrogates.likeliest import Fit, centred

__all__ = ["extended", "solved"]

_ROOM = 0.1  # more rows than are needed
_SURPRISE = 9.0  # (y - mu)^2 over its variance, from which on a choice is in doubt


def extended(fit: Fit, cross: FloatArray, block: FloatArray, values: FloatArray) -> Fit | None:
    """With k more points; None where they contradict the fit, or rounding has left no factor.

    Args:
        fit: of n points.
        cross: B, the new points' rows of K, shape (k, n).
        block: C, among themselves, with the ridge, shape (k, k).
        values: shape (k,).

    Example:
        >>> import numpy as np
        >>> from fzoos.surrogates.extended import extended
        >>> from fzoos.surrogates.likeliest import Grid, Polynomial, likeliest
        >>> x, grid = np.linspace(-1.0, 1.0, 9), Grid((0.5,), (Polynomial(),), (1e-3,))
        >>> kernel = lambda a, b: np.exp(-0.5 * (a[:, None] - b) ** 2 / 0.25)
        >>> whole = likeliest((x[:, None] - x) ** 2, np.outer(x, x), np.sin(x), grid)
        >>> part = likeliest((x[:8, None] - x[:8]) ** 2, np.outer(x[:8], x[:8]), np.sin(x[:8]), grid)
        >>> grown = extended(part, kernel(x[8:], x[:8]), kernel(x[8:], x[8:]) + 1e-3, np.sin(x[8:]))
        >>> bool(np.allclose(grown.alpha, whole.alpha))
        True
    """
    lapack, (count, n) = scipy.linalg.lapack, cross.shape
    side = solved(fit.lower, cross.T)  # L_21^T
    corner, failed = lapack.dpotrf(block - side.T @ side, lower=1, clean=1)
    if failed:
        return None
    both = np.ones((count, 2), order="F")
    both[:, 0] = values
    both -= side.T @ fit.z
    new = lapack.dtrtrs(corner, both, lower=1)[0]
    if np.any((new[:, 0] - fit.mean * new[:, 1]) ** 2 > _SURPRISE * fit.amplitude):
        return None
    lower = _with_room(fit.lower, n, count)
    lower[n : n + count, :n], lower[n : n + count, n : n + count] = side.T, corner
    z = np.asfortranarray(np.concatenate([fit.z, new]))
    mean, amplitude, rest = centred(z)
    right = np.zeros((n + count, 1 + count), order="F")
    right[:, 0] = rest
    right[n:, 1:] = np.eye(count)
    found = solved(lower, right, transposed=1)  # alpha, and the new rows of L^-1
    diagonal = fit.diagonal
    if diagonal is not None:
        squares = found[:, 1:] * found[:, 1:]
        diagonal = np.concatenate([diagonal, np.zeros(count)]) + np.sum(squares, axis=1)
    alpha = found[:, 0].copy()
    return fit._replace(amplitude=amplitude, mean=mean, alpha=alpha, lower=lower, z=z, diagonal=diagonal)


def solved(lower: FloatArray, right: FloatArray, transposed: int = 0) -> FloatArray:
    """L^-1 times this, or L^-T; L may have more rows, which count for nothing."""
    n, room = len(right), len(lower)
    if room > n:
        padded = np.zeros((room, *right.shape[1:]), order="F")
        padded[:n] = right
        right = padded
    found: FloatArray = scipy.linalg.lapack.dtrtrs(lower, right, lower=1, trans=transposed)[0]
    return found[:n] if room > n else found


def _with_room(lower: FloatArray, n: int, count: int) -> FloatArray:
    """The factor itself where rows after the n-th are still free, otherwise a copy with room."""
    rows = lower[n : n + count]
    if len(rows) == count and not rows[:, :n].any() and np.array_equal(rows[:, n : n + count], np.eye(count)):
        return lower
    larger = np.eye(n + count + int(_ROOM * n), order="F")
    larger[:n, :n] = lower[:n, :n]
    return larger
