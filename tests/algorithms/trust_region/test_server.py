"""The server half of FedTrustRegion: where a round begins, how far it may go, and what it costs."""

import math

import numpy as np
import pytest

from fzoos import FedTrustRegion, minimize
from fzoos.algorithms.base import Recipient, Round
from fzoos.algorithms.trust_region.client import RegionStatistics
from fzoos.algorithms.trust_region.control import RegionControl
from fzoos.algorithms.trust_region.server import RegionServer
from fzoos.messages.message import Message

SEED, G = 9, np.ones(2)


def request(server, state, **more):
    """What client 2 of 3 is sent, of weight 1/4, in the first exchange."""
    return server.request(state, "refresh", Recipient(2, 0.25, in_last_round=True), Round(2, SEED, np.ones(3), **more))


def told(server, state):
    return RegionControl.of(request(server, state).scalars)


def after(server, state, x, log_delta, failed=0.0):
    """The state after a round with these averages."""
    round = Round(4, SEED, np.ones(2), replied=(0, 1), aggregate=first_of)
    region = RegionStatistics(log_delta, failed=failed)
    state = server.next_state(state, "refresh", {"gradient": np.ones(server.dim), "region": np.array(region)}, round)
    return server.next_state(state, "update", {"x": np.array(x)}, round)


def test_the_first_round():
    """Delta = 0.1, the same for all; x is sent, and at rest x has not moved."""
    server = RegionServer(5)
    state = server.start(np.zeros(5))
    assert request(server, state).scalars == {"seed": SEED, "radius": 0.1}
    assert list(request(server, state).arrays) == ["x"]
    assert server.moved(state, np.zeros(5)) == 0.0


def test_the_next_round():
    """x is the mean of the clients' minima, Delta of their logarithms; a centre that failed is not reported."""
    server = RegionServer(2)
    state = server.start(np.array([0.2, 0.3]))
    one = after(server, state, [0.4, 0.4], math.log(0.05))
    assert told(server, one) == RegionControl(SEED, pytest.approx(0.05))
    assert server.reported_x(one).tolist() == [0.4, 0.4]
    two = after(server, one, [0.3, 0.3], math.log(0.02), failed=0.5)  # 0.4 failed, and all continued from 0.2, 0.3
    assert two["x"].tolist() == [0.3, 0.3]
    assert server.reported_x(two).tolist() == [0.2, 0.3]
    three = after(server, two, [0.35, 0.3], math.log(0.02))
    assert server.reported_x(three).tolist() == [0.3, 0.3]  # the last at which everybody had a value


def test_the_second_exchange():
    """The averages of the first go to all, x to those that missed it, and constraints come with the weight."""
    server = RegionServer(2)
    mean = {"gradient": np.ones(2), "region": np.array(RegionStatistics(-2.0))}
    round = Round(2, SEED, np.ones(3), constrained=True, replied=(0, 2))
    state = server.next_state(server.start(np.zeros(2)), "refresh", mean, round)
    sent = [server.request(state, "update", Recipient(k, 0.25, in_round=k != 1), round) for k in range(3)]
    averages = ["gradient", "region"]
    assert [sorted(one.arrays) for one in sent] == [averages, [*averages, "x"], averages]
    assert sent[0].scalars == {"seed": SEED, "radius": 0.1, "constrained": 1, "weight": 0.25}


@pytest.mark.parametrize(("log_delta", "delta"), [(5.0, 0.5), (-0.1, 0.5), (-1e3, 1e-9), (math.log(0.3), 0.3)])
def test_delta_is_held(log_delta, delta):
    """In [1e-9, 1/2], whatever the clients say."""
    server = RegionServer(2)
    state = after(server, server.start(np.zeros(2)), [0.0, 0.0], log_delta)
    assert told(server, state).radius == pytest.approx(delta)


def test_back_to_a_good_centre():
    """A late client has no value in round 2, at 0.6: x returns to 0.4, where it had one in round 1, and from then on
    only accepted centres are reported."""
    server, weights = RegionServer(2), np.ones(2)
    state = {**server.start(np.array([0.2, 0.3])), "x": np.array([0.4, 0.4])}

    def reply(number, failed):
        region = np.array(RegionStatistics(math.log(0.1), failed=failed))
        scalars = RegionControl(SEED, 0.1).scalars()
        return Message("refresh", number, {}, scalars), Message("payload", number, {"gradient": G, "region": region})

    for number, there in ((1, 0.6), (2, 0.7), (3, 0.8)):
        round = Round(number, SEED, weights, replied=(0,) if number > 1 else (0, 1), aggregate=first_of)
        state = server.receive(state, *reply(number, 0.0), 0, round)
        if number == 1:
            state = server.receive(state, *reply(1, 0.0), 1, round)
        mean = {"gradient": G, "region": np.array(RegionStatistics(math.log(0.1)))}
        state = server.next_state(state, "refresh", mean, round)
        if number == 3:
            assert not server.waits_for_all(state, "update", [2], round)
            state = server.receive(state, *reply(2, 1.0), 1, round)
            assert server.waits_for_all(state, "update", [], round)
        state = server.next_state(state, "update", {"x": np.full(2, there)}, round)
    assert state["x"].tolist() == server.reported_x(state).tolist() == [0.4, 0.4]
    moved = after(server, state, [0.5, 0.5], math.log(0.1))
    assert server.reported_x(moved).tolist() == [0.4, 0.4]  # that somebody has a value at 0.5, too, is not known yet


def first_of(arrays, weights):
    return dict(arrays[0])


def test_queries():
    """d + 1 of each client at first, then two: in six dimensions 3 x 7, then 3 x 2 a round."""
    sites = [lambda x, c=c: float(np.sum((x - c) ** 2)) for c in (0.1, 0.2, 0.4)]
    result = minimize(sites, np.zeros(6), bounds=(-1, 1), algorithm=FedTrustRegion(), rounds=3, seed=0)
    assert [record.queries for record in result.history] == [21, 27, 33]
    message = Message("refresh", 1, {}, RegionControl(SEED, 0.1).scalars())
    assert [FedTrustRegion().cost(6, message, first=first) for first in (True, False)] == [7, 2]
