"""The points of the surrogate of all rounds: the nearest ones, found without measuring the distances of all points.

A point at the distance r is at least r - |move| away after a move of x. While that is farther than the points in use,
its distance need not be computed again, so that the cost of a round does not grow with the number of rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fzoos._util.arrays import FloatArray
from fzoos._util.panels import row_squares
from fzoos._util.states import StateDict
from fzoos.objectives.trajectory import Trajectory

__all__ = ["Memory", "Near"]

_DIGITS = 9  # of squared distances, to which they are compared
_EQUAL = 2e-9  # squared distances that differ by more are not equal to these digits
_FIRST = 2  # points that are measured first, over those that are wanted
_MARGIN = 1e-12  # the largest rounding error of a bound


class Near(NamedTuple):
    """Points: their numbers, their offsets from the centre, shape (n, d), and squared distances."""

    numbers: NDArray[np.intp]
    offsets: FloatArray
    squares: FloatArray


class Memory:
    """Marks points of a trajectory, and finds the nearest of the others."""

    def __init__(self, trajectory: Trajectory) -> None:
        self._trajectory = trajectory
        self._excluded = np.empty(0, dtype=bool)
        self._private = np.empty(0, dtype=bool)
        self._bounds = np.empty(0)  # of the distances from `_at`, from below
        self._at = np.zeros(trajectory.dim)

    def exclude(self, points: Iterable[int]) -> None:
        """Exclude points, by their numbers in the trajectory."""
        self._extend()
        self._excluded[list(points)] = True

    def mark_private(self, first: int) -> None:
        """Mark the points from this one on as queried by this client alone."""
        self._extend()
        self._private[first:] = True

    def nearest(
        self,
        x: FloatArray,
        count: int,
        *,
        private: bool,
        arranged: Callable[[NDArray[np.intp]], NDArray[np.intp]] | None = None,
    ) -> Near:
        """Return at most `count` points, the nearest first; of equally near ones the newest first.

        Args:
            x: the centre, shape (d,).
            count: the number of points.
            private: whether points that only this client has queried are included.
            arranged: puts the numbers of the points into another order.
        """
        self._extend()
        self._bounds = np.maximum(self._bounds - math.sqrt(float(np.sum((x - self._at) ** 2))) - _MARGIN, 0.0)
        self._at = x.copy()
        usable = np.flatnonzero(~self._excluded if private else ~(self._excluded | self._private))
        count = min(count, len(usable))
        near = self._may_be_near(usable, x, count) if count else usable[:0]
        offsets = self._trajectory.x[near]
        offsets -= x
        squares = row_squares(offsets)
        # Points of a design are equally far: the newest first, so that rounding does not decide.
        places: NDArray[np.intp] = np.lexsort((-near, np.round(squares, _DIGITS)))[:count]
        numbers = near[places]
        if arranged is not None:
            numbers = arranged(numbers)
            places = np.searchsorted(near, numbers)
        return Near(numbers, offsets[places], squares[places])

    def state(self) -> StateDict:
        """Return the marks, and the bounds of distances."""
        marks = {"excluded": self._excluded, "private": self._private}
        return {**marks, "bounds": self._bounds, "at": self._at}

    def restore(self, state: StateDict) -> None:
        """Restore what `state` returned."""
        self._excluded, self._private = (state[name].astype(bool) for name in ("excluded", "private"))
        self._bounds, self._at = state["bounds"], state["at"]

    def _may_be_near(self, usable: NDArray[np.intp], x: FloatArray, count: int) -> NDArray[np.intp]:
        """Return the points that may be among the nearest, by distances to fewer digits: one pass, no copy."""
        bounds = self._bounds[usable]
        # New points have no bounds, and some are far away: the other points must be as many as are wanted.
        several = min(len(usable), _FIRST * count)
        likely = np.argpartition(bounds, several - 1)[:several] if several < len(usable) else np.arange(len(usable))
        points = np.sort(usable[likely])
        rough, error = self._measure(points, x)
        others = bounds * bounds <= float(np.partition(rough, count - 1)[count - 1]) + error + _EQUAL
        others[likely] = False
        rest = usable[others]
        if len(rest):
            more, further_error = self._measure(rest, x)
            points, rough, error = np.append(points, rest), np.append(rough, more), max(error, further_error)
        near = points[rough <= float(np.partition(rough, count - 1)[count - 1]) + 2.0 * error + _EQUAL]
        return np.sort(near)

    def _measure(self, points: NDArray[np.intp], x: FloatArray) -> tuple[FloatArray, float]:
        """Return approximate squared distances of some points and their largest error; update the bounds."""
        rough, error = self._trajectory.rough_distances(x, points)
        self._bounds[points] = np.sqrt(np.maximum(rough - error, 0.0))
        return rough, error

    def _extend(self) -> None:
        """Add the points that were queried since, without bounds."""
        new = len(self._trajectory) - len(self._bounds)
        if new:
            nothing = np.zeros(new, dtype=bool)
            self._excluded = np.concatenate([self._excluded, nothing])
            self._private = np.concatenate([self._private, nothing])
            self._bounds = np.concatenate([self._bounds, np.zeros(new)])
