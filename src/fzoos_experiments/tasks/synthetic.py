"""Synthetic functions whose average does not depend on how much the clients differ.

Each client's function is a base function F plus a perturbation that sums to zero over the clients:

    f_i(z) = F(z) + (C S / d) sum_j [ (a_ij - 1/N) u_j^2 + (b_ij - 1/N) u_j L ],      u = z / H

with (a_ij)_i and (b_ij)_i ~ Dirichlet(1/N, ..., 1/N) for each coordinate j.

=========  ========  ==================================================================================
symbol     shape     meaning
=========  ========  ==================================================================================
N, d       scalar    clients, dimension
C          scalar    heterogeneity: 0 makes all clients equal
a, b       (N, d)    each client's share of curvature and slope in each coordinate
H          scalar    half-width of the box [-H, H]^d
S          scalar    about the largest value of F in the box, so that C means the same for every task
L          scalar    weight of the slopes against the curvatures
=========  ========  ==================================================================================

For the quadratic, S = H^2 / 10 and L = 1/H give the paper's function exactly.

With noise, each query of a client gets a fresh Gaussian error; F and its gradient are without it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from threading import Lock
from typing import ClassVar

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.checks import check_count, check_number
from fzoos.objectives.box import BatchObjective

__all__ = ["Ackley", "Levy", "Quadratic", "Synthetic"]


@dataclass(frozen=True)
class Synthetic(ABC):
    """A base function F and the N clients' perturbed copies of it: objectives, x0 and bounds for `minimize`.

    Args:
        dim: d, the number of variables.
        clients: N, the number of clients.
        heterogeneity: C, how much the clients differ.
        seed: the seed of the Dirichlet draws, of x0 and of the noise.
        noise: standard deviation of the noise of each query, as a share of F(x0) - F*.
    """

    dim: int = 300
    clients: int = 5
    heterogeneity: float = 5.0
    seed: int = 0
    noise: float = 0.0

    name: ClassVar[str]
    half_width: ClassVar[float]  # H
    spread: ClassVar[float]  # S
    slope: ClassVar[float] = 1.0  # L

    a: FloatArray = field(init=False, repr=False, compare=False)
    b: FloatArray = field(init=False, repr=False, compare=False)
    x0: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_count("dim", self.dim, low=1)
        check_count("clients", self.clients, low=1)
        check_number("heterogeneity", self.heterogeneity, 0.0)
        check_count("seed", self.seed)
        check_number("noise", self.noise, 0.0)
        rng = np.random.default_rng(self.seed)
        shares = np.full(self.clients, 1.0 / self.clients)
        object.__setattr__(self, "a", rng.dirichlet(shares, self.dim).T)
        object.__setattr__(self, "b", rng.dirichlet(shares, self.dim).T)
        object.__setattr__(self, "x0", rng.uniform(-self.half_width, self.half_width, self.dim))

    @abstractmethod
    def base(self, z: FloatArray) -> FloatArray:
        """F at each row of z, (n, d) -> (n,)."""

    @abstractmethod
    def gradient(self, z: FloatArray) -> FloatArray:
        """The true gradient of F at one point, (d,) -> (d,)."""

    @property
    @abstractmethod
    def minimizer(self) -> FloatArray:
        """The minimizer of F, shape (d,)."""

    @property
    def minimum(self) -> float:
        """F*, the smallest value of F."""
        return self.value(self.minimizer)

    @property
    def bounds(self) -> tuple[float, float]:
        """The box (-H, H) of every coordinate."""
        return -self.half_width, self.half_width

    def value(self, x: FloatArray) -> float:
        """F at one point, without noise."""
        return float(self.base(x[None, :])[0])

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise of a query."""
        return self.noise * (self.value(self.x0) - self.minimum)

    @property
    def objectives(self) -> tuple[BatchObjective, ...]:
        """The clients' functions, each (n, d) -> (n,).

        Every client draws noise from its own generator, and every access to this property restarts the generators: runs
        of the same task see the same noise, whatever the number of workers.
        """
        objectives = tuple(self._objective(i) for i in range(self.clients))
        if not self.noise:
            return objectives
        seeds = np.random.SeedSequence(self.seed).spawn(self.clients)
        return tuple(_noisy(f, self.sigma, np.random.default_rng(s)) for f, s in zip(objectives, seeds, strict=True))

    def client_gradient(self, i: int, z: FloatArray) -> FloatArray:
        """The true gradient of f_i at one point, (d,) -> (d,)."""
        curvature, slope = self._perturbation(i)
        return self.gradient(z) + 2.0 * curvature * z + slope

    def _objective(self, i: int) -> BatchObjective:
        curvature, slope = self._perturbation(i)

        def objective(z: FloatArray) -> FloatArray:
            return self.base(z) + (z * z) @ curvature + z @ slope

        return objective

    def _perturbation(self, i: int) -> tuple[FloatArray, FloatArray]:
        """The coefficients of z_j^2 and of z_j in f_i - F."""
        factor = self.heterogeneity * self.spread / self.dim
        curvature = factor * (self.a[i] - 1.0 / self.clients) / self.half_width**2
        slope = factor * self.slope * (self.b[i] - 1.0 / self.clients) / self.half_width
        return curvature, slope


def _noisy(objective: BatchObjective, sigma: float, rng: np.random.Generator) -> BatchObjective:
    lock = Lock()  # a generator is not thread-safe

    def observe(z: FloatArray) -> FloatArray:
        with lock:
            errors = rng.standard_normal(len(z))
        return objective(z) + sigma * errors

    return observe


