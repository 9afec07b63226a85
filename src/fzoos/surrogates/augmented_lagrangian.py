"""The surrogate of a client's augmented Lagrangian: a process for its objective f and one for each constraint c_j.

    mu(x) = mu_f(x) + sum_j psi_j(mu_cj(x)),    grad mu = grad mu_f + sum_j psi_j'(mu_cj(x)) grad mu_cj

f and c are smooth where psi(c) has a kink, and they do not depend on the multipliers: when those change, no process is
fitted again.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.states import StateDict, part_of, prefixed
from fzoos.objectives.constraints import AugmentedLagrangian
from fzoos.surrogates.region import Choice, RegionProcess

__all__ = ["Choices", "LagrangianProcess"]


class Choices(NamedTuple):
    """The kernels of maximum evidence, for f and for each constraint."""

    each: tuple[Choice, ...]

    @property
    def length(self) -> float:
        """The longest length scale: a constant f, for example, has none of its own."""
        return max(choice.length for choice in self.each)

    @property
    def ridge(self) -> float:
        """The largest ridge of any process."""
        return max(choice.ridge for choice in self.each)


class LagrangianProcess:
    """The posterior of the augmented Lagrangian, with the multipliers at the time of a call.

    Args:
        points: shape (n, d), in the unit cube.
        table: f and c at the points, shape (n, 1 + k).
        centre: where quadratics are expanded, shape (d,).
        lagrangian: multipliers and penalties.
        like: take these choices; None: those of maximum evidence.

    Example:
        >>> import numpy as np
        >>> from fzoos.objectives.constraints import AugmentedLagrangian
        >>> from fzoos.surrogates.augmented_lagrangian import LagrangianProcess
        >>> points = np.random.default_rng(0).random((12, 2))
        >>> table = np.stack([np.sum((points - 0.3) ** 2, axis=1), 0.5 - points[:, 0]], axis=1)
        >>> lagrangian = AugmentedLagrangian(1)
        >>> lagrangian.multipliers, lagrangian.penalties = np.array([2.0]), np.array([10.0])
        >>> process = LagrangianProcess(points, table, np.array([0.5, 0.5]), lagrangian)
        >>> value, gradient = process(np.array([0.4, 0.2]))
        >>> round(value, 4), gradient.round(4)           # 0.02 + ((2 + 10 * 0.1)^2 - 2^2) / 20
        (0.27, array([-2.8, -0.2]))
    """

    def __init__(
        self,
        points: FloatArray,
        table: FloatArray,
        centre: FloatArray,
        lagrangian: AugmentedLagrangian,
        like: Choices | None = None,
    ) -> None:
        likes: Sequence[Choice | None] = [None] * table.shape[1] if like is None else like.each
        self._lagrangian, self.centre, self._weight = lagrangian, centre, 1.0
        self._each = [RegionProcess(points, column, centre, one) for column, one in zip(table.T, likes, strict=True)]

    @property
    def choice(self) -> Choices:
        """The choices for f and each constraint."""
        return Choices(tuple(process.choice for process in self._each))

    def with_weight(self, weight: float) -> LagrangianProcess:
        """Return mu_f + weight sum_j psi_j(mu_cj): f stands for the other clients too, constraints do not."""
        other = copy.copy(self)
        other._weight = weight
        return other

    def __call__(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Return mu(x) and grad mu(x)."""
        (value, gradient), *constraints = (process(x) for process in self._each)
        c = np.array([mu for mu, _ in constraints])
        slopes = self._weight * self._lagrangian.slopes(c)
        terms = self._weight * float(self._lagrangian.terms(c).sum())
        return value + terms, gradient + slopes @ np.array([g for _, g in constraints])

    def gradients(self, x: FloatArray) -> FloatArray:
        """Return grad mu at many points, shape (m, d)."""
        return np.array([self(row)[1] for row in x])

    def constraints(self, x: FloatArray) -> FloatArray:
        """Return mu_cj(x), shape (k,)."""
        return np.array([process(x)[0] for process in self._each[1:]])

    def constraint_gradient(self, x: FloatArray) -> FloatArray:
        """Return the part of grad mu(x) that is due to constraints."""
        constraints = [process(x) for process in self._each[1:]]
        slopes = self._lagrangian.slopes(np.array([mu for mu, _ in constraints]))
        total: FloatArray = slopes @ [g for _, g in constraints]
        return total

    def _slopes(self, x: FloatArray) -> FloatArray:
        """Return d mu / d f and d mu / d c_j."""
        return np.array([1.0, *self._lagrangian.slopes(self.constraints(x))])

    @property
    def sigma(self) -> float:
        """The standard deviation of an observation at the centre."""
        slopes = self._slopes(self.centre)
        return math.hypot(*(slope * process.sigma for slope, process in zip(slopes, self._each, strict=True)))

    def grad_covariance(self, x: FloatArray) -> FloatArray:
        """Return the mean of all processes' gradient uncertainties, weighted by their slopes at x, shape (d, d)."""
        sizes = [abs(s) * float(np.linalg.norm(p(x)[1])) for s, p in zip(self._slopes(x), self._each, strict=True)]
        weights = np.array(sizes) + 1e-300
        weights = weights / weights.sum()
        terms = (w * p.grad_covariance(x) for w, p in zip(weights, self._each, strict=True) if w > 1e-6)
        total: FloatArray = sum(terms)
        return total

    def release(self) -> None:
        """Release the Cholesky factors."""
        for process in self._each:
            process.release()

    def state(self) -> StateDict:
        """Return arrays and numbers for `restored`, without the Cholesky factors."""
        return {
            name: value
            for k, process in enumerate(self._each)
            for name, value in prefixed(f"of{k}", process.state(factor=False)).items()
        }

    @classmethod
    def restored(cls, state: StateDict, lagrangian: AugmentedLagrangian) -> LagrangianProcess:
        """Return the process of which `state` returned this."""
        process, count = cls.__new__(cls), 1 + lagrangian.count
        process._each = [RegionProcess.restored(part_of(f"of{k}", state)) for k in range(count)]
        process._lagrangian, process.centre, process._weight = lagrangian, process._each[0].centre, 1.0
        return process

    def outliers(self) -> list[int]:
        """Return the points that are an outlier of any process."""
        return sorted({k for process in self._each for k in process.outliers()})
