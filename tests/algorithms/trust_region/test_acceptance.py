"""Steps are accepted by the averaged change of F, and the best centre is returned."""

import math

import numpy as np
import pytest

from fzoos import FedTrustRegion, minimize
from fzoos.algorithms.base import ClientContext, Round
from fzoos.algorithms.trust_region.client import Change, RegionClient, RegionStatistics, change_of, delta_of
from fzoos.algorithms.trust_region.control import RegionControl
from fzoos.algorithms.trust_region.neighbours import Neighbours
from fzoos.algorithms.trust_region.server import RegionServer
from fzoos.messages.message import Message
from fzoos.objectives.box import Box
from fzoos.objectives.evaluator import Evaluator
from fzoos.objectives.trajectory import Trajectory


def averages(rise, predicted, gain=None, error=0.0, measured=1.0, delta=0.2):
    """The averages of a first exchange in two dimensions."""
    change = np.array([rise, predicted, rise if gain is None else gain])
    region = np.array(RegionStatistics(math.log(delta)))
    return {"gradient": np.ones(2), "region": region, "change": change, "evidence": np.array([error, measured])}


@pytest.mark.parametrize(
    ("rise", "predicted", "error", "ratio"),
    [
        (-3.0, -4.0, 0.1, 0.75),
        (1.0, -4.0, 0.1, -0.25),
        (-1.0, 2.0, 0.1, 0.3),  # F has fallen against the prediction
        (1.0, 2.0, 0.1, 0.0),
        (0.1, -0.2, 0.1, math.nan),  # both below two standard deviations
    ],
)
def test_ratio(rise, predicted, error, ratio):
    assert Change(rise, predicted, 0.0, error).ratio == pytest.approx(ratio, nan_ok=True)


@pytest.mark.parametrize(
    ("rise", "predicted", "error", "measured", "delta"),
    [
        (-0.9, -1.0, 0.0, 1.0, 0.2),  # as proposed
        (-0.5, -1.0, 0.0, 1.0, 0.1),  # as it was
        (-0.05, -1.0, 0.0, 1.0, 0.05),  # half
        (0.3, -1.0, 0.1, 1.0, 0.05),  # rejected: half
        (0.1, -0.1, 0.1, 1.0, 0.1),  # hidden by noise: no growth
        (0.3, -1.0, 0.1, 0.75, 0.2),  # not all clients compare: as proposed
    ],
)
def test_delta(rise, predicted, error, measured, delta):
    assert delta_of(averages(rise, predicted, error=error, measured=measured), 0.1) == pytest.approx(delta)


def test_a_rise_is_what_noise_does_not_explain():
    assert not Change(0.2, -1.0, 0.2, 0.1).is_rejected
    assert Change(0.201, -1.0, 0.2, 0.1).is_rejected
    assert change_of({"region": np.zeros(3)}) is None  # with constraints
    assert change_of(averages(1.0, -1.0, measured=0.0)) is None  # under differential privacy


def test_the_server_returns_the_best_centre():
    """Centres 0.2, 0.3, 0.4, 0.5 have F = 5, 3, 4 (accepted: within noise) and 9 (rejected)."""
    server = RegionServer(2)
    state = server.start(np.full(2, 0.2))
    steps = [
        (0.0, 0.0, 0.0, 0.0, 0.3),
        (-2.0, -2.0, 0.0, 1.0, 0.4),
        (1.0, 1.0, 0.5, 1.0, 0.5),
        (5.0, 6.0, 0.5, 1.0, 0.35),
    ]
    returned, accepted = [], []
    for number, (rise, gain, error, measured, there) in enumerate(steps, start=1):
        round = Round(number, 1, np.ones(2), replied=(0, 1))
        state = server.next_state(state, "refresh", averages(rise, -1.0, gain, error, measured), round)
        state = server.next_state(state, "update", {"x": np.full(2, there)}, round)
        returned.append(server.reported_x(state)[0])
        accepted.append(state["good"][0])
    assert returned == [0.3, 0.3, 0.3, 0.3]
    assert accepted == [0.2, 0.3, 0.4, 0.4]
    assert server.moved(state, np.full(2, 0.35)) == pytest.approx(0.05)  # from the accepted centre


