"""Queries of several clients at the same moment: each objective is asked by itself, all around it is done at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fzoos._util.arrays import Array, FloatArray, to_host
from fzoos._util.cores import on_cores, shares
from fzoos.objectives.asking import Purpose
from fzoos.objectives.constraints import all_finite
from fzoos.objectives.trajectory import Trajectory

__all__ = ["Places", "query_at_once"]

_LARGE = 200_000  # numbers in all points: from there on several cores copy them sooner than one


@dataclass(frozen=True)
class Places:
    """Points that several clients are to ask, on the host.

    Args:
        x: in the cube, shape (N, n, d).
        points: in the user's coordinates; None: each client converts its own.
    """

    x: FloatArray
    points: FloatArray | None

    @classmethod
    def of(cls, trajectories: Sequence[Trajectory], x: Array) -> Places:
        """From points of the cube, which may be on a device: conversion is done there."""
        first = trajectories[0]
        if len(trajectories) < 2 or any(not t.is_plain or t.box is not first.box for t in trajectories):
            return cls(to_host(x), None)
        there = first.box.from_cube_there(x)
        here = to_host(x)
        return cls(here, first.box.from_cube(here) if there is None else to_host(there))


def query_at_once(
    trajectories: Sequence[Trajectory],
    places: Places,
    purpose: Purpose,
    go_on: Callable[[int, Exception], bool],
) -> list[FloatArray | None] | None:
    """`Trajectory.query` of several clients, each at its own points: what was observed; None: this one has failed.

    Args:
        trajectories: of the clients.
        places: what they ask.
        purpose: what the queries are for.
        go_on: told which of them has failed and why; if the others do not go on, nothing is returned.

    Example:
        >>> import numpy as np
        >>> from fzoos.objectives.at_once import Places, query_at_once
        >>> from fzoos.objectives.box import Box
        >>> from fzoos.objectives.trajectory import Trajectory
        >>> box = Box.of((0, 1), dim=2)
        >>> clients = [Trajectory(lambda x, a=a: a * x.sum(), box) for a in (1.0, 2.0)]
        >>> query_at_once(clients, Places.of(clients, np.ones((2, 1, 2))), "query", lambda number, error: False)
        [array([2.]), array([4.])]
    """
    observed: list[FloatArray | None] = [None] * len(trajectories)
    asked: dict[int, tuple[FloatArray, FloatArray]] = {}  # points and values that are still to be kept
    x, points = list(places.x), places.points
    try:
        for i, trajectory in enumerate(trajectories):
            try:
                if points is None:
                    observed[i] = trajectory.query(x[i], purpose)
                else:
                    asked[i] = trajectory.answers(x[i], points[i], purpose)
            except Exception as error:
                if not go_on(i, error):
                    return None
    finally:  # an answer is kept, whatever became of the others
        if asked:
            _adopt(trajectories, asked, observed, x, _laid(trajectories, places.x))
    return observed


def _laid(trajectories: Sequence[Trajectory], x: FloatArray) -> FloatArray:
    """Write the points where they will be kept: |x|^2 of all, shape (N, n).

    After the objectives have been asked, and not meanwhile: threads that take memory and copy slow them down by more
    than is gained.
    """
    squares = np.empty(x.shape[:2])

    def lay(share: range) -> None:
        rows = x[share.start : share.stop]
        np.vecdot(rows, rows, out=squares[share.start : share.stop])
        for i in share:
            trajectories[i].lay(x[i])

    if x.size < _LARGE:
        lay(range(len(x)))
    else:
        on_cores(lay, shares(len(x)))
    return squares


def _adopt(
    trajectories: Sequence[Trajectory],
    asked: dict[int, tuple[FloatArray, FloatArray]],
    observed: list[FloatArray | None],
    wanted: Sequence[FloatArray],
    squares: FloatArray,
) -> None:
    """`Trajectory.adopt` of all; where values are numbers, of the points that were wanted, these have been laid."""
    for i, (x, values) in asked.items():
        if values.ndim == 1 and x is wanted[i] and all_finite(values):
            observed[i] = values
            trajectories[i].take(values, squares[i])
        else:  # constraints, failures, or other points in their place
            centre = trajectories[i].row_of_centre(wanted[i]) if values.ndim > 1 else None
            observed[i] = trajectories[i].adopt(x, values, centre)
