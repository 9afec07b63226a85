"""Which of a client's points the surrogate of all rounds is made of: the nearest, found without measuring all of them.

A point that was r away is at least r - |move| away after a move of x. As long as that is further than the points that
are in use, its distance need not be computed again: a round costs what it costs however long the run is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fzoos._util.arrays import FloatArray
from fzoos._util.panels import row_squares
from fzoos.objectives.trajectory import Trajectory

__all__ = ["Memory"]

_DIGITS = 9  # of squared distances
_ALIKE = 2e-9  # two that differ by more are told apart
_MARGIN = 1e-12  # what rounding may take from a bound


class Memory:
    """Marks points of a trajectory, by their numbers in it, and finds the nearest of the others.

    Args:
        trajectory: the client's queries.

    Example:
        >>> import numpy as np
        >>> from fzoos.algorithms.fzoos.memory import Memory
        >>> from fzoos.objectives.box import Box
        >>> from fzoos.objectives.trajectory import Trajectory
        >>> trajectory = Trajectory(lambda x: x.sum(), Box.of((0, 1), dim=1))
        >>> _ = trajectory.query(np.array([[0.1], [0.4], [0.9]]))
        >>> memory = Memory(trajectory)
        >>> memory.leave_out([1])
        >>> memory.nearest(np.array([0.5]), 2, private=True)
        array([2, 0])
    """

    def __init__(self, trajectory: Trajectory) -> None:
        self._trajectory = trajectory
        self._left_out = np.empty(0, dtype=bool)
        self._private = np.empty(0, dtype=bool)
        self._bounds = np.empty(0)  # every point is at least so far from `_at`
        self._at = np.zeros(trajectory.dim)

    def leave_out(self, points: Iterable[int]) -> None:
        """Points that are never used again."""
        self._extend()
        self._left_out[list(points)] = True

    def keep_private(self, first: int) -> None:
        """Points from this one on were asked by this client alone."""
        self._extend()
        self._private[first:] = True

    def nearest(self, x: FloatArray, count: int, *, private: bool) -> NDArray[np.intp]:
        """At most `count` points, the nearest first; of those that are as far the newest.

        Args:
            x: the centre, shape (d,).
            count: how many.
            private: whether points count that only this client has asked.
        """
        self._extend()
        self._bounds = np.maximum(self._bounds - math.sqrt(float(np.sum((x - self._at) ** 2))) - _MARGIN, 0.0)
        self._at = x.copy()
        usable = np.flatnonzero(~self._left_out if private else ~(self._left_out | self._private))
        count = min(count, len(usable))
        if not count:
            return usable
        near = self._may_be_near(usable, x, count)
        squares = self._squares(near, x)
        # The arms of a star are all as far: the newest first, so that the choice is not left to rounding.
        chosen: NDArray[np.intp] = near[np.lexsort((-near, np.round(squares, _DIGITS)))[:count]]
        return chosen

    def _may_be_near(self, usable: NDArray[np.intp], x: FloatArray, count: int) -> NDArray[np.intp]:
        """Those that may be among the nearest, by distances to fewer digits: one pass over the points, no copy."""
        bounds = self._bounds[usable]
        likely = usable[np.argpartition(bounds, count - 1)[:count]] if count < len(usable) else usable
        first = int(likely.min())
        rough, error = self._trajectory.rough_distances(x, first)
        points = usable[bounds * bounds <= float(rough[likely - first].max()) + error + _ALIKE]
        if points[0] < first:  # some that were further off, and have come closer
            more, further_error = self._trajectory.rough_distances(x, int(points[0]), first)
            first, rough, error = int(points[0]), np.concatenate([more, rough]), max(error, further_error)
        rough = rough[points - first]
        self._bounds[points] = np.sqrt(np.maximum(rough - error, 0.0))
        return points[rough <= float(np.partition(rough, count - 1)[count - 1]) + 2.0 * error + _ALIKE]

    def _squares(self, points: NDArray[np.intp], x: FloatArray) -> FloatArray:
        gap = self._trajectory.x[points]
        gap -= x
        return row_squares(gap)

    def _extend(self) -> None:
        """Room for what was asked since; nothing is known of its distances."""
        new = len(self._trajectory) - len(self._bounds)
        if new:
            nothing = np.zeros(new, dtype=bool)
            self._left_out = np.concatenate([self._left_out, nothing])
            self._private = np.concatenate([self._private, nothing])
            self._bounds = np.concatenate([self._bounds, np.zeros(new)])
