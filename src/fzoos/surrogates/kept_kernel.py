"""The kernel of points most of which were there the last time: only rows and columns of new ones are computed.

Distances do not depend on the centre that offsets are measured from. Of n points k are new: 2 n k d operations, and not
n^2 d. Known points come first, in the order that they had, so that what is above the diagonal stays there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fzoos._util.arrays import FloatArray
from fzoos.surrogates.trend import fill_kernel

__all__ = ["KeptKernel"]


class KeptKernel:
    """Knows the kernel of points by their numbers.

    Example:
        >>> import numpy as np
        >>> from fzoos.surrogates.kept_kernel import KeptKernel
        >>> points, kernel = np.array([[0.0], [0.1], [0.4]]), KeptKernel()
        >>> first = kernel.order(np.array([1, 0]))
        >>> _ = kernel.renewed(first, points[first], points[first, 0] ** 2)
        >>> then = kernel.order(np.array([2, 0]))
        >>> then, bool(kernel.renewed(then, points[then], points[then, 0] ** 2)[0, 1] == np.exp(-0.5 * 0.4**2 / 0.25))
        (array([0, 2]), True)
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Compute all of the next one."""
        self._numbers: NDArray[np.intp] = np.empty(0, dtype=np.intp)
        self._kernel = np.empty((0, 0))

    def order(self, numbers: NDArray[np.intp]) -> NDArray[np.intp]:
        """These points, those first that are known."""
        among = self._among(numbers)
        known = self._numbers[among[self._numbers]]
        among[known] = False
        return np.concatenate([known, np.flatnonzero(among)])

    def _among(self, numbers: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Of each number whether it is one of these."""
        among = np.zeros(1 + int(max(numbers.max(initial=-1), self._numbers.max(initial=-1))), dtype=bool)
        among[numbers] = True
        return among

    def renewed(self, numbers: NDArray[np.intp], offsets: FloatArray, squares: FloatArray) -> FloatArray:
        """The kernel above the diagonal; anything below. It is kept: whoever writes into it makes a copy.

        Args:
            numbers: as `order` puts them.
            offsets: of these points from anywhere, shape (n, d).
            squares: of their lengths.
        """
        places = np.flatnonzero(self._among(numbers)[self._numbers])
        kernel, known = np.empty((len(numbers), len(numbers))), len(places)
        kernel[:known, :known] = self._kernel[places].take(places, axis=1)  # rows first: they are whole
        fill_kernel(kernel, offsets, squares, known)
        self._numbers, self._kernel = numbers, kernel
        return kernel
