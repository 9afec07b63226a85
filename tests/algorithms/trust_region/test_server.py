"""The server half of FedTrustRegion: where a round begins, how far it may go, and what it costs."""

import math

import numpy as np
import pytest

from fzoos import FedTrustRegion, minimize
from fzoos.algorithms.trust_region.client import RegionNumbers
from fzoos.algorithms.trust_region.control import RegionControl
from fzoos.algorithms.trust_region.server import RegionServer

SEED = 9


def told(server, state):
    """What client 2 of 3 is told, of weight 1/4."""
    return RegionControl.of(server.scalars(state, SEED, 2, 3, 0.25))


def test_the_first_round():
    """Delta = 0.1, the same for all; x travels, and nobody looked in vain."""
    server = RegionServer()
    state = server.start(np.zeros(5))
    assert server.scalars(state, SEED, 2, 3, 0.25) == {"seed": SEED, "radius": 0.1}
    assert not server.rebuilds(state)
    assert server.looked(state) == 0.0


def test_the_next_round():
    """x is the mean of the clients' minima, Delta of their logarithms; a centre that failed is not reported."""
    server = RegionServer()
    state = server.start(np.array([0.2, 0.3]))

    def after(state, x, log_delta, failed=0.0):
        mean = {"x": np.array(x), "region": np.array(RegionNumbers(log_delta, failed=failed))}
        return server.next_state(state, mean, SEED, 2)

    one = after(state, [0.4, 0.4], math.log(0.05))
    assert told(server, one) == RegionControl(SEED, pytest.approx(0.05))
    assert server.reported(one).tolist() == [0.4, 0.4]
    assert not server.rebuilds(one)
    two = after(one, [0.3, 0.3], math.log(0.02), failed=0.5)  # 0.4 failed, and everybody went on from 0.2, 0.3
    assert two["x"].tolist() == [0.3, 0.3]
    assert server.reported(two).tolist() == [0.2, 0.3]
    three = after(two, [0.35, 0.3], math.log(0.02))
    assert server.reported(three).tolist() == [0.3, 0.3]  # the last at which everybody had a value


@pytest.mark.parametrize(("log_delta", "delta"), [(5.0, 0.5), (-0.1, 0.5), (-1e3, 1e-9), (math.log(0.3), 0.3)])
def test_delta_is_held(log_delta, delta):
    """In [1e-9, 1/2], whatever the clients say."""
    server = RegionServer()
    mean = {"x": np.zeros(2), "region": np.array(RegionNumbers(log_delta))}
    state = server.next_state(server.start(np.zeros(2)), mean, SEED, 2)
    assert told(server, state).radius == pytest.approx(delta)


def test_back_to_a_good_centre():
    """From where a client failed x goes back, and from then on only accepted centres are reported."""
    server = RegionServer()
    failed, fine = ({"region": np.array(RegionNumbers(math.log(0.1), failed=share))} for share in (1.0, 0.0))
    assert (server.failed(failed), server.failed(fine)) == (True, False)
    state = server.back(server.start(np.array([0.2, 0.3])), np.array([0.4, 0.4]))
    assert state["x"].tolist() == server.reported(state).tolist() == [0.4, 0.4]
    moved = server.next_state(state, fine | {"x": np.array([0.5, 0.5])}, SEED, 2)
    assert server.reported(moved).tolist() == [0.4, 0.4]  # that somebody has a value at 0.5, too, is not known yet


def test_queries():
    """d + 1 of each client at first, then two: in six dimensions 3 x 7, then 3 x 2 a round."""
    sites = [lambda x, c=c: float(np.sum((x - c) ** 2)) for c in (0.1, 0.2, 0.4)]
    result = minimize(sites, np.zeros(6), bounds=(-1, 1), algorithm=FedTrustRegion(), rounds=3, seed=0)
    assert [record.queries for record in result.history] == [21, 27, 33]
    plan = FedTrustRegion().queries
    assert [plan(6, first=first, refreshed=True) for first in (True, False)] == [7, 2]
