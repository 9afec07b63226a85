"""Small problems on the unit cube. The seed draws the instance, the split over the clients and x_0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from fzoos._util.arrays import FloatArray

Objective = Callable[[FloatArray], float]  # of one point


@dataclass(frozen=True)
class SmallProblem:
    """F is the mean of the clients' functions of one point of the cube."""

    objectives: Sequence[Objective]
    x0: FloatArray
    minimum: float

    def gap(self, x: FloatArray) -> float:
        """F(x) - F*."""
        return float(np.mean([f(x) for f in self.objectives])) - self.minimum


Maker = Callable[[int], SmallProblem]  # of a seed


def generator(seed: int, name: str) -> np.random.Generator:
    """Of a problem's instances: problems differ at the same seed."""
    return np.random.default_rng([seed, sum(map(ord, name))])


def weights(rng: np.random.Generator, clients: int, terms: int) -> FloatArray:
    """Dirichlet weights of a function's terms, (N, terms), with mean 1 over the clients."""
    return clients * rng.dirichlet(np.full(clients, 1.0), terms).T


def rosenbrock_terms(seed: int) -> SmallProblem:
    """Rosenbrock on [-2, 2]^2: each client has its own weights of the two terms, N = 4."""
    rng = generator(seed, "rosen")
    shares = weights(rng, 4, 2)

    def client(valley: float, slope: float) -> Objective:
        return lambda x: float(valley * 100 * ((4 * x[1] - 2) - (4 * x[0] - 2) ** 2) ** 2 + slope * (3 - 4 * x[0]) ** 2)

    return SmallProblem([client(*row) for row in shares], rng.uniform(0, 1, 2), 0.0)


def quadratic(indefinite: bool) -> Maker:
    """Condition 1e3, d = 5, N = 3: parts of rank 3 that are positive semi-definite, or full ones that are not."""

    def make(seed: int) -> SmallProblem:
        rng, dim, clients = generator(seed, "quad5"), 5, 3
        root = np.linalg.qr(rng.standard_normal((dim, dim)))[0] * np.sqrt(np.logspace(0, 3, dim))
        minimiser = rng.uniform(0.3, 0.7, dim)
        parts = _indefinite(rng, dim, clients) if indefinite else _low_rank(rng, dim, clients)
        slopes = rng.standard_normal((clients, dim)) * (30 if indefinite else 10)
        slopes -= slopes.mean(0)

        def client(matrix: FloatArray, slope: FloatArray) -> Objective:
            def objective(x: FloatArray) -> float:
                y = x - minimiser
                return float(0.5 * y @ matrix @ y + slope @ y) * 4

            return objective

        objectives = [client(root @ part @ root.T, b) for part, b in zip(parts, slopes, strict=True)]
        return SmallProblem(objectives, rng.uniform(0, 1, dim), 0.0)

    return make


def _low_rank(rng: np.random.Generator, dim: int, clients: int) -> list[FloatArray]:
    """Positive semi-definite matrices of rank 3 with mean I."""
    factors = [rng.standard_normal((dim, 3)) for _ in range(clients)]
    total = sum((z @ z.T for z in factors), np.zeros((dim, dim))) / clients
    white = np.linalg.inv(np.linalg.cholesky(total))
    return [white @ z @ z.T @ white.T for z in factors]


def _indefinite(rng: np.random.Generator, dim: int, clients: int) -> list[FloatArray]:
    """Symmetric matrices with mean I."""
    squares = [rng.standard_normal((dim, dim)) for _ in range(clients)]
    symmetric = [(z + z.T) / 2 for z in squares]
    mean = sum(symmetric, np.zeros((dim, dim))) / clients
    return [np.eye(dim) + (z - mean) for z in symmetric]


HARTMANN_A = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
HARTMANN_P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)
HARTMANN_C = np.array([1, 1.2, 3, 3.2])


def hartmann(one_each: bool) -> Maker:
    """Hartmann 6, N = 4: one term for each client (minima far apart), or Dirichlet weights of the four terms."""

    def make(seed: int) -> SmallProblem:
        rng = generator(seed, "hart6")
        shares = np.eye(4) * 4 if one_each else weights(rng, 4, 4)

        def client(share: FloatArray) -> Objective:
            scaled = share * HARTMANN_C
            return lambda x: -float(scaled @ np.exp(-np.sum(HARTMANN_A * (x - HARTMANN_P) ** 2, 1)))

        return SmallProblem([client(row) for row in shares], rng.uniform(0, 1, 6), -3.322368011415513)

    return make


