"""SPEC "FZooS, piece by piece": rounds and messages, queries, correction lengths, the defaults."""

import inspect
from copy import deepcopy

import numpy as np
import pytest
from plain_formulas import feature_gradient, gp_gradient, gp_trace
from spied_federation import POINTS, SEED, X0, D, Federation, M, client_function, settings

from fzoos import ActiveQueries, Adam, Auto, FedZO, FZooS, Matern52, Measured, Reciprocal, SquaredExponential, minimize
from fzoos.algorithms.base import ClientContext
from fzoos.algorithms.query_designs import uniform_around
from fzoos.messages.message import Message
from fzoos.objectives.box import Box
from fzoos.objectives.evaluator import Evaluator
from fzoos.objectives.trajectory import Trajectory
from fzoos.surrogates.fourier import FourierFeatures

# Rounds and messages


@pytest.mark.parametrize("two", [True, False])
def test_exchanges(two):
    """Two exchanges with refresh queries, one without; M floats travel each way, and never a query."""
    algorithm = settings() if two else settings(refresh=None)
    assert len(algorithm.server(D).exchanges(2)) == (2 if two else 1)
    federation = Federation(algorithm).run(3)
    kinds = [request.kind for request, _ in federation.wire]
    assert kinds == (["update", *["refresh", "update"] * 2] if two else ["update"] * 3)
    for request, replies in federation.wire:
        for message in (request, *replies.values()):
            assert {name: array.shape for name, array in message.arrays.items()}.items() <= {
                "x": (D,),
                "w": (M,),
            }.items()
    carrier = "refresh" if two else "update"
    for _, replies in federation.sent(carrier):
        assert all("w" in reply.arrays for reply in replies.values())


# Queries


def lone_client(algorithm, x=X0):
    """A client half that has made its initial queries around x, and the list of all its queries."""
    queried = []

    def objective(z):
        queried.append(z.copy())
        return client_function(0)(z)

    evaluator = Evaluator(objective, Box.of((0, 1), D))
    half = algorithm.client(
        ClientContext(evaluator, Trajectory(D), np.random.default_rng(0), D, 1, algorithm.projected)
    )
    half.begin(x, Message("update", 1, {"x": x}, {"seed": SEED}))
    return half, queried


def test_initial_design():
    """Before round 1: x_0 and `initial` queries within +-0.01 of it per coordinate, and as wide as that; once."""
    half, queried = lone_client(settings(initial=400))
    offsets = np.array(queried) - X0
    assert offsets.shape == (401, D)
    assert not np.any(offsets[0])
    assert np.all(abs(offsets) <= 0.01)
    assert np.all(abs(offsets).max(axis=0) > 0.0095)
    assert np.all(abs(offsets.mean(axis=0)) < 4 * 0.01 / np.sqrt(3 * 400))  # uniform: mean 0, four standard errors
    half.begin(X0, Message("update", 2, {"x": X0}, {"seed": SEED}))
    assert len(queried) == 401


@pytest.mark.parametrize("kernel", [SquaredExponential(0.7), Matern52(0.9)])
def test_active_queries_are_the_least_certain(kernel):
    """The new iterate is queried first and is then known. Candidates lie within +-radius of it; the picks are those of
    the largest trace of the gradient's posterior covariance, here computed with the Jacobian written out."""
    half, queried = lone_client(settings(kernel=kernel, active=ActiveQueries(50, 4, 0.1)))
    x = X0 + 0.05
    candidates = uniform_around(x, 50, 0.1, deepcopy(half.context.rng))  # what it is about to draw
    half.explore(x)
    assert np.array_equal(queried[1 + POINTS], x)
    known, picked = np.array(queried[: 2 + POINTS]), np.array(queried[2 + POINTS :])
    traces = np.array([gp_trace(kernel, known, candidate)[0] for candidate in candidates])
    assert picked == pytest.approx(candidates[np.argsort(-traces)[:4]], abs=1e-15)


@pytest.mark.parametrize("radius", [None, 0.03])
def test_refresh_radius(radius):
    """A refresh queries x_r, then around it within half the mean |x_r - x_i|, or within the radius given."""
    half, queried = lone_client(settings(refresh=ActiveQueries(300, 300, radius)))
    x_i, x_r = X0 + np.array([0.3, -0.1, 0.2]), X0 + 0.1  # |x_r - x_i| = 0.2, 0.2, 0.1: half the mean is 1/12
    half.end(x_i)
    half.refresh(x_r, Message("refresh", 2, {"x": x_r}, {"seed": SEED}))
    last, first, *others = queried[1 + POINTS :]
    assert last == pytest.approx(x_i, abs=1e-15)
    assert first == pytest.approx(x_r, abs=1e-15)
    offsets = abs(np.array(others) - x_r)
    expected = 1 / 12 if radius is None else radius
    assert len(others) == 300
    assert np.all(offsets <= expected * (1 + 1e-12))
    assert np.all(offsets.max(axis=0) > 0.95 * expected)


