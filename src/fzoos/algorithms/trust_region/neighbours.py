"""The points around a centre from which a client's surrogate is made, without outliers; and where evaluations failed.

A process h on labels, 0 where a value was returned and 1 where the evaluation failed, adds the failure penalty
100 max(h - 1/4, 0)^2 to what is minimised. A query with h > 1/2 is halved towards the last centre that had a value.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fzoos._util.arrays import FloatArray
from fzoos._util.states import StateDict, part_of, prefixed
from fzoos.algorithms.base import ClientContext
from fzoos.surrogates.augmented_lagrangian import Choices, LagrangianProcess
from fzoos.surrogates.maximum_evidence import SearchState
from fzoos.surrogates.region import Choice, RegionProcess
from fzoos.surrogates.trend import credible_values

__all__ = ["Neighbours"]

_POINTS = 60  # the number of points, or 3 d if that is more
_NOISY, _MORE = 1e-3, 3  # with a ridge from here on a client has noise, and uses three times as many points
_MANY = 180  # points beyond which their number does not matter for a new search
_FARTHEST = 30.0  # farther points, in Delta sqrt(d), cost digits, and are left out while enough others remain
_HEIGHT, _STEEP = 0.25, 100.0  # the failure penalty's threshold and factor
_HALVINGS = 30
_NEW = 0.1  # the fraction of new points from which on the evidence is searched again, with noise
_SAME = 1e-9  # the relative difference of distances that are equal except for rounding
_FEW = 5  # with fewer values an outlier cannot be detected


class _Cached(NamedTuple):
    """A surrogate and the numbers of its points in the trajectory."""

    process: RegionProcess
    numbers: NDArray[np.intp]
    first: int  # the number of points when its factor was computed as a whole
    searched: int  # the length of the trajectory at the last search
    used: int  # the number of points in use at the last search


class Neighbours:
    """A client's points near a centre, and the surrogate that they give.

    Args:
        context: what a client half works with.
    """

    def __init__(self, context: ClientContext) -> None:
        self._context = context
        self._failed: list[FloatArray] = []
        self._outliers: set[int] = set()  # their numbers in the trajectory
        self._failures: RegionProcess | None = None
        self._noisy = False
        self._search: SearchState | None = None  # where the last search ended
        self._cached: _Cached | None = None  # the last surrogate, if there is noise

    @property
    def count(self) -> int:
        """The number of points with a credible value."""
        return len(self._context.trajectory) - len(self._outliers)

    def query(self, x: FloatArray, at_server_x: bool = False) -> float:
        """Evaluate f_i(x); NaN if that failed."""
        x = self._context.project(x)
        value = float(self._context.query(x[None], "refresh", at_server_x=at_server_x)[0])
        if math.isnan(value):
            self._failed.append(x)
        if self._failed:
            self._fit_failures(x)
        return value

    def query_offsets(self, x: FloatArray, offsets: FloatArray) -> None:
        """Query x + offset or x - offset for each row: the side that is allowed, or else farther inside the box.

        All rows are one batch, unless a failure may tell where not to query next.
        """
        if self._context.evaluator.on_failure == "raise":
            points = np.array([self._side(x, offset) for offset in offsets])
            self._context.query_inside(points, "refresh", spread=False)
            return
        for offset in offsets:
            self.query(self.inside(self._side(x, offset), x))

    def _side(self, x: FloatArray, offset: FloatArray) -> FloatArray:
        one, other = (self._context.project(x + sign * offset) for sign in (1.0, -1.0))
        allowed = self._allowed(one), self._allowed(other)
        if allowed[0] != allowed[1]:
            return one if allowed[0] else other
        near, far = float(np.sum((one - x) ** 2)), float(np.sum((other - x) ** 2))
        return other if far > near * (1.0 + _SAME) else one

    def exclude_outliers(self, count: int) -> None:
        """Exclude outliers among the last `count` values, which are those of one design."""
        values = self._context.trajectory.y[-count:]
        if len(values) >= _FEW:
            first = len(self._context.trajectory) - len(values)
            self._outliers.update(first + int(k) for k in np.flatnonzero(~credible_values(values)))

    def credible(self, x: FloatArray) -> bool:
        """Return whether the last value at x is not an outlier."""
        at = np.flatnonzero(np.all(self._context.trajectory.x == x, axis=1))
        return bool(len(at)) and int(at[-1]) not in self._outliers

    def inside(self, x: FloatArray, centre: FloatArray) -> FloatArray:
        """Return x, halved towards a centre that had a value until it is allowed."""
        for _ in range(_HALVINGS):
            if self._allowed(x):
                break
            x = (x + centre) / 2.0
        return x

    @property
    def is_cached(self) -> bool:
        """Whether the last surrogate is cached: there is noise, and there are many points."""
        return self._cached is not None

    @property
    def has_failures(self) -> bool:
        """Whether evaluations have failed near the last centre."""
        return self._failures is not None

    def failure_penalty(self, x: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return the failure penalty at x, its gradient and its second derivatives, shape (d, d)."""
        if self._failures is None:
            return 0.0, np.zeros_like(x), np.zeros((len(x), len(x)))
        height, slope, bend = self._failures.curved(x)
        over = height - _HEIGHT
        if over <= 0.0:
            return 0.0, np.zeros_like(x), np.zeros_like(bend)
        return _STEEP * over**2, 2.0 * _STEEP * over * slope, 2.0 * _STEEP * (np.outer(slope, slope) + over * bend)

    def fit(
        self, centre: FloatArray, delta: float, like: Choice | Choices | None = None
    ) -> RegionProcess | LagrangianProcess:
        """Return the surrogate around a centre: with the choice `like`, or by evidence and without its outliers."""
        near = self._near(centre, delta)
        cached = self._extended(near, centre, searches=like is None)
        if cached is not None and (like is not None or not cached.outliers()):
            return cached
        while True:
            process = self._process(near, centre, like)
            if like is not None:
                return process
            out = process.outliers() if len(near) > len(centre) + 2 else []
            if isinstance(process, RegionProcess):
                self._search = process.search if len(process.search.places) > 1 else self._search
            if not out:
                self._noisy = self._noisy or process.choice.ridge >= _NOISY
                if self._noisy and len(near) > _POINTS and isinstance(process, RegionProcess):
                    self._cached = _Cached(process, near, len(near), len(self._context.trajectory), len(near))
                return process
            self._outliers.update(int(near[k]) for k in out)
            near = self._near(centre, delta)

    def _process(
        self, near: NDArray[np.intp], centre: FloatArray, like: Choice | Choices | None
    ) -> RegionProcess | LagrangianProcess:
        trajectory = self._context.trajectory
        if trajectory.lagrangian is not None:
            assert not isinstance(like, Choice)
            return LagrangianProcess(trajectory.x[near], trajectory.table[near], centre, trajectory.lagrangian, like)
        assert not isinstance(like, Choices)
        return RegionProcess(trajectory.x[near], trajectory.y[near], centre, self._search if like is None else like)

    def _extended(self, near: NDArray[np.intp], centre: FloatArray, searches: bool) -> RegionProcess | None:
        """Return the last surrogate with the new ones of these points; None if the evidence is to be searched again.

        It is searched again when a tenth of the points are new or replaced, or when new values contradict the choice.
        Points that are no longer near stay until they are a tenth; then, or when as many others have become near, the
        factor is computed again with the same choice.
        """
        if self._cached is None:
            return None
        trajectory, (process, numbers, first, searched, used) = self._context.trajectory, self._cached
        few, self._cached = _NEW * len(near), None
        if searches and len(trajectory) - searched + abs(min(len(near), _MANY) - min(used, _MANY)) >= few:
            return None
        there = np.zeros(len(trajectory), dtype=bool)
        there[numbers] = True
        new = near[~there[near]]
        grown = len(numbers) + len(new)
        larger: RegionProcess | None = process
        if max(grown - first, grown - len(near)) >= few:
            larger = RegionProcess(trajectory.x[near], trajectory.y[near], centre, process.choice)
            numbers, first = near, len(near)
        elif len(new):
            larger, numbers = process.extended(trajectory.x[new], trajectory.y[new]), np.concatenate([numbers, new])
        if larger is not None:
            self._cached = _Cached(larger, numbers, first, searched, used)
        return larger

    def release(self) -> None:
        """Release the last surrogate; the next one is computed as a whole."""
        self._cached = None

    def state(self) -> StateDict:
        """Return everything but the last surrogate, which the client half stores."""
        failed = np.reshape(self._failed, (-1, self._context.dim))
        penalty = {} if self._failures is None else prefixed("penalty", self._failures.state(factor=False))
        search = None if self._search is None else np.array([*self._search.places, (self._search.searches, 0)])
        last = {} if self._cached is None else {"last": self._cached.numbers, "last_sizes": np.array(self._cached[2:])}
        outliers = np.array(sorted(self._outliers), dtype=np.int64)
        return {"failed": failed, "outliers": outliers, "noisy": self._noisy, "search": search, **penalty, **last}

    def restore(self, state: StateDict, process: RegionProcess | LagrangianProcess | None) -> None:
        """Restore what `state` returned; `process` is the last surrogate."""
        self._failed, self._noisy = list(state["failed"]), bool(state["noisy"])
        self._outliers = {int(number) for number in state["outliers"]}
        penalty, search = part_of("penalty", state), state.get("search")
        self._failures = RegionProcess.restored(penalty) if penalty else None
        self._search = None
        if search is not None:
            *places, (searches, _) = search.tolist()
            self._search = SearchState(tuple((length, ridge) for length, ridge in places), searches)
        self._cached = None
        if "last" in state and isinstance(process, RegionProcess):
            self._cached = _Cached(process, state["last"], *map(int, state["last_sizes"]))

    def _near(self, x: FloatArray, delta: float) -> NDArray[np.intp]:
        """Return the nearest max(60, 3 d) credible points, thrice as many with noise, except those that are too far."""
        dim, trajectory = len(x), self._context.trajectory
        gap = trajectory.x - x
        distances = np.add.reduce(gap * gap, 1)
        if self._outliers:
            distances[list(self._outliers)] = np.inf
        most = _most_points(dim) * (_MORE if self._noisy else 1)
        near = np.argsort(distances, kind="stable")[: min(most, self.count)]
        within = np.count_nonzero(np.sqrt(distances[near]) <= _FARTHEST * delta * math.sqrt(dim))
        return near[: max(within, (dim + 1) * (dim + 2) // 2)]

    def _allowed(self, x: FloatArray) -> bool:
        return self._failures is None or self._failures(x)[0] < 0.5

    def _fit_failures(self, x: FloatArray) -> None:
        """Fit h to the nearest points, with and without values."""
        good = self._context.trajectory.x
        points = np.concatenate([good, np.array(self._failed)])
        labels = np.repeat([0.0, 1.0], [len(good), len(self._failed)])
        near = np.argsort(np.sum((points - x) ** 2, axis=1), kind="stable")[: _most_points(len(x))]
        mixed = 0.0 < labels[near].mean() < 1.0
        self._failures = RegionProcess(points[near], labels[near], x, plain=True) if mixed else None


def _most_points(dim: int) -> int:
    return max(_POINTS, 3 * dim)
