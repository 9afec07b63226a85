"""Problems of suites: private functions of N clients whose average is a known function.

Client i's function is

    f_i(x) = F(x) + C S D_i(u) + noise,    u = the box scaled to [-1, 1]^d,    S = F(x0) - F*

where the differences D_i sum to zero over the clients, so that F is the average of all f_i and F* is known. Each D_i is
the sum of a random linear function, a random quadratic along the coordinates, and a random combination of N waves that
all clients share. The three have equal variance over the box, and each D_i has variance one (D = 0 for one client).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.objectives.box import Objective

__all__ = ["Differences", "SuiteProblem", "split"]


@dataclass(frozen=True)
class SuiteProblem:
    """A problem of several clients.

    Args:
        objectives: the clients' private functions f_i, each from x of shape (d,) to a number.
        value: F, without noise; not the objective of any client.
        x0: the start.
        bounds: (lower, upper) of each coordinate, shape (d, 2).
        minimum: F*, or None where it is unknown.

    Example:
        >>> from fzoos import minimize
        >>> from fzoos_experiments.suites.bbob import bbob
        >>> problem = bbob(1, dim=2, instance=1)                        # doctest: +SKIP
        >>> minimize(problem.objectives, problem.x0, bounds=problem.bounds, monitor=problem.value)  # doctest: +SKIP
    """

    objectives: tuple[Objective, ...]
    value: Callable[[FloatArray], float]
    x0: FloatArray
    bounds: FloatArray
    minimum: float | None

    @property
    def dim(self) -> int:
        """d, the number of variables."""
        return len(self.x0)


class Differences:
    """N smooth functions on [-1, 1]^d that sum to zero and have unit variance.

    Args:
        dim: d.
        clients: N.
        rng: the generator of the functions.

    Example:
        >>> import numpy as np
        >>> from fzoos_experiments.suites.problem import Differences
        >>> differences = Differences(dim=3, clients=4, rng=np.random.default_rng(0))
        >>> u = np.array([0.3, -0.8, 1.0])
        >>> abs(sum(differences(i, u) for i in range(4))) < 1e-14
        True
    """

    def __init__(self, dim: int, clients: int, rng: np.random.Generator) -> None:
        # Var u = 1/3 and Var u^2 = 4/45 for u uniform on [-1, 1]; about 1/2 for a cosine with a random phase.
        self._slopes = _centred(rng.normal(0.0, np.sqrt(3.0 / dim), (clients, dim)))
        self._curvatures = _centred(rng.normal(0.0, np.sqrt(45.0 / (4.0 * dim)), (clients, dim)))
        self._amplitudes = _centred(rng.normal(0.0, np.sqrt(2.0 / clients), (clients, clients)))
        self._frequencies = rng.normal(0.0, np.pi / np.sqrt(dim), (clients, dim))
        self._phases = rng.uniform(0.0, 2.0 * np.pi, clients)

    def __call__(self, client: int, u: FloatArray) -> float:
        """Return D_i(u), the deviation of this client from the mean."""
        waves = np.cos(self._frequencies @ u + self._phases)
        quadratic = self._slopes[client] @ u + self._curvatures[client] @ (u * u - 1.0 / 3.0)
        return float((quadratic + self._amplitudes[client] @ waves) / np.sqrt(3.0))


def _centred(draws: FloatArray) -> FloatArray:
    """Centre rows so that they sum to zero, with unchanged variance; a single row becomes zero."""
    clients = len(draws)
    centred: FloatArray = draws - draws.mean(axis=0)
    return centred * float(np.sqrt(clients / max(clients - 1, 1)))


def split(
    value: Callable[[FloatArray], float],
    x0: FloatArray,
    bounds: FloatArray,
    minimum: float,
    *,
    clients: int,
    heterogeneity: float,
    seed: tuple[int, ...],
    noise: float = 0.0,
    relative: bool = False,
) -> SuiteProblem:
    """Make a function the average of N private ones.

    Args:
        value: F.
        x0: the start.
        bounds: (lower, upper) of each coordinate, shape (d, 2).
        minimum: F*.
        clients: N.
        heterogeneity: C, the size of the clients' differences as a share of F(x0) - F*.
        seed: numbers that seed the differences and the noise.
        noise: standard deviation of the noise of each query, as a share of F(x0) - F*.
        relative: whether the noise is a share of F(x) instead.

    Example:
        >>> import numpy as np
        >>> from fzoos_experiments.suites.problem import split
        >>> x0, bounds = np.ones(2), np.array([[-2.0, 2.0]] * 2)
        >>> problem = split(lambda x: float(x @ x), x0, bounds, 0.0, clients=3, heterogeneity=1.0, seed=(0,))
        >>> values = [f(x0) for f in problem.objectives]
        >>> len(set(values)), round(sum(values) / 3, 12)
        (3, 2.0)
    """
    draws, *noises = np.random.SeedSequence(seed).spawn(1 + clients)
    differences = Differences(len(x0), clients, np.random.default_rng(draws))
    middle, half = bounds.mean(axis=1), (bounds[:, 1] - bounds[:, 0]) / 2.0
    scale = value(x0) - minimum

    def objective(client: int) -> Objective:
        rng = np.random.default_rng(noises[client])

        def f(x: FloatArray) -> float:
            shared = value(x)
            private = heterogeneity * scale * differences(client, (x - middle) / half)
            error = noise * (shared if relative else scale) * rng.standard_normal() if noise else 0.0
            return shared + private + error

        return f

    return SuiteProblem(tuple(objective(i) for i in range(clients)), value, x0, bounds, minimum)
