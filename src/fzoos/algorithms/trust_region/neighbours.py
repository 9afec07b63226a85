"""The points around a centre that a client's surrogate is made of; where values failed; which values are not credible.

Failures: a process on labels (0 a value came, 1 none), the fence h, adds 100 max(h - 1/4, 0)^2 to what is minimised; a
query with h > 1/2 is halved towards the last centre that had a value.
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

_POINTS = 60  # at least so many, and 3 d
_NOISY, _MORE = 1e-3, 3  # from this ridge on a client has noise, and uses three times as many points
_MANY = 180  # points, beyond which it does not count how many there are when shapes are compared again
_REACH = 30.0  # points further than this many Delta sqrt(d) cost digits, and are left out while enough others are left
_HEIGHT, _STEEP = 0.25, 100.0  # of the fence, from where on it counts and how much
_HALVINGS = 30
_NEW = 0.1  # share of the points from which on shapes are compared again where there is noise: of 180 eighteen
_SAME = 1e-9  # share by which distances differ that are the same but for rounding
_STAR = 5  # values of a star with which an outlier can be told


class _Kept(NamedTuple):
    """A surrogate and its points' numbers in the trajectory."""

    process: RegionProcess
    numbers: NDArray[np.intp]
    first: int  # how many there were when its factor was made in one go
    asked: int  # how many all were, and how many in use, when shapes were compared
    used: int


