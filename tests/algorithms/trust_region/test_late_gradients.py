"""FedTrustRegion in asynchronous rounds: gradients of late sites are predicted, x keeps to where that holds, and F is
that of all sites in the end."""

import json
import math

import numpy as np
import pytest

from fzoos import FedTrustRegion
from fzoos.algorithms.trust_region.client import RegionStatistics
from fzoos.algorithms.trust_region.late_gradients import LateGradients
from fzoos.federation.asynchronous import AsynchronousServer
from fzoos.federation.exchange import Dropouts, Outcome
from fzoos.federation.server_state import ServerState
from fzoos.federation.study import Study
from fzoos.messages.message import Message

DIM, SITES = 4, 4
WEIGHTS = np.array([0.5, 0.25, 0.25])


def vector(*numbers):
    return np.array(numbers, dtype=float)


def make_late(rows, **more):
    """The clients' gradients by round, None where one is not known, in two dimensions."""
    late = LateGradients.of({}, WEIGHTS[: len(next(iter(rows.values())))], 2)
    for round, gradients in rows.items():
        row = late.row(round)
        for i, gradient in enumerate(gradients):
            if gradient is not None:
                late.gradients[row, i] = gradient
    for name, value in more.items():
        setattr(late, name, value)
    return late


def test_a_missing_gradient_moves_like_the_others():
    """g_2 was (9, 9) in round 1. Clients 0 and 1, of weights 2 : 1, have since moved by (3, 0) and (0, 6): the mean is
    (2, 2). Client 1 alone is known at both in round 3: it moved by (0, 1)."""
    late = make_late({1: [(1, 1), (2, 2), (9, 9)], 2: [(4, 1), (2, 8), None], 3: [None, (2, 3), None]})
    assert late.filled(1)[2].tolist() == [11, 11]
    assert make_late({1: [(1, 1), (2, 2), (9, 9)], 3: [None, (2, 3), None]}).filled(1)[2].tolist() == [9, 10]
    late.absent[2] = 1.0
    assert list(late.filled(1)) == [0, 1]  # who is gone is left out
    assert late.filled(2)[0].tolist() == [4, -4]  # client 1 moved by (0, -5) since round 2


def test_an_exact_prediction_of_quadratics_that_bend_alike():
    """f_i = x.A x / 2 + b_i.x: gradients differ by constants, so that what is predicted is what would have come."""
    rng = np.random.default_rng(0)
    root, b, x, y = rng.normal(size=(2, 2)), rng.normal(size=(3, 2)), rng.normal(size=2), rng.normal(size=2)
    at_x, at_y = ([root @ root.T @ z + b_i for b_i in b] for z in (x, y))
    late = make_late({1: at_x, 2: [*at_y[:2], None]})
    np.testing.assert_allclose(late.filled(1)[2], at_y[2], rtol=1e-12)


@pytest.mark.parametrize(("off", "power"), [(0.0, 1.0), (1.2, 0.0), (0.6, 0.5), (100.0, -1.0)])
def test_the_distance_by_hand(off, power):
    """Client 2 of weight 1/4, known in rounds 1 and 3. The others moved by (1, 0) from 0: so does G. What came
    is off by `off`: e = off / 4 over 1, p = 1 - e / 0.3, and R = |x_3 - x_1| 2^p = 0.2 * 2^p."""
    late = make_late(
        {1: [(0, 0)] * 3, 2: [(0.5, 0), (0.5, 0), None], 3: [(1, 0), (1, 0), (1, off)]},
        centres=np.array([(0, 0), (0.1, 0), (0.2, 0.1)]),
    )
    late.measure_radii(2)
    assert np.isnan(late.radii).tolist() == [True, True, False]  # the others were in time
    assert late.radii[2] == pytest.approx(0.2 * 2.0**power, rel=1e-12)


def test_x_stays_within_the_radius():
    """R = 0.1 around (0.5, 0.5), of a client that is late; beyond it, no further than x is already."""

    def there(x, first):
        rows = {1: [(0, 0), (0, 0)], 2: [first, (0, 0)]}
        centres = np.array([(0.5, 0.5), x])
        late = make_late(rows, radii=np.array([0.1, 0.01]), centres=centres)
        return late.within_radii(vector(0.9, 0.45), vector(*x), 1).tolist()

    assert there((0.5, 0.5), None) == [0.6, 0.45]
    assert there((0.7, 0.5), None) == pytest.approx([0.7, 0.45])
    assert there((0.5, 0.5), (0, 0)) == [0.9, 0.45]


class Clocked:
    """An engine whose last site answers a request that costs queries after `pace` exchanges, or when all must.

    Args:
        answer: client, request -> the reply.
        pace: exchanges.
        slow: which site it is.
    """

    def __init__(self, answer, pace, slow):
        self._answer, self._pace, self._slow = answer, pace, slow
        self.now, self.busy, self.queried = 0, {}, []

    def exchange(self, requests, timeout):
        raise AssertionError("asynchronous rounds gather")

    def gather(self, requests, timeout, enough):
        self.now += 1
        for i, request in requests.items():
            late = i == self._slow and request.kind == "refresh" and not request.scalars.get("quiet")
            self.busy[i] = (self.now + (self._pace if late else 0), request)
            self.queried.append((i, request))
        due = [i for i, (end, _) in self.busy.items() if end <= self.now or enough > len(self.busy) - 1]
        return Outcome({i: self._answer(i, self.busy.pop(i)[1]) for i in sorted(due)})


