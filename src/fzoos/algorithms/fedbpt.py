r"""FedBPT: evolution strategies at the clients, and one at the server, whose population they are (Sun et al. 2024).

A client runs T generations of the separable CMA-ES from N(x_{r-1}, sigma_{r-1}^2 I), as in `fedcma.py`, and sends the
mean m_i that it ends with, the loss f_i(m_i), and how long its steps were. The server takes these means for a
generation of its own, in which the mean of the smallest loss has the largest weight:

    w_k     ~ omega_(k) (ln(N + 1/2) - ln k),   k = 1..N,   sum_k w_k = 1,   mu_w = 1 / sum_k w_k^2                  (1)
    x_r     = sum_k w_k m_(k)                                                                                        (2)
    s^2     = sum_i q_i / (N mu),   q_i = sum_t sigma_{i,t}^2                                                        (3)
    p       <- (1 - c) p + sqrt(c (2 - c) mu_w) (x_r - x_{r-1}) / s                                                  (4)
    sigma_r = sigma_{r-1} exp((c / D) (||p|| / chi - 1))                                                             (5)

=========  ========  ==============================================================================================
symbol     shape     meaning
=========  ========  ==============================================================================================
m_(k)      (d,)      the clients' means, from the smallest loss to the largest; omega_(k) their weights
sigma_i,t  scalar    step size of client i's generation t
mu         scalar    points of a client's generation that are used, half of lambda
s          scalar    the deviation that the clients' means have if nothing is to be gained: the server's step size
p          (d,)      evolution path: a decaying sum of the server's steps; stays at the server
c, D       scalar    its rate, and the damping of sigma; chi is the expected length of a vector from N(0, I)
=========  ========  ==============================================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import ClientContext, ClientHalf, Part, Round, ServerHalf, State
from fzoos.algorithms.fedcma import SearchClient, SearchSettings
from fzoos.messages.message import Arrays, Kind, Message
from fzoos.objectives.box import clip_to_cube

__all__ = ["FedBPT"]

_SMALLEST, _LARGEST, _HALF = 1e-12, 1e6, 0.5  # limits of step sizes; in a box, half of it is wide enough
_INSTEAD = 'name = "fedcma"'


@dataclass(frozen=True)
class FedBPT(SearchSettings):
    """FedBPT: T generations of a CMA-ES at each client, then one of the server's, made of the clients' means.

    One exchange a round, two numbers beside x each way, T lambda + 1 queries: the last one is the loss that means are
    ranked by. That loss leaves the client, and clients are ranked by it though their objectives differ: what is found
    is drawn to the clients whose objectives are small.

    Args:
        population: lambda, the points of a client's generation, at least 4.
        deviation: sigma of the first round, in units of the unit cube.
        local_steps: T, the number of generations of each client in a round.
        projected: whether iterates and queries are clipped to the box.

    Reference:
        J. Sun et al., "FedBPT: Efficient Federated Black-box Prompt Tuning for Large Language Models", ICML 2024
        (arXiv:2310.01467), and its program in NVIDIA FLARE's research folder.

    Deviations:
        - The server's covariance stays the identity, and only its step size is adapted: N points in d dimensions a
          round would change it by parts in a thousand, and the clients would need d more numbers.
        - The clients' covariance is diagonal, and their points outside the box are treated as in `FedCMA`.
        - The weights omega are factors of the ranks' weights; equal ones give the paper's.
        - No perturbed inputs against overfitting: they belong to its task.
        - A client whose last query failed sends the largest value of its round.

    Example:
        >>> import numpy as np
        >>> from fzoos import FedBPT, minimize
        >>> f = lambda x: float(x @ x)
        >>> result = minimize([f], x0=np.ones(3), bounds=(-1, 1), algorithm=FedBPT(), rounds=3, seed=0)
        >>> result.queries, bool(np.linalg.norm(result.x) < 0.1)          # 3 rounds of 10 generations of 21, and 1
        (633, True)
    """

    def client(self, context: ClientContext) -> ClientHalf:
        return _Client(context, self)

    def server(self, dim: int) -> ServerHalf:
        return _Server(dim, self)

    def cost(self, dim: int, request: Message, *, first: bool) -> int:
        """Return T lambda + 1."""
        return self.steps_in(request) * self.population + 1


class _Server(ServerHalf):
    """Each round is one generation of the server's CMA-ES, made of the single replies.

    A reply has m_i as x, f_i(m_i) as loss, and the root of q_i as sigma, in place of which sigma_r comes back.
    """

    def __init__(self, dim: int, settings: FedBPT) -> None:
        parts = {
            "x": Part((dim,), stacked=True),
            "loss": Part((1,), "refuse", _INSTEAD, stacked=True),
            "sigma": Part((1,), "refuse", _INSTEAD, low=0.0, high=_LARGEST, stacked=True),
        }
        super().__init__(dim, parts)
        self._settings = settings

    def next_state(self, state: State, kind: Kind, mean: Arrays, round: Round) -> State:
        settings, x, dim, count = self._settings, state["x"], self.dim, len(round.replied)
        sigma, path = float(state.get("sigma", np.array([settings.deviation]))[0]), state.get("path", np.zeros(dim))
        order = np.argsort(mean["loss"][:, 0], kind="stable")
        weights = round.weights[list(round.replied)]
        w = weights[order] * (math.log(count + 0.5) - np.log(np.arange(1, count + 1)))  # Eq. (1)
        w = w / w.sum()
        mu_w = float(1.0 / np.sum(w**2))
        means = mean["x"][order]
        new = np.clip(w @ means, means.min(axis=0), means.max(axis=0))  # Eq. (2), not out of their range by rounding
        spread = sum(s**2 for s in mean["sigma"][:, 0].tolist()) / count / (settings.population // 2)  # Eq. (3)
        rate = (mu_w + 2) / (dim + mu_w + 3)
        damping = 1 + 2 * max(0.0, math.sqrt((mu_w - 1) / (dim + 1)) - 1) + rate
        follow = math.sqrt(rate * (2 - rate) * mu_w)
        path = (1 - rate) * path + follow * (new - x) / max(math.sqrt(spread), _SMALLEST)  # Eq. (4)
        chi = math.sqrt(dim) * (1 - 1 / (4 * dim) + 1 / (21 * dim**2))
        grown = sigma * math.exp(min(50.0, rate / damping * (float(np.linalg.norm(path)) / chi - 1)))  # Eq. (5)
        sigma = min(max(grown, _SMALLEST), _HALF if settings.projected else _LARGEST)
        return {"x": clip_to_cube(new) if settings.projected else new, "path": path, "sigma": np.array([sigma])}


class _Client(SearchClient):
    def begin(self, x: FloatArray, request: Message) -> None:
        super().begin(x, request)
        self._sigma, self._squares = float(self._search.deviations[0]), 0.0

    def _first(self, x: FloatArray, request: Message) -> FloatArray:
        sigma = request.arrays.get("sigma", np.array([self._deviation]))
        return np.full(len(x), np.clip(sigma[0], _SMALLEST, _LARGEST))

    def step(self, x: FloatArray, t: int) -> FloatArray:
        """Run one generation and add up its step size."""
        self._squares += (self._sigma * self._search.sigma) ** 2
        return super().step(x, t)

    def end(self, x: FloatArray) -> Arrays:
        """Return m_i, the loss there, and the root of q_i."""
        loss = float(self.context.query_inside(x[None, :])[0])
        if not math.isfinite(loss):
            loss = self.worst if math.isfinite(self.worst) else 0.0
        return {"x": x, "loss": np.array([loss]), "sigma": np.array([min(math.sqrt(self._squares), _LARGEST)])}
