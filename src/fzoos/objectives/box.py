"""The search box, and its map to the unit cube.

Inside the library the box is always [0, 1]^d; user bounds are mapped to it and back here and nowhere else. A coordinate
whose bounds are equal is fixed and has no coordinate in the cube. A coordinate without a bound on one or both sides is
open there: `scale` says how long a unit of the cube is, and the cube continues beyond its face.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fzoos._util.arrays import FloatArray
from fzoos._util.panels import panels

__all__ = ["BatchObjective", "Box", "Objective", "check_start", "clip_to_cube"]

_ROUNDING = 1e-10  # of a box's width or a bound's size: x0 beyond its bound by less is at the bound

Objective = Callable[..., Any]
"""A user's function: (d,) -> float, or, if it is vectorised, (n, d) -> (n,)."""

BatchObjective = Callable[[FloatArray], FloatArray]
"""A vectorised objective: (n, d) -> (n,)."""


def clip_to_cube(x: FloatArray, out: FloatArray | None = None) -> FloatArray:
    """Return the point of the unit cube nearest to x, or to each row of x."""
    return x.clip(0.0, 1.0, out)


@dataclass(frozen=True)
class Box:
    """The search box: what 0 and 1 of the cube are in the user's coordinates, each of shape (n,).

    Args:
        lower: the lower bounds; in an open coordinate what corresponds to 0.
        upper: the upper bounds; in an open coordinate what corresponds to 1. Equal to `lower` where x is fixed.
        floor: the smallest value of each coordinate of the cube, 0 or -inf; None: 0 everywhere.
        ceiling: the largest one, 1 or inf; None: 1 everywhere.

    Example:
        >>> import numpy as np
        >>> from fzoos.objectives.box import Box
        >>> box = Box.of((-1, 1), dim=2)
        >>> box.to_cube(np.array([0.0, 1.0]))
        array([0.5, 1. ])
        >>> fixed = Box.of([(-1, 1), (3, 3)], dim=2)
        >>> fixed.dim, fixed.from_cube(np.array([0.5]))
        (1, array([0., 3.]))
        >>> half = Box.of((0, np.inf), dim=1, scale=10.0)
        >>> half.from_cube(half.project(np.array([[-1.0], [2.5]])))
        array([[ 0.],
               [25.]])
    """

    lower: FloatArray
    upper: FloatArray
    floor: FloatArray | None = None
    ceiling: FloatArray | None = None

    @classmethod
    def of(cls, bounds: Any, dim: int, scale: ArrayLike | None = None, centre: FloatArray | None = None) -> Box:
        """Make a box from one (lower, upper) pair for all coordinates, d pairs, or an object with `lb` and `ub`.

        Args:
            bounds: the bounds; None: no bounds at all. None and infinity in a pair: no bound on that side.
            dim: the number of variables, including fixed ones.
            scale: how long a unit of the cube is where a bound is missing, a number or d numbers.
            centre: the middle of the cube where both bounds are missing; default: 0.
        """
        pairs = _pairs(bounds, dim)
        lower, upper = np.ascontiguousarray(pairs.T)
        wrong = np.flatnonzero((lower > upper) | (lower == np.inf) | (upper == -np.inf))
        if len(wrong):
            j = wrong[0]
            raise ValueError(f"bounds must have lower <= upper, got ({lower[j]:g}, {upper[j]:g}) in coordinate {j}")
        if np.all(lower == upper):
            raise ValueError("bounds are equal in every coordinate: nothing is left to be minimised")
        if not np.all(np.isfinite(pairs)):
            return cls._open(lower, upper, scale, np.zeros(dim) if centre is None else centre)
        if scale is not None:
            raise ValueError("scale says what a unit is where a bound is missing, but bounds has all of them")
        with np.errstate(over="ignore"):
            width = upper - lower
        if not np.all(np.isfinite(width)):
            raise ValueError("bounds are too far apart: upper - lower overflows")
        return cls(lower, upper)

    @classmethod
    def _open(cls, lower: FloatArray, upper: FloatArray, scale: ArrayLike | None, centre: FloatArray) -> Box:
        below, above = np.isneginf(lower), np.isposinf(upper)
        if scale is None:
            raise ValueError(
                "bounds must be finite numbers, or scale must say what a unit is: about how far x may be from x0"
            )
        unit = _units(scale, len(lower))
        low = np.where(below, np.where(above, centre - 0.5 * unit, upper - unit), lower)
        high = np.where(above, low + unit, upper)
        return cls(low, high, np.where(below, -np.inf, 0.0), np.where(above, np.inf, 1.0))

    @property
    def dim(self) -> int:
        """d, the number of variables that are not fixed: coordinates of the cube."""
        return len(self._free)

    @cached_property
    def _free(self) -> NDArray[np.int64]:
        return np.flatnonzero(self.lower < self.upper)

    @property
    def is_discrete(self) -> bool:
        """Whether only some points of the box can be evaluated."""
        return False

    def round_randomly(self, u: FloatArray, rng: np.random.Generator, alike: bool) -> FloatArray:
        """Return points of the cube that can be evaluated, in place of the rows of u; here u itself."""
        return u

    def round_nearest(self, u: FloatArray) -> FloatArray:
        """Return the point of the cube that can be evaluated and has the variables of u, shape (d,); here u itself."""
        return u

    @property
    def is_open(self) -> bool:
        """Whether a bound is missing."""
        return self.floor is not None

    @property
    def is_unbounded(self) -> bool:
        """Whether all bounds are missing, except those of fixed coordinates."""
        return bool(np.all(np.isinf(self._faces[0])) and np.all(np.isinf(self._faces[1])))

    @property
    def widths(self) -> FloatArray:
        """The length of a unit of the cube in the user's coordinates, shape (n,); 1 where x is fixed."""
        return np.where(self.lower < self.upper, self.upper - self.lower, 1.0)

    @cached_property
    def _faces(self) -> tuple[FloatArray, FloatArray]:
        floor = np.zeros_like(self.lower) if self.floor is None else self.floor
        ceiling = np.ones_like(self.upper) if self.ceiling is None else self.ceiling
        return floor[self._free], ceiling[self._free]

    def project(self, u: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Return the point of the cube nearest to u, or to each row; an open coordinate is not changed."""
        return u.clip(*self._faces, out) if self.is_open else clip_to_cube(u, out)

    def to_cube(self, x: FloatArray) -> FloatArray:
        """Map user coordinates to the unit cube; works on the last axis."""
        return self.project(self.scale(x))

    def scale(self, x: FloatArray) -> FloatArray:
        """Map user coordinates to those of the unit cube, where a point outside the box stays outside."""
        if self.dim == len(self.lower):
            return (x - self.lower) / (self.upper - self.lower)
        lower, upper = self.lower[self._free], self.upper[self._free]
        return (x[..., self._free] - lower) / (upper - lower)

    def from_cube(self, u: FloatArray) -> FloatArray:
        """Map the unit cube to user coordinates; a point of the cube never leaves the bounds.

        Rounding can only take it above the upper bound: lower + (something not negative) is never below lower.
        """
        if self.dim == len(self.lower):
            return self._unscaled(u)
        x = np.tile(self.lower, (*u.shape[:-1], 1))
        x[..., self._free] = self._unscaled(u)
        return x

    @cached_property
    def _free_bounds(self) -> tuple[FloatArray, FloatArray, FloatArray, bool]:
        """Lower, upper, their difference, and whether lower + difference is above upper anywhere.

        Only then can a point of the cube be above: rounded products and sums grow with each factor and term.
        """
        lower, upper = self.lower[self._free], self.upper[self._free]
        width = upper - lower
        return lower, upper, width, bool(np.any(lower + width > upper))

    def _unscaled(self, u: FloatArray) -> FloatArray:
        lower, upper, width, may_exceed = self._free_bounds
        x = np.empty(u.shape)
        flat, given = x.reshape(-1, len(lower)), u.reshape(-1, len(lower))
        for part in panels(*flat.shape):
            rows = np.multiply(given[part], width, out=flat[part])
            rows += lower
            above = rows > upper if may_exceed else None
            if above is not None and above.any():
                np.copyto(rows, upper, where=above & (given[part] <= 1.0))
        return x


def check_start(x0: ArrayLike, bounds: Any, scale: ArrayLike | None = None) -> tuple[FloatArray, Box]:
    """Return x_0, shape (d,), and its box; x0 may be outside by a rounding error, which is corrected."""
    try:
        start = np.array(x0, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"x0 must be a vector of numbers, got {x0!r}") from None
    if start.ndim != 1 or not len(start):
        raise ValueError(f"x0 must be a vector of shape (d,) with d >= 1, got shape {start.shape}")
    if not np.all(np.isfinite(start)):
        raise ValueError("x0 must hold finite numbers")
    box = Box.of(bounds, len(start), scale, start)
    low = box.lower if box.floor is None else np.where(np.isinf(box.floor), -np.inf, box.lower)
    high = box.upper if box.ceiling is None else np.where(np.isinf(box.ceiling), np.inf, box.upper)
    inside = np.clip(start, low, high)
    slack = _ROUNDING * np.maximum(box.upper - box.lower, np.abs(inside))
    outside = np.flatnonzero(np.abs(start - inside) > slack)
    if len(outside):
        j = outside[0]
        raise ValueError(f"x0 is outside the bounds: x0[{j}] = {_exact(start[j])} is not in [{low[j]:g}, {high[j]:g}]")
    return inside, box


def _exact(value: float) -> str:
    """The shortest text of exactly this number."""
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def _pairs(bounds: Any, dim: int) -> FloatArray:
    """Return (lower, upper) of each coordinate, shape (d, 2), with infinity where there is no bound."""
    if bounds is None:
        bounds = (None, None)
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):  # scipy.optimize.Bounds
        bounds = _both(bounds.lb, bounds.ub, dim)
    try:
        pairs = np.asarray(_without_none(np.asarray(bounds, dtype=object)), dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"bounds must be one (lower, upper) pair or d pairs of numbers, got {bounds!r}") from None
    if pairs.shape == (2,):
        pairs = np.tile(pairs, (dim, 1))
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"bounds must be one (lower, upper) pair or d pairs, got an array of shape {pairs.shape}")
    if len(pairs) != dim:
        raise ValueError(f"x0 has {dim} values but bounds give d = {len(pairs)}")
    if np.any(np.isnan(pairs)):
        raise ValueError("bounds must be numbers, got NaN")
    return pairs


def _both(lower: Any, upper: Any, dim: int) -> FloatArray:
    try:
        low, high = (np.atleast_1d(np.asarray(side, dtype=np.float64)) for side in (lower, upper))
    except (TypeError, ValueError):
        raise TypeError(f"bounds must hold numbers in lb and ub, got {lower!r} and {upper!r}") from None
    length = max(len(low), len(high))
    if {len(low), len(high)} - {1, length} or low.ndim > 1 or high.ndim > 1:
        raise ValueError(f"bounds have {len(low)} numbers in lb and {len(high)} in ub")
    length = dim if length == 1 else length
    return np.stack([np.broadcast_to(low, length), np.broadcast_to(high, length)], axis=1)


def _without_none(given: NDArray[Any]) -> NDArray[Any]:
    """Replace None, by which SciPy means "no bound on this side", by infinity."""
    if given.ndim == 0 or given.shape[-1] != 2:
        return given
    missing = np.array([value is None for value in given.ravel()]).reshape(given.shape)
    return np.where(missing, np.array([-np.inf, np.inf], dtype=object), given)


def _units(scale: ArrayLike, dim: int) -> FloatArray:
    try:
        unit = np.array(scale, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"scale must be a number or d numbers, got {scale!r}") from None
    if unit.shape not in ((), (dim,)):
        raise ValueError(f"scale must be a number or {dim} numbers, got an array of shape {unit.shape}")
    if not np.all(np.isfinite(unit)) or np.any(unit <= 0.0):
        raise ValueError(f"scale must be positive, got {scale!r}")
    return np.broadcast_to(unit, dim)
