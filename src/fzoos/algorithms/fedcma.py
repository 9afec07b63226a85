"""Federated CMA-ES: evolution strategies at the clients, their distributions averaged (FedBPT's idea, Sun et al. 2023).

A client does not estimate gradients. It searches with the separable CMA-ES (`separable_cma.py`): each of its T local
steps is a generation,

    x_k ~ N(m, diag(s)^2),  k = 1..lambda,        m <- sum over the best lambda / 2 of w_k x_k,

and s follows from how the best points and the steps of m were spread. The server averages what the clients end with:

    x_r = sum_i omega_i m_i,        s_r = sum_i omega_i s_i

=========  ========  ==================================================================================
symbol     shape     meaning
=========  ========  ==================================================================================
m, x       (d,)      the mean of the distribution: the iterate
s          (d,)      its standard deviations, sigma sqrt(C) in the words of CMA-ES; the payload
lambda     scalar    population: points, hence queries, of a generation
=========  ========  ==================================================================================

Points may leave the box; they are queried at their projection P x_k, and the distance is a penalty on their ranks: the
best points are those of the smallest

    rank(y(P x_k)) + lambda mean_j ((x_k - P x_k)_j / s_j)^2                                                         (1)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.checks import check_count, check_positive
from fzoos.algorithms.base import ClientContext, ClientHalf, Part, ServerHalf
from fzoos.algorithms.local_steps import LocalSteps, LocalStepsHalf
from fzoos.algorithms.separable_cma import SeparableCMA
from fzoos.messages.message import Arrays, Message

__all__ = ["FedCMA", "SearchClient", "SearchSettings"]

_SMALLEST, _LARGEST, _HALF = 1e-12, 1e6, 0.5  # limits of deviations; in a box, half of it is wide enough


@dataclass(frozen=True)
class SearchSettings(LocalSteps):
    """Settings of the algorithms whose local steps are generations of a CMA-ES: FedCMA and FedBPT."""

    population: int = 21  # lambda
    deviation: float = 0.2  # s

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("population (lambda)", self.population, low=4)
        check_positive("deviation", self.deviation)


@dataclass(frozen=True)
class FedCMA(SearchSettings):
    """Federated CMA-ES: T generations at each client from the server's distribution, then the average of all.

    One exchange a round, d floats of payload each way, T lambda queries. Of the values only their order matters.

    Args:
        population: lambda, the points of a generation, at least 4. 21 is what a step of FedZO costs, and the usual
            4 + floor(3 ln d) for d about 300.
        deviation: s of the first round, in units of the unit cube; rather too large than too small, as within T
            generations it shrinks faster than it grows. Where iterates are projected, 0.5 is the largest that is used.
        local_steps: T, the number of generations of each client in a round.
        projected: whether iterates and queries are clipped to the box.

    References:
        J. Sun et al., "FedBPT: Efficient Federated Black-box Prompt Tuning for Large Language Models",
        arXiv:2310.01467, 2023.
        R. Ros and N. Hansen, "A Simple Modification in CMA-ES Achieving Linear Time and Space Complexity", PPSN 2008.
        N. Hansen et al., "A Method for Handling Uncertainty in Evolutionary Optimization", IEEE Transactions on
        Evolutionary Computation, 2009 (its boundary penalty).

    Deviations from FedBPT (from its program, in NVIDIA FLARE's research folder):
        - Its server takes the clients' means for the population of a CMA-ES of its own, which ranks them by the loss
          that each client sends of its own data, as `FedBPT` does. Here they are averaged with the weights omega:
          no loss leaves a client, and clients with different objectives cannot be ranked by them.
        - Its server sets the next local step size from that CMA-ES. Here the clients' own step size control does it,
          and s is averaged. As there, evolution paths begin again in each round.
        - The covariance is diagonal: d numbers travel, not d^2.
        - No perturbed inputs against overfitting: they belong to its task.
        - Points outside the box are queried at their projection, with the penalty of equation (1), as in Hansen et al.
          2009 but in ranks; only the mean is projected. To move the points themselves, as many programs do,
          would pull the mean towards the middle of the box, whatever the objective is.
        - A generation of equal values, or of failed queries only, leaves the distribution as it is. A single failed
          point counts as the mean, in the last rank.
        - In one dimension the search has a second coordinate that nothing depends on.

    Example:
        >>> import numpy as np
        >>> from fzoos import FedCMA, minimize
        >>> f = lambda x: float(x @ x)
        >>> result = minimize([f], x0=np.ones(3), bounds=(-1, 1), algorithm=FedCMA(), rounds=3, seed=0)
        >>> result.queries, bool(np.linalg.norm(result.x) < 0.1)          # 3 rounds of 10 generations of 21
        (630, True)
    """

    def client(self, context: ClientContext) -> ClientHalf:
        return SearchClient(context, self)

    def server(self, dim: int) -> ServerHalf:
        """Average m and s."""
        return ServerHalf(dim, {"s": Part((dim,), low=_SMALLEST, high=self.widest)})

    def cost(self, dim: int, request: Message, *, first: bool) -> int:
        return self.steps_in(request) * self.population

    @property
    def widest(self) -> float:
        """The largest deviation that is used and sent."""
        return _HALF if self.projected else _LARGEST


class SearchClient(LocalStepsHalf):
    """A client whose local steps are generations of a separable CMA-ES; the deviations travel as s."""

    def __init__(self, context: ClientContext, settings: SearchSettings) -> None:
        super().__init__(context, settings)
        self._population, self._deviation = settings.population, settings.deviation
        self._widest = _HALF if context.projected else _LARGEST
        self._search = self._begin_search(np.full(context.dim, 0.5), np.ones(context.dim), seed=0)
        if self._search.forgets_all:
            raise ValueError(f"population (lambda) {self._population} is too large for d = {context.dim}")

    def begin(self, x: FloatArray, request: Message) -> None:
        """Take the server's distribution; nothing of the client's last round is left."""
        super().begin(x, request)
        self.worst = -np.inf  # of the round's values
        self._search = self._begin_search(x, self._first(x, request), seed=int(self.context.rng.integers(2**32)))

    def _first(self, x: FloatArray, request: Message) -> FloatArray:
        """Return the deviations with which a round's search begins."""
        return request.arrays.get("s", np.full(len(x), self._deviation))

    def _begin_search(self, x: FloatArray, s: FloatArray, seed: int) -> SeparableCMA:
        unused = max(0, 2 - len(x))  # for d = 1
        mean = np.pad(x, (0, unused), constant_values=0.5)
        s = np.clip(s, _SMALLEST, self._widest)  # noise for privacy leaves the range
        return SeparableCMA(mean, np.pad(s, (0, unused), mode="edge"), self._population, seed)

    @property
    def _deviations(self) -> FloatArray:
        return np.maximum(self._search.deviations, _SMALLEST)

    def step(self, x: FloatArray, t: int) -> FloatArray:
        """Sample, evaluate and select one generation of lambda points."""
        search, size = self._search, self._population
        points = search.ask()
        inside = self.context.project(points)
        y = self.context.query_inside(inside[:, : len(x)])
        good = np.isfinite(y)
        self.worst = max(self.worst, float(np.max(y[good], initial=-np.inf)))
        if not good.any() or np.min(y[good]) == np.max(y[good]):
            return x
        outside = np.mean(((points - inside) / self._deviations) ** 2, axis=1)
        worth = np.full(size, np.inf)
        worth[good] = _ranks(y[good]) + size * outside[good]  # Eq. (1)
        points[~good] = search.mean
        search.tell(points, worth)
        search.mean = self.context.project(search.mean)
        mean: FloatArray = search.mean[: len(x)].copy()  # the search continues with its own
        return mean

    def end(self, x: FloatArray) -> Arrays:
        """Return m_i and s_i."""
        return {"x": x, "s": np.minimum(self._deviations[: len(x)], self._widest)}


def _ranks(y: FloatArray) -> FloatArray:
    """Return the ranks of y; equal values share the mean of theirs."""
    order = np.sort(y)
    ranks: FloatArray = 0.5 * np.add(np.searchsorted(order, y, "left"), np.searchsorted(order, y, "right"))
    return ranks
