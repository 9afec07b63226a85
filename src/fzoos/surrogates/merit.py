"""A surrogate where there are constraints: a process for f and one for each c, put together as the merit is.

    mu(x) = mu_f(x) + sum_j psi_j(mu_cj(x)),    grad mu = grad mu_f + sum_j psi_j'(mu_cj(x)) grad mu_cj

f and c are smooth where psi(c) has a kink, and stay as they are when multipliers change: then no process is made anew.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.objectives.constraints import Merit
from fzoos.surrogates.region import Choice, RegionProcess

__all__ = ["Choices", "MeritProcess"]


class Choices(NamedTuple):
    """What the evidence chose, for f and for each c."""

    each: tuple[Choice, ...]

    @property
    def length(self) -> float:
        """The longest: a constant f, say, has none of its own."""
        return max(choice.length for choice in self.each)

    @property
    def ridge(self) -> float:
        """The largest."""
        return max(choice.ridge for choice in self.each)


class MeritProcess:
    """Posterior of the merit, as it is with the multipliers at the time of a call.

    Args:
        points: shape (n, d), in the unit cube.
        table: f and c there, shape (n, 1 + k).
        centre: where quadratics are expanded, shape (d,).
        merit: multipliers and penalties.
        like: take these choices; None: those of the greatest evidence.

    Example:
        >>> import numpy as np
        >>> from fzoos.objectives.constraints import Merit
        >>> from fzoos.surrogates.merit import MeritProcess
        >>> points = np.random.default_rng(0).random((12, 2))
        >>> table = np.stack([np.sum((points - 0.3) ** 2, axis=1), 0.5 - points[:, 0]], axis=1)
        >>> merit = Merit(1)
        >>> merit.multipliers, merit.penalties = np.array([2.0]), np.array([10.0])
        >>> value, gradient = MeritProcess(points, table, np.array([0.5, 0.5]), merit)(np.array([0.4, 0.2]))
        >>> round(value, 4), gradient.round(4)           # 0.02 + ((2 + 10 * 0.1)^2 - 2^2) / 20
        (0.27, array([-2.8, -0.2]))
    """

    def __init__(
        self, points: FloatArray, table: FloatArray, centre: FloatArray, merit: Merit, like: Choices | None = None
    ) -> None:
        likes: Sequence[Choice | None] = [None] * table.shape[1] if like is None else like.each
        self._merit, self.centre, self._share = merit, centre, 1.0
        self._each = [RegionProcess(points, column, centre, one) for column, one in zip(table.T, likes, strict=True)]

    @property
    def choice(self) -> Choices:
        """Of f and of each c."""
        return Choices(tuple(process.choice for process in self._each))

    def with_share(self, share: float) -> MeritProcess:
        """mu_f + share sum_j psi_j(mu_cj): what f alone stands for others, too, and constraints for nobody else."""
        other = copy.copy(self)
        other._share = share
        return other

    def __call__(self, x: FloatArray) -> tuple[float, FloatArray]:
        """mu(x) and grad mu(x)."""
        (value, gradient), *constraints = (process(x) for process in self._each)
        c = np.array([mu for mu, _ in constraints])
        slopes = self._share * self._merit.slopes(c)
        terms = self._share * float(self._merit.terms(c).sum())
        return value + terms, gradient + slopes @ np.array([g for _, g in constraints])

    def gradients(self, x: FloatArray) -> FloatArray:
        """grad mu at many points, shape (m, d)."""
        return np.array([self(row)[1] for row in x])

    def constraints(self, x: FloatArray) -> FloatArray:
        """mu_cj(x), shape (k,)."""
        return np.array([process(x)[0] for process in self._each[1:]])

    def forces(self, x: FloatArray) -> FloatArray:
        """The part of grad mu(x) that is due to constraints."""
        constraints = [process(x) for process in self._each[1:]]
        total: FloatArray = self._merit.slopes(np.array([mu for mu, _ in constraints])) @ [g for _, g in constraints]
        return total

    def _shares(self, x: FloatArray) -> FloatArray:
        """d mu / d f and d mu / d c_j."""
        return np.array([1.0, *self._merit.slopes(np.array([process(x)[0] for process in self._each[1:]]))])

    @property
    def sigma(self) -> float:
        """Standard deviation of an observation of the merit at the centre."""
        shares = self._shares(self.centre)
        return math.hypot(*(share * process.sigma for share, process in zip(shares, self._each, strict=True)))

    def unknown(self, x: FloatArray) -> FloatArray:
        """As of a single process: mean over f and the constraints, each as much as it counts, shape (d, d)."""
        sizes = [abs(s) * float(np.linalg.norm(p(x)[1])) for s, p in zip(self._shares(x), self._each, strict=True)]
        weights = np.array(sizes) + 1e-300
        weights = weights / weights.sum()
        total: FloatArray = sum(w * p.unknown(x) for w, p in zip(weights, self._each, strict=True) if w > 1e-6)
        return total

    def rest(self) -> None:
        """Give back what only `unknown` and `outliers` need."""
        for process in self._each:
            process.rest()

    def outliers(self) -> list[int]:
        """Points that are an outlier of any process."""
        return sorted({k for process in self._each for k in process.outliers()})
