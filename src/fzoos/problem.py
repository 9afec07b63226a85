"""What is minimised: private objectives over a box, brought to the unit cube.

Inside the library the box is always [0, 1]^d; user bounds are mapped to it and back here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fzoos.arrays import FloatArray

__all__ = ["BatchObjective", "Box", "EvaluationError", "Objective", "as_batch"]

Objective = Callable[..., Any]
"""A user's function: (d,) -> float, or vectorised (n, d) -> (n,)."""

BatchObjective = Callable[[FloatArray], FloatArray]
"""What the library calls: (n, d) -> (n,), in the user's coordinates."""


@dataclass(frozen=True)
class Box:
    """The search box: lower and upper bounds, each of shape (d,).

    Example:
        >>> import numpy as np
        >>> from fzoos.problem import Box
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
        """d."""
        return len(self.lower)

    def to_cube(self, x: FloatArray) -> FloatArray:
        """User coordinates to the unit cube; works on the last axis."""
        return np.clip((x - self.lower) / (self.upper - self.lower), 0.0, 1.0)

    def from_cube(self, u: FloatArray) -> FloatArray:
        """The unit cube to user coordinates; a point of the cube never leaves the bounds, whatever the rounding."""
        x = self.lower + u * (self.upper - self.lower)
        x = np.where((u >= 0.0) & (x < self.lower), self.lower, x)
        return np.where((u <= 1.0) & (x > self.upper), self.upper, x)


class EvaluationError(Exception):
    """An objective raised; what it raised is the cause.

    Attributes:
        row: the row of the batch that it was given, the first if it was given all of them.
        evaluated: how many rows it has been given by then.
    """

    def __init__(self, row: int, evaluated: int) -> None:
        super().__init__(f"the objective raised at row {row}")
        self.row, self.evaluated = row, evaluated


def as_batch(objective: Objective, vectorized: bool) -> BatchObjective:
    """The objective as (n, d) -> (n,), called once per batch if it is vectorised and once per row if not.

    What it raises arrives as an `EvaluationError`; a ValueError or TypeError says that it returned something else than
    numbers of that shape.
    """

    def batched(x: FloatArray) -> FloatArray:
        try:
            value = objective(x)
        except Exception as error:
            raise EvaluationError(0, len(x)) from error
        y = _numbers(value)
        if y.shape != (len(x),):
            raise ValueError(
                f"a vectorized objective must return shape ({len(x)},) for x of shape {x.shape}, got shape {y.shape}"
            )
        return y

    def one_by_one(x: FloatArray) -> FloatArray:
        y = np.empty(len(x))
        for i, row in enumerate(x):
            try:
                value = objective(row.copy())
            except Exception as error:
                raise EvaluationError(i, i + 1) from error
            number = _numbers(value)
            if number.size != 1:
                raise ValueError(
                    f"an objective must return one number for x of shape {row.shape}, got shape {number.shape}; "
                    "is it vectorized?"
                )
            y[i] = number.item()
        return y

    return batched if vectorized else one_by_one


def _numbers(value: Any) -> FloatArray:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"an objective must return numbers, got {value!r}") from None
