"""The points of a design, x and x + t H u_j, and the gradient that their values give.

The offsets are orthogonal, so that the points can be used in parts: each part gives the gradient along its own
directions, and these add up. All points of a part have the same distance from x: if f is lower at x than around it, as
it is if x was chosen as the lowest of many points, the trend explains that, and not the slopes.

In more than 1024 dimensions moving numbers takes longer than computing with them. So they are written once, and each
part, x first and then its points, is every p-th row of one array:

    row      0  1  ...  p - 1  p    p + 1  ...
    point    x  x       x      x_1  x_2             queried are rows p - 1, p, ...;  part k is rows k, k + p, ...
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fzoos._util.arrays import FloatArray
from fzoos._util.panels import panels
from fzoos.surrogates.trend import Slope, fit_slope

__all__ = ["MOST_POINTS", "SPREAD", "Design"]

SPREAD = 1.5  # the distance of wide points over that of narrow ones
MOST_POINTS = 512  # the largest number of points in one surrogate, which costs their square times d
_FEW = 8  # points of a design that is not divided
_RIDGE = 1e-8  # of a design's own surrogate


class Design:
    """A design: x and the points around it, x + t H u for the rows u, which are projected to the cube."""

    def __init__(
        self, x: FloatArray, length: float, rows: FloatArray, project: Callable[[FloatArray, FloatArray], object]
    ) -> None:
        count = 1 + len(rows)
        self._parts = 2 * math.ceil(count / (2 * MOST_POINTS)) if count > _FEW else 1  # each has a trend of its own
        self._x, lengths = x, length * _distances(len(rows))
        self._rows = np.empty((self._parts - 1 + count, len(x)))
        self.points = self._rows[self._parts - 1 :]
        self._rows[: self._parts] = x
        project(self.points[0], self.points[0])
        for part in panels(*rows.shape):
            points = np.multiply(lengths[part, None], rows[part], out=self.points[1:][part])
            points += x
            project(points, points)

    def slope(self, values: FloatArray, good: NDArray[np.bool_]) -> Slope:
        """Return the gradient by this design alone, by the `good` values; the points are overwritten."""
        offsets, parts = self._rows, self._parts
        offsets[: parts - 1] = self.points[0]
        squares = np.empty(len(offsets))
        for panel in panels(*offsets.shape):
            rows = offsets[panel]
            rows -= self._x
            np.add.reduce(rows * rows, axis=1, out=squares[panel])
        slopes, complete = [], bool(good[1:].all())
        for k in range(parts):
            rows, own = offsets[k::parts], np.concatenate([values[:1], values[1 + k :: parts]])
            known = squares[k::parts]
            if not complete:
                usable = np.append(True, good[1 + k :: parts])
                rows, own, known = rows[usable], own[usable], known[usable]
            if len(own) > 1:
                slopes.append(fit_slope(rows, own, _RIDGE, known))
        return Slope(np.sum([s.gradient for s in slopes], axis=0), float(np.mean([s.curvature for s in slopes])))


def _distances(count: int) -> FloatArray:
    """Return the signed distances of the points over H: wide and narrow in turn, two on each side in turn."""
    number = np.arange(count)
    lengths = np.where(number % 2, SPREAD**-0.5, SPREAD**0.5)
    distances: FloatArray = np.where(number // 2 % 2, lengths, -lengths)
    return distances
