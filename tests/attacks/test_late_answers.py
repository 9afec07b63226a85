"""FedTrustRegion in asynchronous rounds: what a site sees of a late one in averages that are sent again."""

import numpy as np
import pytest
from attacker import make_study, secret

from fzoos import FedTrustRegion
from fzoos.algorithms.trust_region.late_gradients import LateGradients
from fzoos.federation.asynchronous import AsynchronousServer
from fzoos.federation.exchange import Dropouts, Outcome

DIM, SITES, LATE = 4, 3, 2


class Slow:
    """The last site answers its second request for a gradient in the round after."""

    def __init__(self, clients):
        self._clients, self._cached = clients, {}
        self.requests, self.gradients = [], {}  # to the first site; of the last one, by round

    def exchange(self, requests, timeout):
        raise AssertionError("asynchronous rounds gather")

    def gather(self, requests, timeout, enough):
        now = {**self._cached, **requests}
        self._cached = {}
        late = requests.get(LATE)
        if late is not None and late.kind == "refresh" and late.round == 2:
            self._cached = {LATE: now.pop(LATE)}
        outcome = Outcome()
        for i, request in now.items():
            outcome.replies[i] = self._clients[i].handle(request)
            if i == 0:
                self.requests.append(request)
            if i == LATE and request.kind == "refresh":
                self.gradients[request.round] = outcome.replies[i].arrays["gradient"]
        return outcome


def test_two_histories_differ_by_one_site_s_gradient():
    """The average of round 2 was sent with a predicted gradient of the late site. When the true one has come, it is
    sent again: 3 times the difference is the one less the other, to the last digits. Any site can compute it."""
    functions = [
        secret,
        lambda x: float(np.sum((x - 0.7) ** 2)),
        lambda x: float(np.sum(np.cos(2.0 * x)) + x[0] * x[3]),
    ]
    study = make_study({"name": "fedtrustregion"}, DIM, sites=tuple("abc"))
    engine = Slow([study.client(i, f) for i, f in enumerate(functions)])
    server = AsynchronousServer(
        engine,
        FedTrustRegion(),
        np.full(DIM, 0.4),
        weights=study.omega,
        participants=SITES,
        shared_seed=study.seeds.shared,
        rng=np.random.default_rng(0),
        dropouts=Dropouts(min_clients=SITES - 1),
        enough=SITES - 1,
    )
    for _ in range(4):
        server.run(server.plan())
    updates = {request.round: request.arrays for request in engine.requests if request.kind == "update"}
    first = next(r for r in sorted(updates) if "history" in updates[r])
    before, after = updates[2]["gradient"], updates[first]["history"][2 - first]  # rows end with the round before
    late = LateGradients.of(server.state.half, study.omega, DIM)
    first_round, second_round = (late.gradients[late.row(r)] for r in (1, 2))
    predicted = first_round[LATE] + np.mean((second_round - first_round)[:LATE], axis=0)
    assert np.linalg.norm(engine.gradients[2] - predicted) > 0.01
    assert SITES * (after - before) == pytest.approx(engine.gradients[2] - predicted, abs=1e-10)
