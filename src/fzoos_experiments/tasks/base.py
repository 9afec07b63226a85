"""What a task is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fzoos._util.arrays import FloatArray
from fzoos.objectives.box import Objective

__all__ = ["Task"]


class Task(Protocol):
    """A federated problem: hand `objectives`, `x0` and `bounds` to `minimize` with `vectorized=True`.

    `value` is the true F for plots, to be given as `monitor`: it is neither counted nor seen by an algorithm.
    """

    @property
    def objectives(self) -> Sequence[Objective]:
        """One vectorised function per client, (n, d) -> (n,)."""
        ...

    @property
    def bounds(self) -> tuple[float, float]:
        """One (lower, upper) pair for all coordinates."""
        ...

    @property
    def x0(self) -> FloatArray:
        """The start, shape (d,)."""
        ...

    def value(self, x: FloatArray) -> float:
        """F(x), the mean over clients."""
        ...
