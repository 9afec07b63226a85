"""The Cholesky factor of a kernel matrix that grows as points arrive.

========  ============  =========================================================================
symbol    shape         meaning
========  ============  =========================================================================
A         (n, n)        K + sigma^2 I over the points so far, symmetric positive definite
L         (n, n)        its Cholesky factor, A = L L^T, lower triangular
W         (n, n)        L^{-1}, lower triangular, so that A^{-1} = W^T W
B, C      (m, n) (m,m)  the new points' rows of A: against the old points, and among themselves
========  ============  =========================================================================

Appending a block leaves the old rows of W as they are:

    L_21 = B W^T,   S = C - L_21 L_21^T,   L_22 = chol(S),   new rows of W = L_22^{-1} [-L_21 W, I].

We keep W rather than L. Everything is then a matrix product (at full speed, on any array library), A^{-1} grows by the
positive term (new rows)^T (new rows), and the error stays that of solving with L: cond(L) = sqrt(cond(A)) times the
rounding unit, 1e-11 for the worst A here.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Self

import numpy as np

from fzoos._util.arrays import Array, FloatArray, device_of, invert_lower, namespace, stack, to_numpy
from fzoos._util.buffer import Buffer
from fzoos._util.together import Written, together

__all__ = ["GrowingCholesky", "solve_once"]

_LADDER = (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2)  # times the largest diagonal entry of the new block
_SMALLEST_PIVOT = 1e-13  # below this share of the diagonal, a pivot is rounding error


class GrowingCholesky:
    """Append blocks to a positive definite matrix and solve with it, in O(n^2) per append.

    Example:
        >>> import numpy as np
        >>> from fzoos.surrogates.cholesky import GrowingCholesky
        >>> factor = GrowingCholesky(like=np.empty(0))
        >>> _ = factor.append(np.empty((1, 0)), np.array([[4.0]]))
        >>> _ = factor.append(np.array([[2.0]]), np.array([[5.0]]))
        >>> factor.solve(np.array([8.0, 9.0]))           # [[4, 2], [2, 5]] x = [8, 9]
        array([1.375, 1.25 ])
    """

    def __init__(self, like: Array) -> None:
        self._w = Buffer(like)
        self.jitter: Any = 0.0  # the largest value the ladder had to add to the diagonal so far; of each, if joined

    @property
    def shape(self) -> tuple[int, ...]:
        """Factors that agree in it can be joined."""
        return self._w.shape

    @classmethod
    def joined(cls, factors: Sequence[Self]) -> Self:
        """Factors of one shape as one with an axis more in front."""
        whole = copy(factors[0])
        whole._w = Buffer.joined([factor._w for factor in factors])
        whole.jitter = np.array([factor.jitter for factor in factors])
        return whole

    def hand_back(self, factors: Sequence[Self]) -> None:
        """Let each have its part of what they were joined to."""
        self._w.hand_back([factor._w for factor in factors])
        for factor, jitter in zip(factors, self.jitter.tolist(), strict=True):
            factor.jitter = jitter

    def __len__(self) -> int:
        return self._w.rows

    @property
    def inverse_factor(self) -> Array:
        """W = L^{-1}, shape (n, n)."""
        return self._w.array

    def append(self, cross: Array, block: Array) -> Array:
        """Add m rows and columns; return the new rows of W, shape (m, n + m).

        Args:
            cross: B, shape (m, n), the new rows against the old columns.
            block: C, shape (m, m), the new rows against the new columns.
        """
        l21, l22, jitter = _factorised(self._w.array, cross, block)
        self.jitter = np.maximum(self.jitter, jitter)[()]
        rows: Array = together(_extend, Written(self._w.grow(block.shape[-1])), l21, l22)
        return rows

    def solve(self, b: Array) -> Array:
        """A^{-1} b = W^T (W b)."""
        w = self._w.array
        return w.T @ (w @ b)

    def log_determinant(self) -> float:
        """log det A = -2 sum_i log W_ii."""
        xp = namespace(self._w.array)
        return -2.0 * float(xp.sum(xp.log(xp.linalg.diagonal(self._w.array))))


# What an append computes, of one factor or, with leading axes, of several.


def _factorised(w: Array, cross: Array, block: Array) -> tuple[Array, Array, FloatArray]:
    """L_21, chol(S + jitter I), and the smallest jitter of the ladder that gives pivots above rounding error.

    The jitter is added to the new points only: they count as a little noisier, the old ones stay as they are.
    """
    for rung in _LADDER:
        try:
            l21, l22, scale, pivot = together(_new_block, w, cross, block, rung)
        except (np.linalg.LinAlgError, RuntimeError):  # PyTorch's LinAlgError is a RuntimeError
            pass
        else:
            if np.all(pivot > np.sqrt(_SMALLEST_PIVOT * scale)):
                return l21, l22, rung * scale
        if block.ndim > 2:  # each has its own jitter
            l21s, l22s, jitters = zip(*map(_factorised, w, cross, block), strict=True)
            return stack(l21s)[0], stack(l22s)[0], np.array(jitters)
    raise np.linalg.LinAlgError("the kernel matrix is not positive definite, even with jitter; is there a NaN in it?")


def _new_block(w: Array, cross: Array, block: Array, rung: float) -> tuple[Array, Array, FloatArray, FloatArray]:
    """L_21, L_22 with rung times the largest diagonal entry as jitter, that entry, and the smallest pivot."""
    xp = namespace(block)
    l21 = cross @ w.mT
    schur = block - l21 @ l21.mT if cross.shape[-1] else block
    scale = xp.max(xp.linalg.diagonal(block), axis=-1)
    if rung:
        identity = xp.eye(block.shape[-1], dtype=block.dtype, device=device_of(block))
        schur = schur + (rung * scale)[..., None, None] * identity
    l22 = xp.linalg.cholesky(schur)
    return l21, l22, to_numpy(scale), to_numpy(xp.min(xp.linalg.diagonal(l22), axis=-1))


def _extend(w: Array, l21: Array, l22: Array) -> Array:
    """Put the new rows of W, L_22^{-1} [-L_21 W, I], in their place."""
    n = l21.shape[-1]
    w22 = invert_lower(l22)
    w[..., n:, :n] = -w22 @ (l21 @ w[..., :n, :n])
    w[..., n:, n:] = w22
    return w[..., n:, :]


def solve_once(matrix: Array, b: Array) -> Array:
    """A^{-1} b for a positive definite A that will not grow: by elimination, or with the ladder if A is singular."""
    try:
        return namespace(matrix).linalg.solve(matrix, b)
    except (np.linalg.LinAlgError, RuntimeError):
        factor = GrowingCholesky(matrix)
        factor.append(matrix[:, :0], matrix)
        return factor.solve(b)
