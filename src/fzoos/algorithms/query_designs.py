"""Active queries: of many candidates around x, those at which the surrogate's gradient is least certain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.checks import check_count, check_positive

__all__ = ["ActiveQueries", "uniform_around"]


@dataclass(frozen=True)
class ActiveQueries:
    """Draw `candidates` points uniformly within +-radius per coordinate of x and select the `picks` least certain.

    Args:
        candidates: the number of points that are drawn.
        picks: the number of points that are queried.
        radius: in units of the unit cube. None, for the refresh only: half the mean |x_r - x_i| over the coordinates,
            the distance between the server's x and the end of this client's last local steps.

    Example:
        >>> from fzoos import ActiveQueries
        >>> ActiveQueries(candidates=100, picks=5, radius=0.01).picks
        5
    """

    candidates: int
    picks: int
    radius: float | None = None

    def __post_init__(self) -> None:
        check_count("candidates", self.candidates, low=1)
        check_count("picks", self.picks, low=1)
        if self.picks > self.candidates:
            raise ValueError(f"picks must be at most candidates = {self.candidates}, got {self.picks}")
        if self.radius is not None:
            check_positive("radius", self.radius)

    def select(
        self,
        x: FloatArray,
        radius: float,
        rng: np.random.Generator,
        project: Callable[[FloatArray], FloatArray],
        uncertainty: Callable[[FloatArray], FloatArray],
    ) -> FloatArray:
        """Return the selected points, shape (picks, d), the least certain first.

        Args:
            x: the centre, shape (d,).
            radius: half the width of the box around x from which candidates are drawn.
            rng: the client's random generator.
            project: clips points to the search box.
            uncertainty: returns that of the gradient at points, shape (m, d) -> (m,).
        """
        points = project(uniform_around(x, self.candidates, radius, rng))
        ranks = np.argsort(-uncertainty(points), kind="stable")
        return points[ranks[: self.picks]]


def uniform_around(x: FloatArray, count: int, radius: float, rng: np.random.Generator) -> FloatArray:
    """Draw `count` points uniformly in the box of half-width `radius` around x, shape (count, d)."""
    return x + rng.uniform(-radius, radius, (count, len(x)))