@dataclass(frozen=True)
class Quadratic(Synthetic):
    """The paper's quadratic: f_i(z) = (1/(10 d)) (sum_j [(1 + C (a_ij - 1/N)) z_j^2 + (1 + C (b_ij - 1/N)) z_j] + 1).

    F = (sum_j [z_j^2 + z_j] + 1) / (10 d) on [-10, 10]^d, with minimum -0.025 + 0.1/d at z = -1/2.

    Example:
        >>> from fzoos_experiments.tasks import Quadratic
        >>> task = Quadratic(dim=20, clients=3, heterogeneity=5.0, seed=1)
        >>> round(task.minimum, 6), task.minimizer[:2]
        (-0.02, array([-0.5, -0.5]))
    """

    name: ClassVar[str] = "quadratic"
    half_width: ClassVar[float] = 10.0
    spread: ClassVar[float] = 10.0
    slope: ClassVar[float] = 0.1

    def base(self, z: FloatArray) -> FloatArray:
        total: FloatArray = np.sum(z * z + z, axis=-1) + 1.0
        return total / (10.0 * self.dim)

    def gradient(self, z: FloatArray) -> FloatArray:
        return (2.0 * z + 1.0) / (10.0 * self.dim)

    @property
    def minimizer(self) -> FloatArray:
        return np.full(self.dim, -0.5)


@dataclass(frozen=True)
class Ackley(Synthetic):
    """Ackley's function, many local minima on a funnel: -20 exp(-0.2 rms(z)) - exp(mean cos(2 pi z)) + 20 + e.

    On [-32.768, 32.768]^d; the minimum is 0 at z = 0.

    Example:
        >>> from fzoos_experiments.tasks import Ackley
        >>> round(Ackley(dim=20).minimum, 12)
        0.0
    """

    name: ClassVar[str] = "ackley"
    half_width: ClassVar[float] = 32.768
    spread: ClassVar[float] = 20.0

    def base(self, z: FloatArray) -> FloatArray:
        rms = np.sqrt(np.mean(z * z, axis=-1))
        waves = np.exp(np.mean(np.cos(2.0 * math.pi * z), axis=-1))
        value: FloatArray = -20.0 * np.exp(-0.2 * rms) - waves + 20.0 + math.e
        return value

    def gradient(self, z: FloatArray) -> FloatArray:
        # 4 exp(-0.2 rms) z / (d rms) + (2 pi / d) exp(mean cos(2 pi z)) sin(2 pi z); zero at the kink z = 0
        rms = math.sqrt(float(np.mean(z * z)))
        funnel = 4.0 * math.exp(-0.2 * rms) * z / (self.dim * rms) if rms > 0 else np.zeros_like(z)
        waves = math.exp(float(np.mean(np.cos(2.0 * math.pi * z))))
        return funnel + 2.0 * math.pi / self.dim * waves * np.sin(2.0 * math.pi * z)

    @property
    def minimizer(self) -> FloatArray:
        return np.zeros(self.dim)


@dataclass(frozen=True)
class Levy(Synthetic):
    """Levy's function divided by d: with w = 1 + (z - 1) / 4,

        d F = sin^2(pi w_1) + sum_{j<d} (w_j - 1)^2 (1 + 10 sin^2(pi w_j + 1)) + (w_d - 1)^2 (1 + sin^2(2 pi w_d)).

    On [-10, 10]^d; the minimum is 0 at z = 1. The division makes the range of values independent of d.

    Example:
        >>> from fzoos_experiments.tasks import Levy
        >>> round(Levy(dim=20).minimum, 12)
        0.0
    """

    name: ClassVar[str] = "levy"
    half_width: ClassVar[float] = 10.0
    spread: ClassVar[float] = 10.0

    def base(self, z: FloatArray) -> FloatArray:
        w = 1.0 + (z - 1.0) / 4.0
        head, middle, last = w[..., 0], w[..., :-1], w[..., -1]
        total: FloatArray = (
            np.sin(math.pi * head) ** 2
            + np.sum((middle - 1.0) ** 2 * (1.0 + 10.0 * np.sin(math.pi * middle + 1.0) ** 2), axis=-1)
            + (last - 1.0) ** 2 * (1.0 + np.sin(2.0 * math.pi * last) ** 2)
        )
        return total / self.dim

    def gradient(self, z: FloatArray) -> FloatArray:
        # sin^2(v)' = sin(2 v) v'
        w = 1.0 + (z - 1.0) / 4.0
        grad = np.zeros_like(w)
        middle, last = w[:-1], w[-1]
        wave = math.pi * middle + 1.0
        grad[:-1] = 2.0 * (middle - 1.0) * (1.0 + 10.0 * np.sin(wave) ** 2)
        grad[:-1] += (middle - 1.0) ** 2 * 10.0 * math.pi * np.sin(2.0 * wave)
        grad[-1] = 2.0 * (last - 1.0) * (1.0 + np.sin(2.0 * math.pi * last) ** 2)
        grad[-1] += (last - 1.0) ** 2 * 2.0 * math.pi * np.sin(4.0 * math.pi * last)
        grad[0] += math.pi * np.sin(2.0 * math.pi * w[0])
        return grad / (4.0 * self.dim)

    @property
    def minimizer(self) -> FloatArray:
        return np.ones(self.dim)
