"""Gradients in place of weights, a measured correction length, unseen directions: each by hand."""

import numpy as np
import pytest

from fzoos import (
    SGD,
    ActiveQueries,
    FixedFZooS,
    FZooS,
    InitialDesign,
    Matern52,
    Measured,
    Reciprocal,
    SquaredExponential,
    TrustRegion,
    UnseenDirections,
    minimize,
)
from fzoos.algorithms.base import ClientContext
from fzoos.algorithms.fixed_fzoos.correction_lengths import Moment
from fzoos.algorithms.fixed_fzoos.surroundings import Surroundings
from fzoos.engines.local import LocalEngine
from fzoos.federation.client import Client
from fzoos.federation.server import Server
from fzoos.objectives.box import Box
from fzoos.objectives.trajectory import Trajectory

D, ETA, C = 6, 0.05, 2.0  # such a c that gamma is neither 0 nor 1
X0 = np.full(D, 0.5)
NOISE, LENGTH = 1e-4, 2.0


def objective(i):
    rng = np.random.default_rng(50 + i)
    slope, curvature = rng.normal(size=D), rng.uniform(0.5, 2.0, D)
    return lambda x: float(slope @ x + curvature @ (x - 0.3) ** 2)


def settings(**changes):
    common = {"kernel": Matern52(LENGTH), "noise": NOISE, "active": None, "features": 40_000, "length": Measured(C)}
    common |= {"initial": InitialDesign(5, 0.1, "orthogonal"), "refresh": UnseenDirections(2, known=3)}
    common |= {"refresh_first_round": True, "sends": "gradient", "steps": None}
    return FixedFZooS(**common | changes)


class Rounds:
    """Two clients and a server; keeps what was asked and what was sent."""

    def __init__(self, algorithm, rounds, steps=1):
        self.asked, self.wire = [[], []], []
        clients = []
        for i in range(2):
            site = ClientContext(
                Trajectory(self._recorded(i), Box.of((0, 1), D)), np.random.default_rng(i), D, 2, steps, False
            )
            clients.append(Client(algorithm.client(site), SGD(ETA)))
        self._engine = LocalEngine(clients)
        weights = np.array([0.5, 0.5])
        rng = np.random.default_rng(0)
        common = {"local_steps": steps, "weights": weights, "participants": 2, "shared_seed": 3, "rng": rng}
        self.server = Server(self, algorithm, X0, **common)
        self.x = [X0]
        for _ in range(rounds):
            self.server.run(self.server.plan())
            self.x.append(self.server.x)

    def _recorded(self, i):
        def call(x):
            self.asked[i].append((x.copy(), objective(i)(x)))
            return self.asked[i][-1][1]

        return call

    def exchange(self, requests, timeout):
        outcome = self._engine.exchange(requests)
        self.wire.append((next(iter(requests.values())).kind, outcome.replies, [len(a) for a in self.asked]))
        return outcome


def kernel(a, b):
    s = np.sqrt(5.0 * np.sum((a[:, None] - b[None]) ** 2, axis=2)) / LENGTH
    return (1 + s + s**2 / 3) * np.exp(-s)


def posterior(asked, x):
    """Gradient of the posterior mean by central differences, and the trace of its covariance from the kernel's, times
    the likeliest a^2 = y^T A^{-1} y / n."""
    points, y = np.array([p for p, _ in asked]), np.array([v for _, v in asked])
    y = y - y.mean()
    inverse = np.linalg.inv(kernel(points, points) + NOISE * np.eye(len(y)))
    h = 1e-5
    steps = h * np.eye(D)
    slopes = (kernel(x + steps, points) - kernel(x - steps, points)) / (2 * h)  # d k(x, points), shape (D, n)
    gradient = slopes @ inverse @ y
    prior = D * 5.0 / (3.0 * LENGTH**2)  # -k''(0) of Matern-5/2 is 5 / (3 l^2) in each coordinate
    trace = prior - np.trace(slopes @ inverse @ slopes.T)
    return gradient, trace * (y @ inverse @ y) / len(y)


@pytest.mark.parametrize("sends", ["gradient", "weights"])
def test_rounds_by_hand(sends):
    """With T = 2: x <- x - eta (g_i(x) + gamma c(x)) twice, gamma = G / (G + c U), from the very first round on.

    c(x) is g - g_i at x_r; with weights, g(x) - g_i(x) from 40 000 random features, whose error is some per cent.
    """
    run = Rounds(settings(sends=sends), 3, steps=2)
    for r, (refresh, update) in enumerate(zip(run.wire[::2], run.wire[1::2], strict=True)):
        assert (refresh[0], update[0]) == ("refresh", "update")
        x = run.x[r]
        asked = [run.asked[i][: refresh[2][i]] for i in range(2)]
        assert update[2] == refresh[2]  # nothing was asked in between
        found = [posterior(asked[i], x) for i in range(2)]
        g = [gradient for gradient, _ in found]
        mean, u = (g[0] + g[1]) / 2, (found[0][1] + found[1][1]) / 2
        spread = (np.sum((g[0] - mean) ** 2) + np.sum((g[1] - mean) ** 2)) / 2
        gamma = spread / (spread + C * u)
        assert 0.05 < gamma < 0.97
        for i in range(2):
            told = refresh[1][i].arrays
            squares, trace = told["measured"]
            assert squares == pytest.approx(g[i] @ g[i], rel=1e-5 if sends != "weights" else 0.1)
            assert trace == pytest.approx(found[i][1], rel=1e-4)
            if sends != "weights":
                assert told["g"] == pytest.approx(g[i], rel=1e-5, abs=1e-6)
            middle = x - ETA * (g[i] + gamma * (mean - g[i]))
            there = [posterior(asked[k], middle)[0] for k in range(2)]
            correction = mean - g[i]
            if sends == "weights":
                correction = (there[0] + there[1]) / 2 - there[i]
            way = (x - update[1][i].arrays["x"]) / ETA
            expected = (x - middle) / ETA + there[i] + gamma * correction
            tolerance = 0.1 if sends == "weights" else 1e-5
            assert np.linalg.norm(way - expected) < tolerance * np.linalg.norm(expected)


