"""The points of a star, x and x + t H u_j, and what their values say of the gradient.

Arms are orthogonal, so that they can be taken a part at a time: each part shows the gradient along its own directions,
and they add up. All arms of a part are as long: should f be lower at x than around it, as it is where x was chosen as
the lowest of many places, then the trend explains that, and not the slopes.

In more than 1024 dimensions moving the numbers takes longer than computing with them. So they are made where they stay,
and each part, x first and then its arms, is every p-th row of one array:

    row      0  1  ...  p - 1  p    p + 1  ...
    point    x  x       x      x_1  x_2             asked are rows p - 1, p, ...;  part k is rows k, k + p, k + 2 p, ...
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fzoos._util.arrays import FloatArray
from fzoos._util.panels import panels
from fzoos.surrogates.trend import Slope, fit_slope

__all__ = ["SPREAD", "TOGETHER", "StarPoints"]

SPREAD = 1.5  # wide arms are so many times as long as narrow ones
TOGETHER = 512  # arms that one surrogate takes at most: it costs their square times d
_FEW = 8  # points of a star that are not divided
_FLOOR = 1e-8  # the ridge of a star's own surrogate


class StarPoints:
    """x, and its arms.

    Args:
        x: the centre, shape (d,).
        length: H.
        rows: the directions u, shape (m, d).
        project: called with points and where to put them in the cube.

    Example:
        >>> import numpy as np
        >>> from fzoos.algorithms.line_search.star_points import StarPoints
        >>> star = StarPoints(np.full(4, 0.5), 0.1, np.eye(4), np.copyto)
        >>> slope = star.slope(np.sum((star.asked - 0.5) ** 2, axis=1), np.ones(5, dtype=bool))
        >>> bool(np.all(abs(slope.gradient) < 1e-6)), round(slope.curvature, 6)
        (True, 2.0)
    """

    def __init__(
        self, x: FloatArray, length: float, rows: FloatArray, project: Callable[[FloatArray, FloatArray], object]
    ) -> None:
        count = 1 + len(rows)
        self._parts = 2 * math.ceil(count / (2 * TOGETHER)) if count > _FEW else 1  # each has a trend of its own
        self._x, lengths = x, length * _arms(len(rows))
        self._rows = np.empty((self._parts - 1 + count, len(x)))
        self.asked = self._rows[self._parts - 1 :]
        self._rows[: self._parts] = x
        project(self.asked[0], self.asked[0])
        for part in panels(*rows.shape):
            arms = np.multiply(lengths[part, None], rows[part], out=self.asked[1:][part])
            arms += x
            project(arms, arms)

    def slope(self, values: FloatArray, good: NDArray[np.bool_]) -> Slope:
        """The gradient by this star alone, as far as values are `good`; the points are gone afterwards."""
        offsets, parts = self._rows, self._parts
        offsets[: parts - 1] = self.asked[0]
        squares = np.empty(len(offsets))
        for panel in panels(*offsets.shape):
            rows = offsets[panel]
            rows -= self._x
            np.add.reduce(rows * rows, axis=1, out=squares[panel])
        found, complete = [], bool(good[1:].all())
        for k in range(parts):
            rows, own = offsets[k::parts], np.concatenate([values[:1], values[1 + k :: parts]])
            known = squares[k::parts]
            if not complete:
                usable = np.append(True, good[1 + k :: parts])
                rows, own, known = rows[usable], own[usable], known[usable]
            if len(own) > 1:
                found.append(fit_slope(rows, own, _FLOOR, known))
        return Slope(np.sum([s.gradient for s in found], axis=0), float(np.mean([s.curvature for s in found])))


def _arms(count: int) -> FloatArray:
    """How long the arms are, over H: wide and narrow by turns, two of them on one side of x and two on the other."""
    number = np.arange(count)
    lengths = np.where(number % 2, SPREAD**-0.5, SPREAD**0.5)
    arms: FloatArray = np.where(number // 2 % 2, lengths, -lengths)
    return arms