class Neighbours:
    """A client's points.

    Args:
        context: what a client half works with.
    """

    def __init__(self, context: ClientContext) -> None:
        self._context = context
        self._failed: list[FloatArray] = []
        self._outliers: set[int] = set()  # of the trajectory
        self._fence: RegionProcess | None = None
        self._noisy = False
        self._search: SearchState | None = None  # where the last search ended
        self._kept: _Kept | None = None  # the last surrogate, where there is noise

    @property
    def count(self) -> int:
        """Points with a credible value."""
        return len(self._context.trajectory) - len(self._outliers)

    def ask(self, x: FloatArray, at_server_x: bool = False) -> float:
        """f_i(x); NaN: it failed."""
        x = self._context.project(x)
        value = float(self._context.query(x[None], "refresh", at_server_x=at_server_x)[0])
        if math.isnan(value):
            self._failed.append(x)
        if self._failed:
            self._build_fence(x)
        return value

    def ask_aside(self, x: FloatArray, offsets: FloatArray) -> None:
        """Ask x + offset or x - offset for each row: what is allowed, then what stays further inside the box.

        They go out together, unless a value that fails may tell where not to ask the next.
        """
        if not self._context.evaluator.survives_failures:
            points = np.array([self._aside(x, offset) for offset in offsets])
            self._context.query_inside(points, "refresh", spread=False)
            return
        for offset in offsets:
            self.ask(self.inside(self._aside(x, offset), x))

    def _aside(self, x: FloatArray, offset: FloatArray) -> FloatArray:
        one, other = (self._context.project(x + sign * offset) for sign in (1.0, -1.0))
        allowed = self._allowed(one), self._allowed(other)
        if allowed[0] != allowed[1]:
            return one if allowed[0] else other
        near, far = float(np.sum((one - x) ** 2)), float(np.sum((other - x) ** 2))
        return other if far > near * (1.0 + _SAME) else one

    def doubt_star(self, count: int) -> None:
        """Leave out what is not credible of the last `count` values, which are those of a star."""
        values = self._context.trajectory.y[-count:]
        if len(values) >= _STAR:
            first = len(self._context.trajectory) - len(values)
            self._outliers.update(first + int(k) for k in np.flatnonzero(~credible_values(values)))

    def credible(self, x: FloatArray) -> bool:
        """Whether the last value at x is not an outlier."""
        at = np.flatnonzero(np.all(self._context.trajectory.x == x, axis=1))
        return bool(len(at)) and int(at[-1]) not in self._outliers

    def inside(self, x: FloatArray, centre: FloatArray) -> FloatArray:
        """x, halved towards a centre that had a value until it is allowed."""
        for _ in range(_HALVINGS):
            if self._allowed(x):
                break
            x = (x + centre) / 2.0
        return x

    @property
    def keeps(self) -> bool:
        """Whether the last surrogate is kept: there is noise, and there are many points."""
        return self._kept is not None

    @property
    def fenced(self) -> bool:
        """Whether values have failed near the last centre."""
        return self._fence is not None

    def fence(self, x: FloatArray) -> tuple[float, FloatArray]:
        """What is added to the surrogate at x, and its gradient."""
        if self._fence is None:
            return 0.0, np.zeros_like(x)
        height, slope = self._fence(x)
        over = max(height - _HEIGHT, 0.0)
        return _STEEP * over**2, 2.0 * _STEEP * over * slope

    def curved_fence(self, x: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """The same, and second derivatives, shape (d, d)."""
        assert self._fence is not None
        height, slope, bend = self._fence.curved(x)
        over = height - _HEIGHT
        if over <= 0.0:
            return 0.0, np.zeros_like(x), np.zeros_like(bend)
        return _STEEP * over**2, 2.0 * _STEEP * over * slope, 2.0 * _STEEP * (np.outer(slope, slope) + over * bend)

    def fit(
        self, centre: FloatArray, delta: float, like: Choice | Choices | None = None
    ) -> RegionProcess | LagrangianProcess:
        """The surrogate around a centre: with this choice, or by evidence and then again without its outliers."""
        near = self._near(centre, delta)
        kept = self._renewed(near, centre, searches=like is None)
        if kept is not None and (like is not None or not kept.outliers()):
            return kept
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
                    self._kept = _Kept(process, near, len(near), len(self._context.trajectory), len(near))
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

    def _renewed(self, near: NDArray[np.intp], centre: FloatArray, searches: bool) -> RegionProcess | None:
        """The last surrogate with what is new of these points; None where shapes are to be compared again.

        That is when a tenth of the points is new, or others are used, or new values contradict it. Points that are no
        longer near stay in it until they are a tenth; then, or where as many others have become near, its factor is
        made anew with the same choice.
        """
        if self._kept is None:
            return None
        trajectory, (process, numbers, first, asked, used) = self._context.trajectory, self._kept
        few, self._kept = _NEW * len(near), None
        if searches and len(trajectory) - asked + abs(min(len(near), _MANY) - min(used, _MANY)) >= few:
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
            self._kept = _Kept(larger, numbers, first, asked, used)
        return larger

    def release(self) -> None:
        """Make the next surrogate anew."""
        self._kept = None

    def state(self) -> StateDict:
        """All but the last surrogate, which the client half stores."""
        failed = np.reshape(self._failed, (-1, self._context.dim))
        fence = {} if self._fence is None else prefixed("fence", self._fence.state(factor=False))
        search = None if self._search is None else np.array([*self._search.places, (self._search.searches, 0)])
        last = {} if self._kept is None else {"last": self._kept.numbers, "last_sizes": np.array(self._kept[2:])}
        outliers = np.array(sorted(self._outliers), dtype=np.int64)
        return {"failed": failed, "outliers": outliers, "noisy": self._noisy, "search": search, **fence, **last}

    def restore(self, state: StateDict, process: RegionProcess | LagrangianProcess | None) -> None:
        """Replace all by what `state` returned; `process` is the last surrogate."""
        self._failed, self._noisy = list(state["failed"]), bool(state["noisy"])
        self._outliers = {int(number) for number in state["outliers"]}
        fence, search = part_of("fence", state), state.get("search")
        self._fence = RegionProcess.restored(fence) if fence else None
        self._search = None
        if search is not None:
            *places, (searches, _) = search.tolist()
            self._search = SearchState(tuple((length, ridge) for length, ridge in places), searches)
        self._kept = None
        if "last" in state and isinstance(process, RegionProcess):
            self._kept = _Kept(process, state["last"], *map(int, state["last_sizes"]))

    def _near(self, x: FloatArray, delta: float) -> NDArray[np.intp]:
        """The nearest max(60, 3 d) credible points, thrice that with noise; those beyond the reach cost digits."""
        dim, trajectory = len(x), self._context.trajectory
        gap = trajectory.x - x
        distances = np.add.reduce(gap * gap, 1)
        if self._outliers:
            distances[list(self._outliers)] = np.inf
        most = _most_points(dim) * (_MORE if self._noisy else 1)
        near = np.argsort(distances, kind="stable")[: min(most, self.count)]
        within = np.count_nonzero(np.sqrt(distances[near]) <= _REACH * delta * math.sqrt(dim))
        return near[: max(within, (dim + 1) * (dim + 2) // 2)]

    def _allowed(self, x: FloatArray) -> bool:
        return self._fence is None or self._fence(x)[0] < 0.5

    def _build_fence(self, x: FloatArray) -> None:
        """From the nearest points, whether they had a value or not."""
        good = self._context.trajectory.x
        points = np.concatenate([good, np.array(self._failed)])
        labels = np.repeat([0.0, 1.0], [len(good), len(self._failed)])
        near = np.argsort(np.sum((points - x) ** 2, axis=1), kind="stable")[: _most_points(len(x))]
        mixed = 0.0 < labels[near].mean() < 1.0
        self._fence = RegionProcess(points[near], labels[near], x, plain=True) if mixed else None


def _most_points(dim: int) -> int:
    return max(_POINTS, 3 * dim)
