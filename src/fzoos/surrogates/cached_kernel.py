"""The kernel of points of which most were there the last time: only the rows and columns of new points are computed.

Distances do not depend on the centre of the offsets. If k of n points are new, this takes 2 n k d operations instead of
n^2 d. Known points come first, in the order they had, so that entries above the diagonal stay above it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fzoos._util.arrays import FloatArray
from fzoos._util.states import StateDict
from fzoos.surrogates.trend import fill_kernel

__all__ = ["CachedKernel"]


class CachedKernel:
    """The kernel of points, cached by their numbers.

    Example:
        >>> import numpy as np
        >>> from fzoos.surrogates.cached_kernel import CachedKernel
        >>> points, cache = np.array([[0.0], [0.1], [0.4]]), CachedKernel()
        >>> first = cache.order(np.array([1, 0]))
        >>> _ = cache.kernel(first, points[first], points[first, 0] ** 2)
        >>> then = cache.order(np.array([2, 0]))
        >>> then, bool(cache.kernel(then, points[then], points[then, 0] ** 2)[0, 1] == np.exp(-0.5 * 0.4**2 / 0.25))
        (array([0, 2]), True)
    """

    def __init__(self) -> None:
        self.release()

    def release(self) -> None:
        """Release the kernel; the next one is computed as a whole."""
        self._numbers: NDArray[np.intp] = np.empty(0, dtype=np.intp)
        self._kernel = np.empty((0, 0))

    def state(self) -> StateDict:
        """Return the points and their kernel."""
        return {"numbers": self._numbers, "kernel": np.triu(self._kernel)}

    def restore(self, state: StateDict) -> None:
        """Restore what `state` returned."""
        self._numbers, self._kernel = state["numbers"], state["kernel"]

    def order(self, numbers: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return these points in the order that `kernel` needs: known ones first."""
        wanted = self._is_among(numbers)
        known = self._numbers[wanted[self._numbers]]
        wanted[known] = False
        return np.concatenate([known, np.flatnonzero(wanted)])

    def _is_among(self, numbers: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return a mask over all numbers, true for these."""
        mask = np.zeros(1 + int(max(numbers.max(initial=-1), self._numbers.max(initial=-1))), dtype=bool)
        mask[numbers] = True
        return mask

    def kernel(self, numbers: NDArray[np.intp], offsets: FloatArray, squares: FloatArray) -> FloatArray:
        """Return the kernel above the diagonal, arbitrary below. It is cached: copy it before writing into it.

        Args:
            numbers: the points, in the order of `order`.
            offsets: of these points from any centre, shape (n, d).
            squares: squared lengths of the offsets, shape (n,).
        """
        places = np.flatnonzero(self._is_among(numbers)[self._numbers])
        kernel, known = np.empty((len(numbers), len(numbers))), len(places)
        kernel[:known, :known] = self._kernel[places].take(places, axis=1)  # rows first: they are contiguous
        fill_kernel(kernel, offsets, squares, known)
        self._numbers, self._kernel = numbers, kernel
        return kernel
