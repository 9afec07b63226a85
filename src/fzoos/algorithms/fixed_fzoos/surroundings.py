"""What a query design is asked: which points to query, given what is known around x."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fzoos._util.arrays import FloatArray

__all__ = ["QueryDesign", "Surroundings"]


@dataclass(frozen=True)
class Surroundings:
    """What a design may know of the place that it asks around.

    Args:
        x: the place, shape (d,).
        radius: how far to ask, in units of the unit cube.
        rng: random generator of the client.
        nearest: the so many points nearest to x that were asked already, the nearest first; None: there are none.
        uncertainty: of the gradient at points, shape (n, d) -> (n,); None: nothing is known.

    Example:
        >>> import numpy as np
        >>> from fzoos import InitialDesign
        >>> from fzoos.algorithms.fixed_fzoos.surroundings import Surroundings
        >>> InitialDesign(points=4).around(Surroundings(np.full(2, 0.5), 0.1, np.random.default_rng(0))).shape
        (4, 2)
    """

    x: FloatArray
    radius: float
    rng: np.random.Generator
    nearest: Callable[[int], FloatArray] | None = None
    uncertainty: Callable[[FloatArray], FloatArray] | None = None


class QueryDesign(Protocol):
    """What all designs have in common."""

    @property
    def radius(self) -> float | None:
        """How far to ask, in units of the unit cube; None: half the mean |x_r - x_i|."""

    @property
    def asks_x(self) -> bool:
        """Whether the first point is x itself."""

    def count(self, dim: int) -> int:
        """How many queries; those around the server's x are counted without x itself."""

    def around(self, here: Surroundings) -> FloatArray:
        """The points to ask, one a row."""
