"""A client's trajectory: the points that it has queried, in the unit cube, and their values."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fzoos._util.arrays import FloatArray
from fzoos._util.buffer import Buffer
from fzoos._util.states import StateDict, part_of, prefixed
from fzoos.objectives.constraints import AugmentedLagrangian
from fzoos.objectives.values import all_finite, is_finite

__all__ = ["Trajectory"]

_BLOCK = 512  # points
_PICKED = 3  # to copy a point costs as much as to read this number

_ROUNDING = 1e-12  # share of |p|^2 that is lost in it, and more


class Trajectory:
    """Points of the unit cube and what was observed there; failed points are not among them.

    Args:
        dim: d, the number of variables.
        stores: whether points and values are stored; algorithms of finite differences do not need them.

    Attributes:
        stores_points: whether points and observations are stored.
        lagrangian: what is observed in place of f where there are constraints; None: no value had any yet.
        version: goes up when observations of earlier points change.
    """

    def __init__(self, dim: int, stores: bool = True) -> None:
        self.dim, self.stores_points = dim, stores
        self._clear()

    def _clear(self) -> None:
        self._x = Buffer(np.empty(0), columns=self.dim)
        self._y = Buffer(np.empty(0), columns=1)
        self._norms = Buffer(np.empty(0), columns=1)  # |x|^2 of each point
        self._table: Buffer | None = None  # f and c of each point, where there are constraints
        self.lagrangian: AugmentedLagrangian | None = None
        self.version = 0

    def store_points(self) -> None:
        """Store points and observations from now on: surrogates are conditioned on them."""
        self.stores_points = True

    def add(self, x: FloatArray, values: FloatArray, at_server_x: bool = False) -> FloatArray:
        """Add points, and return what is observed there, shape (n,); NaN marks a failed one.

        Args:
            x: the points, shape (n, d).
            values: f, shape (n,), or f and constraints, shape (n, 1 + k); NaN marks a failed point.
            at_server_x: whether the first point is the server's x of this round.
        """
        good: NDArray[np.bool_] | slice = slice(None) if all_finite(values) else is_finite(values)
        y = values if values.ndim == 1 else self._add_constrained(x, values, at_server_x)
        if self.stores_points:
            points = np.ascontiguousarray(x[good])  # sums over rows in another memory order have other last bits
            self._x.append(points)
            self._y.append(y[good][:, None])
            self._norms.append(np.vecdot(points, points)[:, None])
        return y

    def _add_constrained(self, x: FloatArray, values: FloatArray, at_server_x: bool) -> FloatArray:
        """L at these points; the multipliers are updated the first time that the server's x of a round is queried."""
        if self.lagrangian is None:
            self.lagrangian = AugmentedLagrangian(values.shape[1] - 1)
            self._table = Buffer(np.empty(0), columns=values.shape[1])
        good = is_finite(values)
        self.lagrangian.observe(x[good], values[good])
        if at_server_x and self.lagrangian.at_server_x is None and self.lagrangian.observe_server_x(values[0]):
            self.observe_again()
        if self.stores_points:
            assert self._table is not None
            self._table.append(values[good])
        y: FloatArray = np.where(good, self.lagrangian.values(np.where(good[:, None], values, 0.0)), np.nan)
        return y

    def observe_again(self) -> None:
        """Compute all observations again, because the multipliers have changed."""
        assert self.lagrangian is not None
        self.version += 1
        if self.stores_points and self._table is not None:
            self._y.array[:, 0] = self.lagrangian.values(self._table.array)

    @property
    def violation(self) -> float | None:
        """The largest constraint at the server's x of this round; None: not queried yet, or there is none."""
        return None if self.lagrangian is None else self.lagrangian.violation

    def __len__(self) -> int:
        return self._x.rows

    @property
    def x(self) -> FloatArray:
        """The stored points, in the unit cube, shape (n, d)."""
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
        """Squared distances to x of points, given their indices in rising order, and a bound on the error.

        |p|^2 - 2 p.x + |x|^2 is one pass over the points, but loses the digits in which |p|^2 exceeds the result.
        """
        norms, own = self._norms.array[numbers, 0], float(x @ x)
        error = _ROUNDING * (float(norms.max(initial=0.0)) + own)
        return norms - 2.0 * self._products(numbers, x) + own, error

    def _products(self, numbers: NDArray[np.intp], x: FloatArray) -> FloatArray:
        """p.x of these points; a block of which most are wanted is read as a whole, faster than picking rows."""
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

    def state(self) -> StateDict:
        """Return all of it as named arrays and numbers."""
        table = None if self._table is None else self._table.array.copy()
        lagrangian = {} if self.lagrangian is None else prefixed("lagrangian", self.lagrangian.state())
        return {"x": self.x.copy(), "y": self.y.copy(), "version": self.version, "table": table, **lagrangian}

    def restore(self, state: StateDict) -> None:
        """Replace all of it by what `state` returned."""
        self._clear()
        x = np.ascontiguousarray(state["x"])
        self._x.append(x)
        self._y.append(np.asarray(state["y"])[:, None])
        self._norms.append(np.vecdot(x, x)[:, None])
        self.version = int(state["version"])
        table = state.get("table")
        if table is not None:
            self._table = Buffer(np.empty(0), columns=table.shape[1])
            self._table.append(table)
            self.lagrangian = AugmentedLagrangian(table.shape[1] - 1)
            self.lagrangian.restore(part_of("lagrangian", state))