def logistic(seed: int) -> SmallProblem:
    """Logistic regression on [-5, 5]^20, N = 4: 100 rows at each client, with other scales and means."""
    rng, dim, rows = generator(seed, "logit"), 20, 100
    truth = rng.standard_normal(dim) * 1.0
    tables = []
    for _ in range(4):
        table = rng.standard_normal((rows, dim)) * rng.uniform(0.3, 2, dim) + rng.standard_normal(dim) * 0.7
        tables.append(table * np.sign(table @ truth + rng.logistic(size=rows) * 1.0)[:, None])

    def client(table: FloatArray) -> Objective:
        def objective(x: FloatArray) -> float:
            z = 10 * x - 5
            return float(np.mean(np.logaddexp(0, -table @ z)) + 0.005 * np.sum(z**2))

        return objective

    def mean(x: FloatArray) -> tuple[float, FloatArray]:
        z = 10 * x - 5
        parts = [-(table.T @ (1 / (1 + np.exp(table @ z)))) / rows for table in tables]
        return float(np.mean([f(x) for f in objectives])), 10 * (np.mean(parts, 0) + 0.01 * z)

    objectives = [client(table) for table in tables]
    best = minimize(
        mean,
        np.full(dim, 0.5),
        jac=True,
        bounds=[(0, 1)] * dim,
        method="L-BFGS-B",
        options={"ftol": 1e-16, "gtol": 1e-12, "maxiter": 5000},
    )
    return SmallProblem(objectives, rng.uniform(0, 1, dim), float(best.fun))


def _rosenbrock(x: FloatArray) -> float:
    z = 4 * x - 2
    return float(np.sum(100 * (z[1:] - z[:-1] ** 2) ** 2 + (1 - z[:-1]) ** 2))


def _branin(x: FloatArray) -> float:
    u, v = 15 * x[0] - 5, 15 * x[1]
    valley = v - 5.1 / (4 * np.pi**2) * u * u + 5 / np.pi * u - 6
    return float(valley**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(u) + 10)


def _styblinski(x: FloatArray) -> float:
    z = 10 * x - 5
    return float(np.sum(z**4 - 16 * z**2 + 5 * z)) / 2


def _powell(x: FloatArray) -> float:
    a, b, c, d = (9 * x - 4).reshape(-1, 4).T
    return float(np.sum((a + 10 * b) ** 2 + 5 * (c - d) ** 2 + (b - 2 * c) ** 4 + 10 * (a - d) ** 4))


def _levy(x: FloatArray) -> float:
    w = 1 + (20 * x - 11) / 4
    middle = np.sum((w[:-1] - 1) ** 2 * (1 + 10 * np.sin(np.pi * w[:-1] + 1) ** 2))
    last = (w[-1] - 1) ** 2 * (1 + np.sin(2 * np.pi * w[-1]) ** 2)
    return float(np.sin(np.pi * w[0]) ** 2 + middle + last) / len(x)


def _sphere(x: FloatArray) -> float:
    return float(np.sum((x - 0.4) ** 2))


def _border(x: FloatArray) -> float:
    return float(np.sum((x[:2] + 0.3) ** 2) + np.sum((x[2:] - 0.4) ** 2))


@dataclass(frozen=True)
class Perturbed:
    """f_i = F + (S / d) sum_j [(a_ij - 1/N) u_j^2 + (b_ij - 1/N) u_j],  u = 2 x - 1: sums to zero over the clients."""

    name: str  # of the generator
    base: Objective
    dim: int
    minimum: float
    spread: float  # S
    clients: int = 4

    def __call__(self, seed: int) -> SmallProblem:
        """The instance of a seed."""
        rng, shares = generator(seed, self.name), np.full(self.clients, 1 / self.clients)
        curvatures = rng.dirichlet(shares, self.dim).T - 1 / self.clients
        slopes = rng.dirichlet(shares, self.dim).T - 1 / self.clients
        objectives = [self._client(curvatures[i], slopes[i]) for i in range(self.clients)]
        return SmallProblem(objectives, rng.uniform(0, 1, self.dim), self.minimum)

    def _client(self, curvature: FloatArray, slope: FloatArray) -> Objective:
        def objective(x: FloatArray) -> float:
            u = 2 * x - 1
            return self.base(x) + self.spread / self.dim * float(curvature @ u**2 + slope @ u)

        return objective


ROWS: dict[str, Maker] = {
    "rosenbrock-terms": rosenbrock_terms,
    "rosenbrock-perturbed": Perturbed("rosen", _rosenbrock, 2, 0.0, 100.0),
    "quadratic-low-rank": quadratic(indefinite=False),
    "quadratic-indefinite": quadratic(indefinite=True),
    "hartmann-weights": hartmann(one_each=False),
    "hartmann-terms": hartmann(one_each=True),
    "logistic": logistic,
}
HELD_OUT: dict[str, Maker] = {
    "branin": Perturbed("branin", _branin, 2, 0.39788735772973816, 50.0),
    "styblinski": Perturbed("styb", _styblinski, 5, -39.16616570377142 * 5, 100.0),
    "powell": Perturbed("powell", _powell, 4, 0.0, 1000.0),
    "levy": Perturbed("levy", _levy, 5, 0.0, 5.0),
    "border": Perturbed("border", _border, 5, 0.18, 1.0),
    "sphere": Perturbed("sphere", _sphere, 10, 0.0, 1.0),
}
