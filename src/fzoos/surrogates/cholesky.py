"""The Cholesky factor of a kernel matrix that grows as points arrive.

========  ============  =========================================================================
symbol    shape         meaning
========  ============  =========================================================================
A         (n, n)        K + sigma^2 I over the points so far, symmetric positive definite
L         (n, n)        its Cholesky factor, A = L L^T, lower triangular
W         (n, n)        L^{-1}, lower triangular, so that A^{-1} = W^T W
B, C      (m, n) (m,m)  the new points' rows of A: against the old points, and among themselves
========  ============  =========================================================================

Appending a block does not change the old rows of W:

    L_21 = B W^T,   S = C - L_21 L_21^T,   L_22 = chol(S),   new rows of W = L_22^{-1} [-L_21 W, I].

W is stored rather than L: everything is then a matrix product (at full speed, on any array library), A^{-1} grows by
the positive term (new rows)^T (new rows), and the error stays that of solving with L: cond(L) = sqrt(cond(A)) times the
rounding unit, 1e-11 for the worst A here.
"""

from __future__ import annotations

import numpy as np

from fzoos._util.arrays import Array, device_of, invert_lower, namespace
from fzoos._util.buffer import Buffer

__all__ = ["GrowingCholesky"]

_JITTERS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2)  # relative to the largest diagonal entry of the new block
_SMALLEST_PIVOT = 1e-13  # a squared pivot below this fraction of the diagonal is rounding error


class GrowingCholesky:
    """Append blocks to a positive definite matrix and solve with it, in O(n^2) per appended row.

    Args:
        like: an array of the namespace and device to work on.

    Attributes:
        jitter: the largest value that had to be added to the diagonal so far.

    Example:
        >>> import numpy as np
        >>> from fzoos.surrogates.cholesky import GrowingCholesky
        >>> factor = GrowingCholesky(like=np.empty(0))
        >>> factor.append(np.empty((1, 0)), np.array([[4.0]]))
        >>> factor.append(np.array([[2.0]]), np.array([[5.0]]))
        >>> factor.solve(np.array([8.0, 9.0]))           # [[4, 2], [2, 5]] x = [8, 9]
        array([1.375, 1.25 ])
    """

    def __init__(self, like: Array) -> None:
        self._w = Buffer(like)
        self.jitter = 0.0

    def __len__(self) -> int:
        return self._w.rows

    @property
    def inverse_factor(self) -> Array:
        """The inverse factor W = L^{-1}, shape (n, n)."""
        return self._w.array

    def load(self, inverse_factor: Array) -> None:
        """Replace the matrix, given its W."""
        self._w.load(inverse_factor)

    def append(self, cross: Array, block: Array) -> None:
        """Append m rows and columns.

        Args:
            cross: B, shape (m, n), the new rows against the old columns.
            block: C, shape (m, m), the new rows against the new columns.
        """
        m, n = cross.shape
        old = self._w.array
        l21 = cross @ old.T
        xp = namespace(block)
        schur = block - l21 @ l21.T if n else block
        l22, jitter = _cholesky(schur, float(xp.max(xp.linalg.diagonal(block))))
        w22 = invert_lower(l22)
        w = self._w.grow(m)
        w[n:, :n] = -w22 @ (l21 @ old)
        w[n:, n:] = w22
        self.jitter = max(self.jitter, jitter)

    def solve(self, b: Array) -> Array:
        """Return A^{-1} b = W^T (W b)."""
        w = self._w.array
        return w.T @ (w @ b)


def _cholesky(schur: Array, diagonal: float) -> tuple[Array, float]:
    """Return chol(S + jitter I) and the smallest jitter with which all pivots exceed rounding errors.

    The jitter is added to the new points only, as if their observations were a little noisier.
    """
    xp = namespace(schur)
    for jitter in (factor * diagonal for factor in _JITTERS):
        if jitter:
            ridge = jitter * xp.eye(schur.shape[0], dtype=schur.dtype, device=device_of(schur))
        try:
            lower = xp.linalg.cholesky(schur + ridge if jitter else schur)
        except (np.linalg.LinAlgError, RuntimeError):  # PyTorch's LinAlgError is a RuntimeError
            continue
        if float(xp.min(xp.linalg.diagonal(lower))) ** 2 > _SMALLEST_PIVOT * diagonal:
            return lower, jitter
    raise np.linalg.LinAlgError("the kernel matrix is not positive definite, even with jitter; is there a NaN in it?")