def test_refresh_of_a_client_alone():
    """Where x_r = x_i (one client) the spread says nothing: the queries still do not all fall on x_r."""
    half, queried = lone_client(settings(refresh=ActiveQueries(20, 20)))
    half.end(X0)
    half.refresh(X0, Message("refresh", 2, {"x": X0}, {"seed": SEED}))
    others = np.array(queried[3 + POINTS :])
    assert len(np.unique(others, axis=0)) == 20
    assert np.all(abs(others - X0) > 0)


@pytest.mark.parametrize("projected", [True, False])
def test_queries_are_projected(projected):
    """At a corner, queries are clipped to the box if projected, and leave it if not."""
    corner = np.array([0.0, 1.0, 0.5])
    half, queried = lone_client(settings(projected=projected), corner)
    half.explore(corner)
    points = np.array(queried)
    assert np.all((points >= 0) & (points <= 1)) == projected


# The measured length


def test_measured_length():
    """T = 1, so that the one local step is at x_1: gamma = G / (G + E_i) with G = mean ||g_i||^2 - ||g||^2 of the
    clients' gradients at x_1 as their weights tell them, and E_i = ||grad mu_i(x_1) - g_i||^2."""
    algorithm = settings(1, length=Measured())
    federation = Federation(algorithm).run(2)
    (refresh, replies), (update, ends) = federation.wire[1:]
    x, features = refresh.arrays["x"], FourierFeatures(SEED, M, D, algorithm.kernel)
    told = [feature_gradient(features, replies[i].arrays["w"], x) for i in (0, 1)]
    squares = np.mean([g @ g for g in told])
    assert update.arrays["square"] == pytest.approx([squares], rel=1e-9)
    g = np.mean(told, axis=0)
    heterogeneity = squares - g @ g
    for i in (0, 1):
        points, values = federation.data(i)
        mu = gp_gradient(algorithm.kernel, points[:-1], values[:-1], x)  # without x_{2,1}, which comes after the step
        error = np.sum((mu - told[i]) ** 2)
        expected = heterogeneity / (heterogeneity + error)
        assert 0.01 < expected < 0.999
        assert ends[i].scalars["correction_length"] == pytest.approx(expected, rel=1e-6)


# Diagnostics, defaults, devices


def test_the_defaults_are_the_settings_of_the_experiments():
    """SPEC's table: kernel, noise, M, gamma_t, active queries, T, eta; for `points` the text, not the program."""
    fzoos = FZooS()
    assert fzoos.kernel == SquaredExponential(1.0)
    assert (fzoos.noise, fzoos.features, fzoos.initial) == (1e-6, 10_000, 10)
    assert (fzoos.points, fzoos.feature_points) == (None, None)
    assert fzoos.active == ActiveQueries(candidates=100, picks=5, radius=0.01)
    assert fzoos.refresh == ActiveQueries(candidates=200, picks=50, radius=None)
    assert fzoos.length == Reciprocal()
    assert fzoos.vector == "adaptive"
    assert fzoos.server(3).exchanges(2) == ("refresh", "update")
    assert (fzoos.local_steps, fzoos.optimizer) == (10, Adam(0.01))
    assert (FedZO().differences.count, FedZO().differences.step) == (20, 0.01)
    assert FedZO().differences.directions == "gaussian"
    defaults = {name: p.default for name, p in inspect.signature(minimize).parameters.items()}
    assert defaults["rounds"] == 50
    assert (Adam().learning_rate, Adam().restart) == (0.01, True)
    assert defaults["algorithm"] == Auto()


@pytest.mark.parametrize("changes", [{"length": Measured()}, {"points": 10}])
def test_device(changes):
    """The same run on PyTorch: the same queries, and x up to rounding."""
    pytest.importorskip("torch")
    runs = [
        minimize(
            [client_function(0), client_function(1)],
            X0,
            bounds=(0, 1),
            algorithm=settings(device=device, **changes),
            rounds=3,
            seed=0,
        )
        for device in (None, "cpu")
    ]
    assert runs[0].x == pytest.approx(runs[1].x, abs=1e-7)
    assert runs[0].queries == runs[1].queries
    assert runs[0].bytes_up == runs[1].bytes_up
