"""A client's own queries: the only place where an objective is evaluated, and where queries are counted."""

from __future__ import annotations

from concurrent.futures import CancelledError
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fzoos.arrays import Buffer, FloatArray
from fzoos.errors import ObjectiveError
from fzoos.problem import BatchObjective, Box, EvaluationError

__all__ = ["OnFailure", "Trajectory"]

OnFailure = Literal["raise", "skip"]


class Trajectory:
    """Evaluates a client's objective at points of the unit cube, counts, and remembers.

    Args:
        objective: (n, d) -> (n,) in the user's coordinates.
        box: the user's bounds.
        client: the client's index, for error messages.
        on_failure: what a NaN or infinite value does: end the run, or be recorded as failed and left out.
        keep: whether (x, y) are kept; finite-difference algorithms never look back.

    Example:
        >>> import numpy as np
        >>> from fzoos.problem import Box, as_batch
        >>> from fzoos.trajectory import Trajectory
        >>> t = Trajectory(as_batch(lambda x: x.sum(), vectorized=False), Box.of((0, 10), dim=2))
        >>> t.query(np.array([[0.5, 0.5], [1.0, 0.0]]))
        array([10., 10.])
        >>> t.count, t.x.shape
        (2, (2, 2))
    """

    def __init__(
        self,
        objective: BatchObjective,
        box: Box,
        client: int = 0,
        on_failure: OnFailure = "raise",
        keep: bool = True,
    ) -> None:
        self._objective, self._box, self._client, self._on_failure, self._keep = (
            objective,
            box,
            client,
            on_failure,
            keep,
        )
        self._x = Buffer(np.empty(0), columns=box.dim)
        self._y = Buffer(np.empty(0), columns=1)
        self.round = 0
        self.count = 0  # every evaluation, failed ones included
        self.failed = 0
        self.stopped = False  # set from outside when the run has ended: nothing more is to be paid for

    def query(self, x: FloatArray) -> FloatArray:
        """Evaluate the rows of x, shape (n, d), in one batch; NaN marks a failed one."""
        if not len(x):
            return np.empty(0)
        if self.stopped:
            raise CancelledError("the run has ended")
        points = self._box.from_cube(x)
        self.count += len(x)
        try:
            y = self._objective(points.copy())
        except EvaluationError as failure:
            self.count -= len(x) - failure.evaluated
            error = failure.__cause__
            what = f"raised {type(error).__name__}: {error}"
            raise ObjectiveError(what, self._client, self.round, points[failure.row]) from error
        good = np.isfinite(y)
        if not good.all():
            if self._on_failure == "raise":
                first = int(np.argmin(good))
                raise ObjectiveError(f"returned {y[first]}", self._client, self.round, points[first])
            self.failed += int(np.sum(~good))
            y = np.where(good, y, np.nan)
        if self._keep:
            n = self._x.rows
            self._x.grow(int(good.sum()))[n:] = x[good]
            self._y.grow(int(good.sum()))[n:, 0] = y[good]
        return y

    def __len__(self) -> int:
        return self._x.rows

    @property
    def dim(self) -> int:
        """d."""
        return self._box.dim

    @property
    def x(self) -> FloatArray:
        """The points kept, in the unit cube, shape (n, d); failed ones are not among them."""
        return self._x.array  # type: ignore[no-any-return]

    @property
    def y(self) -> FloatArray:
        """Their observations, shape (n,)."""
        return self._y.array[:, 0]  # type: ignore[no-any-return]

    def nearest(self, x: FloatArray, count: int | None) -> NDArray[np.int64]:
        """Indices, in the order of the queries, of the `count` points nearest to x (None: of all points)."""
        if count is None or len(self) <= count:
            return np.arange(len(self))
        offset = self.x - x
        squared = np.einsum("nd,nd->n", offset, offset)
        return np.sort(np.argpartition(squared, count)[:count])
