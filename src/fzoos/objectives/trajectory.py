"""A client's own queries, in the unit cube: what was asked, what came of it, and what is observed there."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fzoos._util.arrays import FloatArray
from fzoos._util.buffer import Buffer
from fzoos.objectives.asking import Asking, Ledger, OnFailure, Purpose
from fzoos.objectives.box import Box, Objective
from fzoos.objectives.constraints import Merit, all_finite, is_finite, join_values
from fzoos.objectives.parallel import PointPool

__all__ = ["Ledger", "OnFailure", "Purpose", "Trajectory"]

_SAME = 1e-12  # of the cube: another machine may work out the server's x with other last bits

_BLOCK = 512  # points
_PICKED = 3  # to copy a point costs as much as to read so many

_ROUNDING = 1e-12  # share of |p|^2 that is lost in it, and more


class Trajectory(Asking):
    """Evaluates a client's objective at points of the unit cube, counts, and remembers.

    Args:
        objective: the user's function, (d,) -> float or vectorised (n, d) -> (n,), in the user's coordinates.
        box: the user's bounds.
        vectorized: whether the objective takes a batch; otherwise it is called point by point.
        client: the client's index, for error messages.
        on_failure: what an exception and a NaN or infinite value do: end the run, or be recorded as failed and left
            out. The first failure is logged and stays in `first_failure`.
        keep: whether (x, y) are stored; algorithms of finite differences do not need them.
        ledger: stores queries on disk, and recalls them after a restart; None: they are in memory only.
        seed: of how points are rounded, where not every point of the box can be asked.
        pool: asks several points at the same time; None: one after the other, here.

    Example:
        >>> import numpy as np
        >>> from fzoos.objectives.box import Box
        >>> from fzoos.objectives.trajectory import Trajectory
        >>> t = Trajectory(lambda x: x.sum(), Box.of((0, 10), dim=2))
        >>> t.query(np.array([[0.5, 0.5], [1.0, 0.0]]))
        array([10., 10.])
        >>> t.count, t.x.shape
        (2, (2, 2))
    """

    not_state = ("box", "first_failure", "_objective", "_ledger", "_pool", "_memory")  # see `ObjectState`

    def __init__(
        self,
        objective: Objective,
        box: Box,
        *,
        vectorized: bool = False,
        client: int = 0,
        on_failure: OnFailure = "raise",
        keep: bool = True,
        ledger: Ledger | None = None,
        seed: np.random.SeedSequence | None = None,
        pool: PointPool | None = None,
    ) -> None:
        super().__init__(objective, vectorized, client, on_failure, ledger, pool)
        self.box, self._keep = box, keep
        self._rounding = _rounding_generator(seed)
        self._x = Buffer(np.empty(0), columns=box.dim)
        self._y = Buffer(np.empty(0), columns=1)
        self._norms = Buffer(np.empty(0), columns=1)  # |x|^2 of each point
        self._table: Buffer | None = None  # f and c of each point, where there are constraints
        self.merit: Merit | None = None  # what is observed then, in place of f
        self.version = 0  # goes up when the observations of points asked before change
        self._centre: FloatArray | None = None  # the server's x of this round
        self.violation: float | None = None  # the largest c there, once it has been asked
        self.there: FloatArray | None = None  # f and c there
        self._known: tuple[FloatArray, float] | None = None  # the last value that was asked for F alone
        self._in_cube: FloatArray | None = None  # what is being asked
        self.failed = 0

    @property
    def survives_failures(self) -> bool:
        """Whether a run goes on where a value has failed."""
        return self._on_failure == "skip"

    @property
    def values(self) -> FloatArray:
        """Of all queries in their order, without those that ended the run; where there is no ledger: `ValueMemory`."""
        return self._memory.values

    def remember(self, values: FloatArray, unanswered: int = 0) -> None:
        """The values of the first queries are known, and are not asked for again.

        Args:
            values: those of an earlier trajectory.
            unanswered: queries that it paid for and that have none.
        """
        self._memory.remember(values)
        self.values_asked += unanswered

    def query(self, x: FloatArray, purpose: Purpose = "query", *, spread: bool = True) -> FloatArray:
        """Evaluate the rows of x, shape (n, d), in one batch if the objective takes batches; NaN marks a failed one.

        Where points are rounded, draws are spread evenly over the rows; without `spread` each is drawn by itself.
        """
        if not len(x):
            return np.empty(0)
        wanted = x
        if self.box.rounds:  # surrogates learn from what is really asked
            parts = [x] if spread else [x[i : i + 1] for i in range(len(x))]
            alike = purpose == "difference"
            x = np.concatenate([self.box.asked(part, self._rounding, alike) for part in parts])
        known = self._known_at(x[0])
        if known is None:
            x, values = self._asked(x, purpose)
        else:
            rest, values = self._asked(x[1:], purpose) if len(x) > 1 else (x[1:], np.empty(0))
            x, values = np.vstack([x[:1], rest]), np.append(known, values)
        constrained = values.ndim > 1 or self.merit is not None
        return self.adopt(x, values, self._row_of_centre(wanted) if constrained else None)

    def value(self, x: FloatArray) -> float:
        """f at what x, shape (d,), means, for whoever shares it; NaN: it failed. It does not join the trajectory.

        If the next query begins there, it is not made again.
        """
        x = self.box.meant(x)
        points = self.box.from_cube(x[None])
        self.values_asked, self.count = self.values_asked + 1, self.count - 1  # which counts it again
        ((_, y),) = self._ask([points], "value")
        f = float(y[0] if y.ndim == 1 else y[0, 0])
        self.failed += int(np.isnan(f))
        moved = y.ndim == 2 or np.any(self._really_asked(x[None], points) != x)  # constraints are asked again there
        self._known = None if moved else (x, f)
        return f

    def _known_at(self, x: FloatArray) -> float | None:
        """The value that was asked for F, if it is that of the first point after it."""
        found, self._known = self._known, None
        if found is None or np.max(np.abs(found[0] - x)) > _SAME:
            return None
        self.values_asked, self.count = self.values_asked - 1, self.count + 1  # now it is the algorithm's
        self.failed -= int(np.isnan(found[1]))
        return found[1]

    def _asked(self, x: FloatArray, purpose: Purpose) -> tuple[FloatArray, FloatArray]:
        """The rows of x as they were asked, and their values."""
        points = self.box.from_cube(x)
        batches = [points] if self._vectorized else [points[i : i + 1] for i in range(len(points))]
        self._in_cube = x
        try:
            answers = self._ask(batches, purpose)
        finally:
            self._in_cube = None
        if len(answers) == 1:
            asked, values = answers[0]
        else:
            asked, values = np.concatenate([part for part, _ in answers]), join_values([part for _, part in answers])
        if self._ledger is not None:  # it has, from before a restart, what another machine rounded or chose differently
            other = np.any(asked != points, axis=1)
            x = np.where(other[:, None], self.box.scale(asked), x) if other.any() else x
        return self._really_asked(x, asked), values

    @property
    def _gives_away(self) -> bool:
        here = self._vectorized and self._ledger is None and self._pool is None
        return here and self._in_cube is not None and not hasattr(self._objective, "asked_instead")

    def _as_asked(self, points: FloatArray) -> FloatArray:
        if not self._gives_away or self._in_cube is None:
            return points
        return self.box.from_cube(self._in_cube[-len(points) :])

    def begin_round(self, x: FloatArray) -> bool:
        """The server's x of a new round, where constraints are asked; whether there are any, as far as is known."""
        self._centre, self.violation = x, None
        return self.merit is not None

    def _row_of_centre(self, x: FloatArray) -> int | None:
        """Which of these points is the server's x, if it has not been asked in this round."""
        if self._centre is None or self.violation is not None:
            return None
        for row in np.flatnonzero(x[:, 0] == self._centre[0]):
            if np.array_equal(x[row], self._centre):
                return int(row)
        return None

    def _really_asked(self, x: FloatArray, points: FloatArray) -> FloatArray:
        """The points of the cube whose values came: people may have evaluated others in their place."""
        instead = getattr(self._objective, "asked_instead", None)
        moved: dict[int, FloatArray] = {} if instead is None else instead(points)
        if moved:
            x = x.copy()
            for row, point in moved.items():
                x[row] = self.box.to_cube(point)
        return x

    def adopt(self, x: FloatArray, values: FloatArray, centre: int | None = None) -> FloatArray:
        """Add points of the cube whose values are known, and return what is observed there; NaN marks a failed one.

        Args:
            x: the points, shape (n, d).
            values: f, shape (n,), or f and c, shape (n, 1 + k).
            centre: which of them is the server's x.
        """
        if all_finite(values):
            good: NDArray[np.bool_] | slice = slice(None)
        else:
            good = is_finite(values)
            self.failed += int(np.sum(~good))
        y = values if values.ndim == 1 and self.merit is None else self._constrained(x, values, centre)
        if self._keep:
            kept = np.ascontiguousarray(x[good])  # sums of rows in another order of memory would have other last bits
            self._x.append(kept)
            self._y.append(y[good][:, None])
            self._norms.append(np.vecdot(kept, kept)[:, None])
        return y

    def _constrained(self, x: FloatArray, values: FloatArray, centre: int | None) -> FloatArray:
        """The merit of these points, where the objective has constraints."""
        self._check_constraints(values)
        if values.ndim == 1:
            return values
        good = is_finite(values)
        if self.merit is None:
            self.merit, self._table = Merit(values.shape[1] - 1), Buffer(np.empty(0), columns=values.shape[1])
        self.merit.see(x[good], values[good])
        if centre is not None:
            self.violation = float(np.max(values[centre, 1:])) if good[centre] else np.inf
            self.there = values[centre]
            if good[centre] and self.merit.renew(values[centre, 1:]):
                self.observe_again()
        if self._keep:
            assert self._table is not None
            self._table.append(values[good])
        y: FloatArray = np.where(good, self.merit.values(np.where(good[:, None], values, 0.0)), np.nan)
        return y

    def observe_again(self) -> None:
        """Multipliers have changed, and with them every observation."""
        assert self.merit is not None
        self.version += 1
        if self._keep and self._table is not None:
            self._y.array[:, 0] = self.merit.values(self._table.array)

    @property
    def _has_old_data(self) -> bool:
        return len(self) > 0  # asked before the objective has given a value

    def __len__(self) -> int:
        return self._x.rows

    @property
    def dim(self) -> int:
        """d, the number of variables."""
        return self.box.dim

    @property
    def x(self) -> FloatArray:
        """The stored points, in the unit cube, shape (n, d); failed ones are not among them."""
        return self._x.array  # type: ignore[no-any-return]

    @property
    def y(self) -> FloatArray:
        """Their observations, shape (n,)."""
        return self._y.array[:, 0]  # type: ignore[no-any-return]

    @property
    def table(self) -> FloatArray:
        """f and c_1, ..., c_k of the stored points, shape (n, 1 + k), where there are constraints."""
        if self._table is None:
            raise ValueError("there are no constraints")
        return self._table.array  # type: ignore[no-any-return]

    def nearest(self, x: FloatArray, count: int | None) -> NDArray[np.int64]:
        """Indices, in the order of the queries, of the `count` points nearest to x (None: of all points).

        Of points at the same distance the earlier ones come first.
        """
        if count is None or len(self) <= count:
            return np.arange(len(self))
        ranks = self._norms.array[:, 0] - 2.0 * (self.x @ x)  # squared distances, but for |x|^2 which all share
        last = np.partition(ranks, count - 1)[count - 1]
        nearer, ties = np.flatnonzero(ranks < last), np.flatnonzero(ranks == last)
        return np.sort(np.concatenate([nearer, ties[: count - len(nearer)]]))

    def rough_distances(self, x: FloatArray, numbers: NDArray[np.intp]) -> tuple[FloatArray, float]:
        """Squared distances to x of points, given their numbers in rising order, and how wrong they may be.

        |p|^2 - 2 p.x + |x|^2 is one pass over the points, but loses the digits that |p|^2 has in excess.
        """
        norms, own = self._norms.array[numbers, 0], float(x @ x)
        error = _ROUNDING * (float(norms.max(initial=0.0)) + own)
        return norms - 2.0 * self._products(numbers, x) + own, error

    def _products(self, numbers: NDArray[np.intp], x: FloatArray) -> FloatArray:
        """p.x of these points: where most are asked for, all of a block are read, which is faster than to pick some."""
        if not len(numbers):
            return np.empty(0)
        first, last = int(numbers[0]), int(numbers[-1])
        if len(numbers) * _PICKED > last - first:
            return (self.x[first : last + 1] @ x)[numbers - first]
        found, starts = np.empty(len(numbers)), range(first, last + 1, _BLOCK)
        edges = [*np.searchsorted(numbers, starts).tolist(), len(numbers)]
        for start, (begin, end) in zip(starts, pairwise(edges), strict=True):
            some = numbers[begin:end]
            if len(some) * _PICKED >= min(_BLOCK, len(self) - start):
                found[begin:end] = (self.x[start : start + _BLOCK] @ x)[some - start]
            elif len(some):
                found[begin:end] = self.x[some] @ x
        return found


def _rounding_generator(seed: np.random.SeedSequence | None) -> np.random.Generator:
    """Of its own, so that all other random numbers of a run are those of one without rounding."""
    if seed is None:
        return np.random.default_rng(0)
    key = (*seed.spawn_key, *b"asked")
    return np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=key))