def bowls():
    """Bowls of different widths, with minima in different places; F has its own in closed form."""
    widths, places = 1.0 + np.arange(SITES)[:, None] * np.linspace(0.3, 1.0, DIM), np.linspace(0.2, 0.8, SITES)
    functions = [lambda x, w=w, c=c: float(w @ (x - c) ** 2) for w, c in zip(widths, places, strict=True)]
    return functions, np.sum(widths * places[:, None], axis=0) / np.sum(widths, axis=0)


def make(functions, pace=6, enough=SITES - 1, **settings):
    study = Study(
        "demo", x0=0.5, dim=DIM, bounds=(0, 1), sites=tuple("abcd"), algorithm={"name": "fedtrustregion"}, **settings
    )
    clients = [study.client(i, f) for i, f in enumerate(functions)]
    engine = Clocked(lambda i, request: clients[i].handle(request), pace, SITES - 1)
    server = AsynchronousServer(
        engine,
        FedTrustRegion(),
        np.full(DIM, 0.5),
        weights=study.omega,
        participants=SITES,
        shared_seed=study.seeds.shared,
        rng=np.random.default_rng(0),
        dropouts=Dropouts(min_clients=enough),
        enough=enough,
    )
    return server, engine, clients


def run(server, rounds):
    for _ in range(rounds):
        server.run(server.plan())
    return server.x


def test_it_ends_at_the_optimum_of_all():
    """The slow site answers every sixth exchange. Without it the optimum of the others is 0.09 away."""
    functions, best = bowls()
    server, engine, clients = make(functions)
    found = run(server, 60)
    assert np.max(np.abs(found - best)) < 1e-4
    slow = [request for i, request in engine.queried if i == SITES - 1]
    with_queries = [r for r in slow if r.kind == "refresh" and not r.scalars.get("quiet")]
    assert 5 <= len(with_queries) <= 25
    assert clients[-1].queries == DIM + 1 + 2 * (len(with_queries) - 1 - (SITES - 1 in server.state.answers.under_way))


def test_who_was_late_is_next_asked_without_queries():
    """Then it answers at once, takes part in the whole round, and is queried with queries again."""
    server, engine, _ = make(bowls()[0])
    run(server, 20)
    kinds = [("quiet" if r.scalars.get("quiet") else r.kind) for i, r in engine.queried if i == SITES - 1]
    assert kinds[:4] == ["refresh", "quiet", "update", "refresh"]


def test_averaged_gradients_of_past_rounds_are_sent_again():
    """When a late gradient has come, all later averages contain it: the history of an update is what the averages would
    have been with what is known now, a row for each round before."""
    server, engine, _ = make(bowls()[0])
    run(server, 20)
    with_history = [r for i, r in engine.queried if i == 0 and "history" in r.arrays]
    assert with_history
    for request in with_history:
        assert request.arrays["history"].shape == (request.scalars["history"], DIM)
    last = with_history[-1]
    late = LateGradients.of(server.state.half, np.full(SITES, 1 / SITES), DIM)
    for row, s in zip(last.arrays["history"][::-1], range(last.round - 1, 0, -1), strict=False):
        known = late.gradients[late.rounds == s]
        if len(known) and not np.isnan(known).any():
            np.testing.assert_allclose(row, np.mean(known[0], axis=0), rtol=1e-12)


def test_another_server_goes_on_from_the_state():
    """Saved after every round, in the middle of late answers, and restored: all requests are the same."""
    functions, _ = bowls()
    one, engine, _ = make(functions)
    two, other, _ = make(functions)
    for _ in range(25):
        run(one, 1)
        run(two, 1)
        values, arrays = two.state.save()
        two.state = ServerState.load(json.loads(json.dumps(values)), arrays)
    assert np.array_equal(one.x, two.x)
    assert [r.scalars for _, r in engine.queried] == [r.scalars for _, r in other.queried]


def test_no_value_at_a_late_centre():
    """The slow site has none right of 0.55 in the last coordinate, where the optimum of all is. It says so late: x goes
    back to the last centre at which it had one, and from then on every exchange waits for all."""
    functions, best = bowls()
    assert best[-1] > 0.58

    def fails(x):
        if x[-1] > 0.55:
            raise ValueError("no value here")
        return functions[-1](x)

    server, engine, _ = make([*functions[:-1], fails], on_failure="skip", pace=3)
    run(server, 40)
    assert server.state.half["late_flags"][0]
    rounds = [{i for i, r in engine.queried if r.round == s and r.kind == "update"} for s in range(36, 41)]
    assert all(len(queried) == SITES for queried in rounds)
    assert server.x[-1] <= 0.55
    assert server.x[-1] > 0.5


def test_a_liar_without_a_gradient_changes_nothing():
    """NaN in a late gradient is refused when it comes; the others go on, and who sent it is left out."""

    def answer(i, request):
        if request.kind == "update":
            x = np.full(DIM, 0.5)
            return Message("iterate", request.round, {"x": x}, {"queries": 3 + 2 * request.round})
        gradient = np.full(DIM, np.nan if i == 3 else 1.0)
        region = np.array(RegionStatistics(math.log(request.scalars["radius"])))
        return Message(
            "payload", request.round, {"gradient": gradient, "region": region}, {"queries": 3 + 2 * request.round}
        )

    server, engine, _ = make(bowls()[0])
    engine._answer = answer
    run(server, 4)
    assert server.state.half["late_absent"].tolist() == [0, 0, 0, 1]
    assert np.array_equal(server.state.half["gradient"], np.ones(DIM))
