"""Queries of several clients at the same moment: each objective is asked by itself, all around it is done at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fzoos._util.arrays import FloatArray
from fzoos._util.cores import on_cores
from fzoos.objectives.asking import Purpose
from fzoos.objectives.trajectory import Trajectory

__all__ = ["query_at_once"]

_LARGE = 200_000  # numbers in all points: from there on several cores copy them sooner than one


def query_at_once(
    trajectories: Sequence[Trajectory],
    x: FloatArray,
    purpose: Purpose,
    go_on: Callable[[int, Exception], bool],
) -> list[FloatArray | None] | None:
    """`Trajectory.query` of several clients, each at its own points: what was observed; None: this one has failed.

    Args:
        trajectories: of the clients, who have one box.
        x: the points of each, in the cube, shape (N, n, d).
        purpose: what the queries are for.
        go_on: told which of them has failed and why; if the others do not go on, nothing is returned.

    Example:
        >>> import numpy as np
        >>> from fzoos.objectives.at_once import query_at_once
        >>> from fzoos.objectives.box import Box
        >>> from fzoos.objectives.trajectory import Trajectory
        >>> box = Box.of((0, 1), dim=2)
        >>> clients = [Trajectory(lambda x, a=a: a * x.sum(), box) for a in (1.0, 2.0)]
        >>> query_at_once(clients, np.ones((2, 1, 2)), "query", lambda number, error: False)
        [array([2.]), array([4.])]
    """
    observed: list[FloatArray | None] = [None] * len(trajectories)
    alike = len(trajectories) > 1 and all(t.is_plain and t.box is trajectories[0].box for t in trajectories)
    asked: dict[int, tuple[FloatArray, FloatArray]] = {}  # points and values that are still to be kept
    points = _from_cube(trajectories[0], x) if alike else []
    try:
        for i, trajectory in enumerate(trajectories):
            try:
                if alike:
                    asked[i] = trajectory.answers(x[i], points[i], purpose)
                else:
                    observed[i] = trajectory.query(x[i], purpose)
            except Exception as error:
                if not go_on(i, error):
                    return None
    finally:  # an answer is kept, whatever became of the others
        _adopt(trajectories, asked, observed, x)
    return observed


def _from_cube(trajectory: Trajectory, x: FloatArray) -> list[FloatArray]:
    """In the user's coordinates, an array for each: it is the objective's own."""
    found: list[FloatArray] = [x[0]] * len(x)

    def convert(i: int) -> None:
        found[i] = trajectory.box.from_cube(x[i])

    _each(convert, range(len(x)), x.size)
    return found


def _adopt(
    trajectories: Sequence[Trajectory],
    asked: dict[int, tuple[FloatArray, FloatArray]],
    observed: list[FloatArray | None],
    wanted: FloatArray,
) -> None:
    def keep(i: int) -> None:
        observed[i] = trajectories[i].adopt(*asked[i])

    if any(values.ndim > 1 for _, values in asked.values()):  # constraints, which the first answer told
        for i in asked:
            observed[i] = trajectories[i].adopt(*asked[i], trajectories[i].row_of_centre(wanted[i]))
    else:
        _each(keep, list(asked), wanted.size)


def _each(work: Callable[[int], None], numbers: Sequence[int], size: int) -> None:
    if size >= _LARGE:
        on_cores(work, numbers)
        return
    for i in numbers:
        work(i)