def test_bytes_and_queries():
    """Up: g and two numbers, then x; down: x, then the averages; no features travel. Queries as planned."""
    result = minimize(
        [objective(0), objective(1)], X0, bounds=(0, 1), algorithm=settings(), rounds=3, local_steps=1, seed=0
    )
    up = 8 * (D + 2) + 8 + 8 * D + 16  # payload and the count; x, the count and the correction length
    down = 8 * D + 8 + 8 * (D + 2) + 8  # x and the seed; the payload and the seed
    assert (result.bytes_up, result.bytes_down) == (2 * 3 * up, 2 * 3 * down)
    assert result.queries == 2 * (5 + 2 * 3)  # the initial design; two refreshes of x and two directions


def test_unseen_directions():
    """Orthonormal, orthogonal to the nearest points' directions, at the distance sqrt(d) radius."""
    rng = np.random.default_rng(0)
    near = X0 + 0.1 * rng.normal(size=(3, D))
    points = UnseenDirections(picks=3, known=3).around(Surroundings(X0, 0.02, rng, lambda count: near[:count]))
    assert points[0].tolist() == X0.tolist()
    directions = (points[1:] - X0) / (0.02 * np.sqrt(D))
    assert directions @ directions.T == pytest.approx(np.eye(3), abs=1e-12)
    assert directions @ (near - X0).T == pytest.approx(np.zeros((3, 3)), abs=1e-12)


@pytest.mark.parametrize("picks", [4, 6, 20])
def test_more_picks_than_unknown_directions(picks):
    """Only so many of the nearest points count as known that directions are left, and there are no more than d."""
    rng = np.random.default_rng(0)
    near = X0 + rng.normal(size=(50, D))
    refresh = UnseenDirections(picks=picks)
    points = refresh.around(Surroundings(X0, 0.1, rng, lambda count: near[:count]))
    count = min(picks, D)
    assert refresh.count(D) == count
    assert points.shape == (1 + count, D)
    directions = (points[1:] - X0) / (0.1 * np.sqrt(D))
    assert directions @ directions.T == pytest.approx(np.eye(count), abs=1e-12)
    assert directions @ (near[: D - count] - X0).T == pytest.approx(np.zeros((count, D - count)), abs=1e-12)


@pytest.mark.parametrize(("asked", "expected"), [(1, 1), (5, 5), (D + 1, D + 1), (D + 2, D + 1), (161, D + 1)])
def test_orthogonal_design(asked, expected):
    """x itself and orthonormal directions at the distance sqrt(d) radius, of which there are at most d."""
    design = InitialDesign(asked, 0.1, "orthogonal")
    points = design.around(Surroundings(X0, 0.1, np.random.default_rng(0)))
    offsets = (points[1:] - points[0]) / (0.1 * np.sqrt(D))
    assert points[0].tolist() == X0.tolist()
    assert len(points) == design.count(D) == expected
    assert offsets @ offsets.T == pytest.approx(np.eye(expected - 1), abs=1e-12)


def test_measured_length():
    """Alike clients: what they differ by is error, no correction. Clients that differ: all of it. Nothing known: 1."""

    def gamma(g, u):
        moment = Moment(1, 1, 10, 5, 3, Matern52(), 1e-6, 10, lambda: 0.0, g, u)
        return Measured(0.5)(moment)

    assert gamma(0.0, 1.0) == 0.0
    assert gamma(1.0, 0.0) == 1.0
    assert gamma(3.0, 2.0) == 0.75
    assert gamma(None, None) == gamma(0.0, 0.0) == 1.0


def test_presets():
    """The paper's settings are the paper's, whatever the defaults are; `weights` sends weights."""
    paper, plain = FZooS.paper(), FixedFZooS()
    assert (paper.kernel, paper.noise, paper.features) == (SquaredExponential(1.0), 1e-6, 10_000)
    assert (paper.points, paper.feature_points, paper.projected, paper.fit) == (None, None, False, None)
    assert (paper.active, paper.refresh) == (ActiveQueries(100, 5, 0.01), ActiveQueries(200, 50, None))
    assert (paper.refresh_first_round, paper.sends, paper.steps, paper.orthogonal) == (False, "weights", None, False)
    assert (paper.initial.kind, paper.length, paper.vector) == ("uniform", Reciprocal(), "adaptive")
    assert (plain.refresh_first_round, plain.sends, plain.steps) == (True, "gradient", TrustRegion())
    assert (plain.initial.kind, plain.length) == ("orthogonal", Measured())
    assert isinstance(plain.refresh, UnseenDirections)
    assert FixedFZooS(steps=None).steps is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"refresh": None}, "need a refresh, but refresh is None"),
        ({"refresh": None, "refresh_first_round": False}, "need a refresh, but refresh is None"),
        ({"sends": "pigeons"}, "sends must be one of weights, gradient, got 'pigeons'"),
        ({"sends": "curvature"}, "sends = 'curvature' is no longer an option"),
        ({"refresh": 3}, "refresh must be ActiveQueries or UnseenDirections"),
    ],
)
def test_wrong_settings(changes, message):
    with pytest.raises((ValueError, TypeError), match=message):
        settings(**changes)
    with pytest.raises(ValueError, match="kind must be one of uniform, orthogonal"):
        InitialDesign(kind="round")