def client(f, dim):
    evaluator = Evaluator(f, Box.of((0, 1), dim))
    return RegionClient(ClientContext(evaluator, Trajectory(dim), np.random.default_rng(0), dim, 1, True))


def test_the_client_returns_to_the_accepted_centre():
    """A step onto a cliff: the rise is sent, and the next step starts from the centre before, within Delta / 2."""
    made = client(lambda u: float((u[0] - 0.3) ** 2 + (u[1] - 0.4) ** 2 + (5.0 if u[0] < 0.42 else 0.0)), 2)
    x, delta = np.array([0.55, 0.55]), 0.1

    def exchange(number, x, delta):
        scalars = RegionControl(1, delta).scalars()
        reply = made.refresh(x, Message("refresh", number, {}, scalars))
        mean = {name: array for name, array in reply.items() if name != "curvature"}
        return reply, delta_of(mean, delta), made.update(x, Message("update", number, mean, scalars))["x"]

    reply, delta, _ = exchange(1, x, delta)
    assert change_of(reply) is None
    reply, smaller, there = exchange(2, np.array([0.4, 0.5]), delta)
    change = change_of(reply)
    assert change.rise == pytest.approx(0.01 + 0.01 + 5.0 - 0.0625 - 0.0225)
    assert change.gain == change.rise
    assert change.is_rejected
    assert smaller == delta / 2
    assert np.max(np.abs(there - x)) <= smaller * (1 + 1e-12)


def test_a_client_that_missed_a_round_does_not_compare():
    made = client(lambda u: float(u @ u), 2)
    scalars = RegionControl(1, 0.1).scalars()
    for number, measured in ((1, 0.0), (2, 1.0), (4, 0.0), (5, 1.0)):
        x = np.array([0.7, 0.6]) - 0.05 * number
        reply = made.refresh(x, Message("refresh", number, {}, scalars))
        assert reply["evidence"][1] == measured
        mean = {name: array for name, array in reply.items() if name != "curvature"}
        made.update(x, Message("update", number, mean, scalars))


def test_noise_is_unlearnt():
    """A function whose first values are noisy and the others exact, near another centre."""
    rng = np.random.default_rng(0)
    trajectory = Trajectory(2)
    evaluator = Evaluator(lambda u: 0.0, Box.of((0, 1), 2))
    context = ClientContext(evaluator, trajectory, rng, 2, 1, True)
    trajectory.store_points()
    neighbours = Neighbours(context)
    noisy = rng.random((40, 2)) * 0.1
    trajectory.add(noisy, np.sum(noisy, axis=1) + 0.1 * rng.standard_normal(40))
    neighbours.fit(np.full(2, 0.05), 0.01)
    assert neighbours.state()["noisy"]
    exact = 0.8 + rng.random((70, 2)) * 0.1
    trajectory.add(exact, np.sum((exact - 0.8) ** 2, axis=1))
    neighbours.release()
    neighbours.fit(np.full(2, 0.85), 0.001)
    neighbours.fit(np.full(2, 0.85), 0.001)
    assert not neighbours.state()["noisy"]


@pytest.mark.parametrize("seed", range(20))
def test_returned_x_is_the_best_centre(seed):
    """Exact functions with and without kinks, three clients whose differences sum to zero."""
    rng = np.random.default_rng(seed)
    dim = 1 + seed % 3
    a, b, shift = rng.standard_normal((2 * dim, dim)), rng.standard_normal(2 * dim), rng.standard_normal((3, dim))
    shift -= shift.mean(axis=0)
    power = 2 if seed % 2 else 1

    def f(x):
        return float(np.sum(np.abs(a @ x - b) ** power) + 0.3 * np.sum(np.cos(5.0 * x)))

    sites = [lambda x, s=s: f(x) + float(s @ x) for s in shift]
    x0 = rng.uniform(-2, 2, dim)
    result = minimize(sites, x0, bounds=(-3, 3), algorithm=FedTrustRegion(), rounds=12, seed=seed, monitor=f)
    values = [record.monitor for record in result.history if record.monitor is not None]
    slack = 1e-9 * (1 + abs(f(x0)))
    assert f(result.x) <= min([f(x0), *values[1:]]) + slack
