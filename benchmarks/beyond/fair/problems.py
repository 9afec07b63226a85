"""Problems in many dimensions: the rows of the goals, and held-out ones that no constant was chosen for.

All are moved to the unit cube. The seed draws the instance, the split over the clients and x_0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.objectives.box import BatchObjective
from fzoos_experiments.tasks import Ackley, Levy, Quadratic
from fzoos_experiments.tasks.synthetic import Synthetic

Trace = list[tuple[int, FloatArray]]  # queries so far, and where the server stands


@dataclass(frozen=True)
class Problem:
    """Clients' functions of rows of the unit cube, and what F(x) - F* is without noise."""

    objectives: Sequence[BatchObjective]
    x0: FloatArray
    gap: Callable[[FloatArray], float]
    budget: int  # queries of all clients
    goal: float | None = None  # F - F*


Maker = Callable[[int], Problem]  # of a seed


def in_cube(objective: BatchObjective, low: float, high: float) -> BatchObjective:
    return lambda x: np.asarray(objective(low + (high - low) * x))


def synthetic(kind: type[Synthetic], budget: int, goal: float, heterogeneity: float, noise: float = 0.0) -> Maker:
    """One of the library's tasks, d = 300, N = 5; noise is sigma as a share of F(x_0) - F*."""

    def make(seed: int) -> Problem:
        task = kind(dim=300, clients=5, heterogeneity=heterogeneity, seed=seed, noise=noise)
        low, high = task.bounds
        return Problem(
            [in_cube(f, low, high) for f in task.objectives],
            (task.x0 - low) / (high - low),
            lambda x: task.value(low + (high - low) * x) - task.minimum,
            budget,
            goal,
        )

    return make


ROWS: dict[str, Maker] = {
    "quadratic-0.5": synthetic(Quadratic, 2_200, 0.05, 0.5),
    "quadratic-5": synthetic(Quadratic, 3_100, 0.05, 5.0),
    "quadratic-50": synthetic(Quadratic, 3_300, 0.05, 50.0),
    "levy-5": synthetic(Levy, 4_000, 0.35, 5.0),
    "ackley-0.5": synthetic(Ackley, 7_150, 6.5, 0.5),
    "noise-0.1": synthetic(Quadratic, 7_150, 0.5, 5.0, 0.1),
    "noise-0.01": synthetic(Quadratic, 7_150, 0.03, 5.0, 0.01),
}


def _rastrigin(y: FloatArray) -> FloatArray:
    y = y * 5.12 / HALF
    return np.asarray(np.mean(y * y - 10 * np.cos(2 * np.pi * y) + 10, axis=-1))


def _griewank(y: FloatArray) -> FloatArray:
    y = y * 60 / HALF
    waves = np.prod(np.cos(y / np.sqrt(np.arange(1, y.shape[-1] + 1))), axis=-1)
    return np.asarray(1 + np.sum(y * y, axis=-1) / 4000 - waves)


def _rosenbrock(y: FloatArray) -> FloatArray:
    w = 1 + y * 2 / HALF
    return np.asarray(np.mean(100 * (w[..., 1:] - w[..., :-1] ** 2) ** 2 + (1 - w[..., :-1]) ** 2, axis=-1))


def _log_cosh(y: FloatArray) -> FloatArray:
    return np.asarray(np.mean(np.log(np.cosh(3 * y)), axis=-1))


def _quartic(y: FloatArray) -> FloatArray:
    y = y / HALF
    return np.asarray(np.mean(y**4, axis=-1) + 0.1 * np.mean(y * y, axis=-1))


HALF = 5.0  # half the width of the held-out problems' box
SHAPES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "rastrigin": _rastrigin,
    "griewank": _griewank,
    "rosenbrock": _rosenbrock,
    "log cosh": _log_cosh,
    "quartic": _quartic,
}  # functions of y = z - z*, with minimum 0 at y = 0; "quadratic" is separate


