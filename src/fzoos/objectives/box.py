"""What is minimised: private objectives over a box, brought to the unit cube.

Inside the library the box is always [0, 1]^d; user bounds are mapped to it and back here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fzoos._util.arrays import FloatArray

__all__ = ["BatchObjective", "Box", "Objective", "check_start", "clip_to_cube"]

Objective = Callable[..., Any]
"""A user's function: (d,) -> float, or vectorised (n, d) -> (n,)."""

BatchObjective = Callable[[FloatArray], FloatArray]
"""A vectorised one: (n, d) -> (n,)."""


def clip_to_cube(x: FloatArray) -> FloatArray:
    """The point of the unit cube nearest to x, or to each row of x."""
    return np.clip(x, 0.0, 1.0)


@dataclass(frozen=True)
class Box:
    """The search box: lower and upper bounds, each of shape (d,).

    Example:
        >>> import numpy as np
        >>> from fzoos.objectives.box import Box
        >>> box = Box.of((-1, 1), dim=2)
        >>> box.to_cube(np.array([0.0, 1.0]))
        array([0.5, 1. ])
    """

    lower: FloatArray
    upper: FloatArray

    @classmethod
    def of(cls, bounds: ArrayLike, dim: int) -> Box:
        """From one (lower, upper) pair for all coordinates, or d pairs."""
        try:
            pairs = np.asarray(bounds, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"bounds must be one (lower, upper) pair or d pairs of numbers, got {bounds!r}") from None
        if pairs.shape == (2,):
            pairs = np.tile(pairs, (dim, 1))
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise ValueError(f"bounds must be one (lower, upper) pair or d pairs, got an array of shape {pairs.shape}")
        if len(pairs) != dim:
            raise ValueError(f"x0 has {dim} values but bounds give d = {len(pairs)}")
        if not np.all(np.isfinite(pairs)):
            raise ValueError("bounds must be finite numbers")
        lower, upper = np.ascontiguousarray(pairs.T)
        wrong = np.flatnonzero(lower >= upper)
        if len(wrong):
            j = wrong[0]
            raise ValueError(f"bounds must have lower < upper, got ({lower[j]:g}, {upper[j]:g}) in coordinate {j}")
        with np.errstate(over="ignore"):
            width = upper - lower
        if not np.all(np.isfinite(width)):
            raise ValueError("bounds are too far apart: upper - lower overflows")
        return cls(lower, upper)

    @property
    def dim(self) -> int:
        """d, the number of variables."""
        return len(self.lower)

    def to_cube(self, x: FloatArray) -> FloatArray:
        """User coordinates to the unit cube; works on the last axis."""
        return clip_to_cube(self.scale(x))

    def scale(self, x: FloatArray) -> FloatArray:
        """User coordinates to those of the unit cube, where a point outside the box stays outside."""
        return (x - self.lower) / (self.upper - self.lower)

    def from_cube(self, u: FloatArray) -> FloatArray:
        """The unit cube to user coordinates; a point of the cube never leaves the bounds.

        Rounding can take it above the upper bound only: lower + (something not negative) is never below lower.
        """
        x = self.lower + u * (self.upper - self.lower)
        return np.where((u <= 1.0) & (x > self.upper), self.upper, x)


def check_start(x0: ArrayLike, bounds: ArrayLike) -> tuple[FloatArray, Box]:
    """x_0 of shape (d,), and the box it is in."""
    try:
        start = np.array(x0, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"x0 must be a vector of numbers, got {x0!r}") from None
    if start.ndim != 1 or not len(start):
        raise ValueError(f"x0 must be a vector of shape (d,) with d >= 1, got shape {start.shape}")
    if not np.all(np.isfinite(start)):
        raise ValueError("x0 must hold finite numbers")
    box = Box.of(bounds, len(start))
    outside = np.flatnonzero((start < box.lower) | (start > box.upper))
    if len(outside):
        j = outside[0]
        raise ValueError(
            f"x0 is outside the bounds: x0[{j}] = {start[j]:g} is not in [{box.lower[j]:g}, {box.upper[j]:g}]"
        )
    return start, box
