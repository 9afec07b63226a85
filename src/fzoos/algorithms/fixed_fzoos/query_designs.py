"""Which points a client asks about: the initial design, the most uncertain candidates, directions not asked yet.

Designs say where to ask, in an unbounded space; what keeps queries within the box is the one who asks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from fzoos._util.arrays import Array, FloatArray, namespace, orthonormal_rows, take_rows, to_device
from fzoos._util.checks import check_count, check_positive
from fzoos.algorithms.fixed_fzoos.surroundings import Surroundings

__all__ = ["ActiveQueries", "Design", "InitialDesign", "UnseenDirections", "uniform_around"]

Design = Literal["uniform", "orthogonal"]


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

    def count(self, dim: int) -> int:
        """Queries besides x."""
        return self.picks

    @property
    def asks_x(self) -> bool:
        """No."""
        return False

    def around(self, here: Surroundings) -> FloatArray:
        """The `picks` most uncertain candidates, shape (picks, d); of equal ones the first."""
        uncertainty = here.uncertainty
        if uncertainty is None:
            return uniform_around(here.x, self.candidates, here.radius, here.rng)[: self.picks]
        drawn = here.rng.random((1, self.candidates, len(here.x)))
        radius = np.array([here.radius])
        points: FloatArray = self.around_several(here.x[None], radius, drawn, lambda p: uncertainty(p[0])[None])[0]
        return points

    def around_several(
        self,
        x: Array,
        radius: FloatArray,
        drawn: Array,
        uncertainty: Callable[[Array], Array],
        device: str | None = None,
    ) -> Array:
        """The same for several clients at once, on the device, shape (N, picks, d).

        Args:
            x: the place of each, on the device, shape (N, d).
            radius: of each, shape (N,).
            drawn: numbers between 0 and 1 of each one's generator, on the device, shape (N, candidates, d);
                written to.
            uncertainty: at points of each, on the device, shape (N, n, d) -> (N, n).
            device: which it is.
        """
        points = _spread(drawn, x, radius, device)
        ranks = -uncertainty(points)
        best = namespace(ranks).argsort(ranks, axis=-1, stable=True)[:, : self.picks]
        return take_rows(points, best)


@dataclass(frozen=True)
class InitialDesign:
    """The queries before a client's first round, while its trajectory is empty.

    Args:
        points: how many; with "orthogonal" at most d + 1, as there are no more directions.
        radius: in units of the unit cube.
        kind: "uniform": uniform within +-radius of x in every coordinate; "orthogonal": x itself and one point in each
            of random orthonormal directions, at the distance sqrt(d) radius, the half diagonal of that box.

    Example:
        >>> from fzoos import InitialDesign
        >>> InitialDesign(points=10, radius=0.01).points
        10
    """

    points: int = 10
    radius: float = 0.01
    kind: Design = "uniform"

    def __post_init__(self) -> None:
        check_count("points", self.points, low=1)
        check_positive("radius", self.radius)
        if self.kind not in get_args(Design):
            raise ValueError(f"kind must be one of {', '.join(get_args(Design))}, got {self.kind!r}")

    def count(self, dim: int) -> int:
        """How many points in d dimensions."""
        return self.points if self.kind == "uniform" else min(self.points, dim + 1)

    @property
    def asks_x(self) -> bool:
        """Only where it is orthogonal."""
        return self.kind == "orthogonal"

    def around(self, here: Surroundings) -> FloatArray:
        """The points, shape (count, d)."""
        count = self.count(len(here.x))
        if self.kind == "uniform":
            return uniform_around(here.x, count, here.radius, here.rng)
        return _star(here, count - 1, near=np.empty((0, len(here.x))))


@dataclass(frozen=True)
class UnseenDirections:
    """Query x and points in orthonormal directions, orthogonal to those in which there are points nearby already.

    A surrogate knows the slope along directions in which it has points and nothing of the others, so that a query is
    worth most where none is: the picks are the joint choice of largest uncertainty, as far as distances allow it.

    Args:
        picks: how many, besides x; at most d.
        radius: the distance is sqrt(d) radius, in units of the unit cube; None: half the mean |x_r - x_i|.
        known: how many of the nearest points say which directions are known; at most d - picks are used.

    Example:
        >>> import numpy as np
        >>> from fzoos.algorithms.fixed_fzoos.query_designs import UnseenDirections
        >>> from fzoos.algorithms.fixed_fzoos.surroundings import Surroundings
        >>> near = np.array([[0.6, 0.5, 0.5]])                     # the first coordinate is known
        >>> here = Surroundings(np.full(3, 0.5), 0.1, np.random.default_rng(0), nearest=lambda count: near[:count])
        >>> points = UnseenDirections(picks=2).around(here)
        >>> bool(abs(points[:, 0] - 0.5).max() < 1e-12)
        True
    """

    picks: int = 60
    radius: float | None = None
    known: int = 250

    def __post_init__(self) -> None:
        check_count("picks", self.picks, low=1)
        check_count("known", self.known)
        if self.radius is not None:
            check_positive("radius", self.radius)

    def count(self, dim: int) -> int:
        """Queries besides x in d dimensions."""
        return min(self.picks, dim)

    @property
    def asks_x(self) -> bool:
        """Yes."""
        return True

    def around(self, here: Surroundings) -> FloatArray:
        """x and the picks, shape (1 + count, d)."""
        dim = len(here.x)
        picks = self.count(dim)
        near = np.empty((0, dim)) if here.nearest is None else here.nearest(self.known)
        return _star(here, picks, near[: dim - picks])


def _star(here: Surroundings, count: int, near: FloatArray) -> FloatArray:
    """x, and `count` points at distance sqrt(d) radius in orthonormal directions, orthogonal to near - x."""
    x, rng, length = here.x, here.rng, np.sqrt(len(here.x)) * here.radius
    if not count:
        return x[None, :]
    if not len(near):
        directions = orthonormal_rows(count, len(x), rng)
    else:
        known, _ = np.linalg.qr((near - x).T)
        fresh = rng.standard_normal((len(x), count))
        for _ in range(2):  # twice is enough: what rounding leaves of the known directions goes the second time
            fresh -= known @ (known.T @ fresh)
        directions = np.linalg.qr(fresh)[0].T
    return np.concatenate([x[None, :], x + length * directions])


def uniform_around(x: FloatArray, count: int, radius: float, rng: np.random.Generator) -> FloatArray:
    """`count` points uniform in the box of half-width `radius` around x, shape (count, d)."""
    drawn = rng.random((1, count, len(x)))
    return np.asarray(_spread(drawn, x[None], np.array([radius]))[0])


def _spread(points: Array, x: Array, radius: FloatArray, device: str | None = None) -> Array:
    """Numbers between 0 and 1, shape (N, n, d), made points of the boxes of half-widths `radius` around x."""
    half = to_device(radius[:, None, None], device)
    points *= 2.0 * half
    points -= half
    points += x[:, None, :]
    return points