@dataclass(frozen=True)
class HeldOut:
    """f_i(z) = F(z) + (C F(z_0) / d) sum_j [(a_ij - 1/N) u_j^2 + (b_ij - 1/N) u_j],  u = z / H, with a shifted minimum.

    The quadratic is rotated with eigenvalues between 1/condition and 1. What is reported is F(x) / F(x_0).
    """

    kind: str
    budget: int
    dim: int = 300
    clients: int = 5
    heterogeneity: float = 5.0
    condition: float = 1.0
    border: bool = False  # half of the minimiser's coordinates near the border
    noise: float = 0.0  # sigma / F(x_0)

    def __call__(self, seed: int) -> Problem:
        """The instance of a seed."""
        rng = np.random.default_rng([seed, 7])
        shares = np.full(self.clients, 1 / self.clients)
        curvatures = rng.dirichlet(shares, self.dim).T - 1 / self.clients
        slopes = rng.dirichlet(shares, self.dim).T - 1 / self.clients
        z0 = rng.uniform(-HALF, HALF, self.dim)
        value = self._base(rng)
        start = float(value(z0[None])[0])
        objectives = [
            in_cube(self._objective(value, start, curvatures[i], slopes[i], [seed, 11, i]), -HALF, HALF)
            for i in range(self.clients)
        ]

        def relative(x: FloatArray) -> float:
            return float(value((-HALF + 2 * HALF * x)[None])[0]) / start

        return Problem(objectives, (z0 + HALF) / (2 * HALF), relative, self.budget)

    def _base(self, rng: np.random.Generator) -> BatchObjective:
        """F."""
        minimiser = self._minimiser(rng)
        if self.kind != "quadratic":
            shape = SHAPES[self.kind]
            return lambda z: shape(z - minimiser)
        if self.condition == 1.0:
            return lambda z: ((z - minimiser) * (z - minimiser)) @ np.ones(self.dim) / self.dim
        eigenvalues = np.exp(rng.uniform(-math.log(self.condition), 0, self.dim))
        rotation = np.linalg.qr(rng.standard_normal((self.dim, self.dim)))[0]
        return lambda z: ((z - minimiser) @ rotation) ** 2 @ eigenvalues / self.dim

    def _minimiser(self, rng: np.random.Generator) -> FloatArray:
        if not self.border:
            return rng.uniform(-0.5 * HALF, 0.5 * HALF, self.dim)
        inside = rng.random(self.dim) < 0.5
        return np.where(
            inside, rng.uniform(-HALF, HALF, self.dim), np.sign(rng.standard_normal(self.dim)) * HALF * 0.98
        )

    def _objective(
        self, value: BatchObjective, start: float, curvature: FloatArray, slope: FloatArray, seed: list[int]
    ) -> BatchObjective:
        rng, sigma = np.random.default_rng(seed), self.noise * start

        def objective(z: FloatArray) -> FloatArray:
            u = z / HALF
            result = value(z) + self.heterogeneity * start / self.dim * (u**2 @ curvature + u @ slope)
            return result + sigma * rng.standard_normal(len(z)) if sigma else result

        return objective


HELD_OUT: dict[str, Maker] = {
    "condition-100": HeldOut("quadratic", 9_000, condition=100.0),
    "condition-100-alike": HeldOut("quadratic", 5_000, condition=100.0, heterogeneity=0.2),
    "border": HeldOut("quadratic", 4_000, border=True),
    "rastrigin": HeldOut("rastrigin", 7_000, heterogeneity=1.0),
    "griewank": HeldOut("griewank", 5_000, heterogeneity=1.0),
    "rosenbrock": HeldOut("rosenbrock", 6_000, dim=100, heterogeneity=1.0),
    "log-cosh": HeldOut("log cosh", 4_000),
    "quartic": HeldOut("quartic", 4_000, clients=10),
    "two-clients": HeldOut("quadratic", 3_000, clients=2, condition=10.0),
    "twenty-clients": HeldOut("quadratic", 12_000, clients=20, condition=10.0),
    "d-1000": HeldOut("quadratic", 12_000, dim=1000, condition=10.0),
    "condition-noise": HeldOut("quadratic", 8_000, condition=10.0, noise=0.03),
}
