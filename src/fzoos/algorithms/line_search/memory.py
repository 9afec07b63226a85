"""Which of a client's points the surrogate of all rounds is made of: the nearest, found without measuring all of them.

A point that was r away is at least r - |move| away after a move of x. As long as that is further than the points that
are in use, its distance need not be computed again: a round costs what it costs however long the run is.
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

_DIGITS = 9  # of squared distances
_ALIKE = 2e-9  # two that differ by more are told apart
_LIKELY = 2  # points that are measured first, over those that are wanted
_MARGIN = 1e-12  # what rounding may take from a bound


class Near(NamedTuple):
    """Points by their numbers, their offsets from the centre, shape (n, d), and the squares of these."""

    numbers: NDArray[np.intp]
    offsets: FloatArray
    squares: FloatArray


class Memory:
    """Marks points of a trajectory, by their numbers in it, and finds the nearest of the others.

    Args:
        trajectory: the client's queries.

    Example:
        >>> import numpy as np
        >>> from fzoos.algorithms.line_search.memory import Memory
        >>> from fzoos.objectives.trajectory import Trajectory
        >>> trajectory, x = Trajectory(dim=1), np.array([[0.1], [0.4], [0.9]])
        >>> _ = trajectory.add(x, x[:, 0])
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
        return self.around(x, count, private=private).numbers

    def around(
        self,
        x: FloatArray,
        count: int,
        *,
        private: bool,
        arranged: Callable[[NDArray[np.intp]], NDArray[np.intp]] | None = None,
    ) -> Near:
        """The same points with their offsets; in another order where they are to be `arranged`."""
        self._extend()
        self._bounds = np.maximum(self._bounds - math.sqrt(float(np.sum((x - self._at) ** 2))) - _MARGIN, 0.0)
        self._at = x.copy()
        usable = np.flatnonzero(~self._left_out if private else ~(self._left_out | self._private))
        count = min(count, len(usable))
        near = self._may_be_near(usable, x, count) if count else usable[:0]
        offsets = self._trajectory.x[near]
        offsets -= x
        squares = row_squares(offsets)
        # The arms of a star are all as far: the newest first, so that the choice is not left to rounding.
        places: NDArray[np.intp] = np.lexsort((-near, np.round(squares, _DIGITS)))[:count]
        numbers = near[places]
        if arranged is not None:
            numbers = arranged(numbers)
            places = np.searchsorted(near, numbers)
        return Near(numbers, offsets[places], squares[places])

    def state(self) -> StateDict:
        """The marks, and the bounds on distances."""
        marks = {"left_out": self._left_out, "private": self._private}
        return {**marks, "bounds": self._bounds, "at": self._at}

    def restore(self, state: StateDict) -> None:
        """Replace them by what `state` returned."""
        self._left_out, self._private = (state[name].astype(bool) for name in ("left_out", "private"))
        self._bounds, self._at = state["bounds"], state["at"]

    def _may_be_near(self, usable: NDArray[np.intp], x: FloatArray, count: int) -> NDArray[np.intp]:
        """Those that may be among the nearest, by distances to fewer digits: one pass over the points, no copy."""
        bounds = self._bounds[usable]
        # Of points of the last round nothing is known, and some are far away: the others must be as many as are wanted.
        several = min(len(usable), _LIKELY * count)
        likely = np.argpartition(bounds, several - 1)[:several] if several < len(usable) else np.arange(len(usable))
        points = np.sort(usable[likely])
        rough, error = self._measure(points, x)
        others = bounds * bounds <= float(np.partition(rough, count - 1)[count - 1]) + error + _ALIKE
        others[likely] = False
        rest = usable[others]
        if len(rest):
            more, further_error = self._measure(rest, x)
            points, rough, error = np.append(points, rest), np.append(rough, more), max(error, further_error)
        near = points[rough <= float(np.partition(rough, count - 1)[count - 1]) + 2.0 * error + _ALIKE]
        return np.sort(near)

    def _measure(self, points: NDArray[np.intp], x: FloatArray) -> tuple[FloatArray, float]:
        """Rough squared distances of some points, and how wrong they may be; their bounds are renewed."""
        rough, error = self._trajectory.rough_distances(x, points)
        self._bounds[points] = np.sqrt(np.maximum(rough - error, 0.0))
        return rough, error

    def _extend(self) -> None:
        """Room for what was asked since; nothing is known of its distances."""
        new = len(self._trajectory) - len(self._bounds)
        if new:
            nothing = np.zeros(new, dtype=bool)
            self._left_out = np.concatenate([self._left_out, nothing])
            self._private = np.concatenate([self._private, nothing])
            self._bounds = np.concatenate([self._bounds, np.zeros(new)])
