"""A small federation of `FZooS` that records its messages and queries."""

import numpy as np

from fzoos import SGD, ActiveQueries, Constant, FZooS, SquaredExponential
from fzoos.algorithms.base import ClientContext
from fzoos.engines.local import LocalEngine
from fzoos.federation.client import Client
from fzoos.federation.server import Server
from fzoos.objectives.box import Box
from fzoos.objectives.evaluator import Evaluator
from fzoos.objectives.trajectory import Trajectory

SEED, NOISE, D, M = 99, 1e-5, 3, 40
POINTS, PICKS, REFRESH = 6, 2, 3
X0 = np.array([0.4, 0.6, 0.5])


def client_function(i):
    centre = np.array([0.2, 0.5, 0.8]) + 0.1 * i
    return lambda x: float(np.sum((1 + i) * (x - centre) ** 2) + 0.3 * np.sin(4 * x[0]) + 5 * i)


def settings(steps=3, eta=0.02, **changes):
    values = {
        "local_steps": steps,
        "optimizer": SGD(eta),
        "kernel": SquaredExponential(0.7),
        "noise": NOISE,
        "features": M,
        "initial": POINTS,
        "active": ActiveQueries(8, PICKS, 0.1),
        "refresh": ActiveQueries(9, REFRESH),
        "length": Constant(1.0),
        "projected": False,
    }
    return FZooS(**(values | changes))


class Federation:
    """Clients and a server; `wire` holds all messages, `queried` all queries."""

    def __init__(self, algorithm, *, clients=2, participants=None, weights=None):
        self.queried = [([], []) for _ in range(clients)]
        self.algorithm = algorithm
        self.wire = []  # (request, {client: reply})
        parties = []
        for i in range(clients):
            evaluator = Evaluator(self._recorded(i), Box.of((0, 1), D), client=i)
            site = ClientContext(evaluator, Trajectory(D), np.random.default_rng(i), D, clients, algorithm.projected)
            parties.append(Client(algorithm.client(site)))
        self._engine = LocalEngine(parties)
        self.weights = np.full(clients, 1 / clients) if weights is None else np.array(weights)
        self.server = Server(
            self,
            algorithm,
            X0,
            weights=self.weights,
            participants=participants or clients,
            shared_seed=SEED,
            rng=np.random.default_rng(1),
        )

    def _recorded(self, i):
        f = client_function(i)

        def objective(x):
            y = f(x)
            self.queried[i][0].append(x.copy())
            self.queried[i][1].append(y)
            return y

        return objective

    def exchange(self, requests, timeout):
        outcome = self._engine.exchange(requests)
        self.wire.append((next(iter(requests.values())), outcome.replies))
        return outcome

    def run(self, rounds):
        for _ in range(rounds):
            self.server.run(self.server.plan())
        return self

    def data(self, i, count=None):
        x, y = self.queried[i]
        return np.array(x[:count]), np.array(y[:count])

    def sent(self, kind):
        return [(request, replies) for request, replies in self.wire if request.kind == kind]
