"""Which points a client asks about: the initial design, and active queries where the surrogate is most uncertain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fzoos._check import check_count, check_positive
from fzoos.arrays import FloatArray

__all__ = ["ActiveQueries", "InitialDesign", "uniform_around"]


@dataclass(frozen=True)
class ActiveQueries:
    """Draw `candidates` points uniformly within +-radius per coordinate, query the `picks` most uncertain.

    Args:
        candidates: how many points are drawn.
        picks: how many of them are queried.
        radius: in units of the unit cube; None: half the mean |x_r - x_i| over coordinates, the distance between the
            server's x and where this client's last local steps ended.

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

    def choose(self, candidates: FloatArray, uncertainty: FloatArray) -> FloatArray:
        """The `picks` most uncertain of the candidates (n, d), given their uncertainties (n,)."""
        return candidates[np.argsort(-uncertainty, kind="stable")[: self.picks]]


@dataclass(frozen=True)
class InitialDesign:
    """The queries before a client's first round, while its trajectory is empty: uniform within +-radius of x.

    Args:
        points: how many.
        radius: in units of the unit cube.

    Example:
        >>> from fzoos import InitialDesign
        >>> InitialDesign(points=10, radius=0.01).points
        10
    """

    points: int = 10
    radius: float = 0.01

    def __post_init__(self) -> None:
        check_count("points", self.points, low=1)
        check_positive("radius", self.radius)


def uniform_around(x: FloatArray, count: int, radius: float, rng: np.random.Generator) -> FloatArray:
    """`count` points uniform in the box of half-width `radius` around x, shape (count, d)."""
    return x + rng.uniform(-radius, radius, (count, len(x)))
