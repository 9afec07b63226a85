"""SPEC: FD(x) = (1/Q) sum_q (y(x + lambda u_q) - y(x)) / lambda * u_q, with three kinds of direction."""

from __future__ import annotations

import numpy as np
import pytest

from fzoos import DeComFL, FedHistory, FedZO, FiniteDifferences
from fzoos.algorithms.base import ClientContext
from fzoos.messages.message import Message
from fzoos.objectives.box import Box
from fzoos.objectives.evaluator import Evaluator
from fzoos.objectives.trajectory import Trajectory

KINDS = ["gaussian", "orthonormal", "sphere"]
SLOPE = np.array([2.0, -1.0, 0.5, 3.0])


def linear(x):
    return 5.0 + x @ SLOPE


def estimate(fd, function, x, rng):
    u = fd.draw(len(x), rng)
    return fd.gradient(u, function(fd.points(x, u)))


def estimates(fd, function, x, draws):
    rng = np.random.default_rng(0)
    return np.array([estimate(fd, function, x, rng) for _ in range(draws)])


def assert_mean(samples, expected):
    """Within five standard errors of the expectation in every coordinate."""
    error = samples.std(axis=0) / np.sqrt(len(samples))
    assert np.all(np.abs(samples.mean(axis=0) - expected) < 5 * error)
    assert np.all(5 * error < 0.2 * np.abs(SLOPE).max())  # and the samples are enough to tell


@pytest.mark.parametrize(
    ("kind", "factor"),
    # E[u u^T] is I for Gaussian directions; I/d on the sphere, which the factor d undoes; I/d for orthonormal ones.
    [("gaussian", 1.0), ("sphere", 1.0), ("orthonormal", 1 / 4)],
)
@pytest.mark.parametrize("count", [1, 4])
def test_expectation_on_a_linear_function(kind, factor, count):
    samples = estimates(FiniteDifferences(count, 0.1, kind), linear, np.full(4, 0.5), draws=8000 // count)
    if samples.std(axis=0).max() < 1e-12:  # all of an orthonormal basis: no randomness is left
        np.testing.assert_allclose(samples, np.broadcast_to(factor * SLOPE, samples.shape), rtol=1e-11)
    else:
        assert_mean(samples, factor * SLOPE)


@pytest.mark.parametrize(("count", "dim"), [(3, 8), (11, 4), (5, 1)])
def test_orthonormal_directions(count, dim):
    # Orthonormal within each group of d; the last group is what remains of Q.
    u = FiniteDifferences(count, directions="orthonormal").draw(dim, np.random.default_rng(2))
    assert u.shape == (count, dim)
    for start in range(0, count, dim):
        group = u[start : start + dim]
        np.testing.assert_allclose(group @ group.T, np.eye(len(group)), atol=1e-14)


def test_orthonormal_directions_are_uniform():
    # Haar: no sign is preferred; without care a QR factorisation gives diagonals of one sign.
    rng = np.random.default_rng(3)
    u = np.array([FiniteDifferences(3, directions="orthonormal").draw(3, rng) for _ in range(4000)])
    assert np.all(np.abs(u.mean(axis=0)) < 5 * np.sqrt(1 / 3) / np.sqrt(4000))
    np.testing.assert_allclose((u**2).mean(axis=0), 1 / 3, atol=0.03)


@pytest.mark.parametrize(("kind", "count"), [("gaussian", 1), ("orthonormal", 9), ("sphere", 5)])
def test_the_points_are_x_and_q_points_around_it(kind, count):
    fd = FiniteDifferences(count, 0.02, kind)
    x, u = np.full(4, 0.3), fd.draw(4, np.random.default_rng(6))
    points = fd.points(x, u)
    assert points.shape == (fd.queries, 4) == (count + 1, 4)
    np.testing.assert_array_equal(points[0], x)
    np.testing.assert_allclose((points[1:] - x) / 0.02, u, atol=1e-13)


def test_the_formula_by_hand():
    # y = x_1^2 at x = (0.5, 0), lambda = 0.1: a direction u gives ((0.5 + 0.1 u_1)^2 - 0.25) / 0.1 = u_1 + 0.1 u_1^2.
    fd = FiniteDifferences(2, 0.1)
    u = fd.draw(2, np.random.default_rng(7))
    expected = sum((v[0] + 0.1 * v[0] ** 2) * v for v in u) / 2
    found = estimate(fd, lambda p: p[:, 0] ** 2, np.array([0.5, 0.0]), np.random.default_rng(7))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_failed_directions_are_left_out(kind):
    # The mean is over the directions that answered.
    fd = FiniteDifferences(3, 0.1, kind)
    u = fd.draw(4, np.random.default_rng(8))
    factor = 4.0 if kind == "sphere" else 1.0
    expected = factor * ((u[0] @ SLOPE) * u[0] + (u[2] @ SLOPE) * u[2]) / 2

    def query(points):
        y = linear(points)
        y[2] = np.nan  # the second direction: the first answer is that of x itself
        return y

    found = estimate(fd, query, np.full(4, 0.5), np.random.default_rng(8))
    np.testing.assert_allclose(found, expected, rtol=1e-11)


@pytest.mark.parametrize("algorithm", [FedZO, FedHistory, DeComFL])
def test_projected_queries_stay_in_the_cube(algorithm):
    """Whether queries are clipped is said by the algorithm, whatever the directions are; x is asked either way."""
    x = np.array([0.0, 1.0, 0.5, 0.9])
    for projected in (True, False):
        seen = []
        evaluator = Evaluator(lambda z, seen=seen: seen.append(z) or float(linear(z)), Box.of((0, 1), 4))
        settings = algorithm(differences=FiniteDifferences(40, 0.5), projected=projected)
        half = settings.client(ClientContext(evaluator, Trajectory(4), np.random.default_rng(9), 4, 1, projected))
        request = Message("update", 1, {"x": x}, {"seed": 3})
        half.begin(half.locate(request), request)
        half.local_gradient(x)
        assert np.array_equal(seen[0], x)
        assert len(seen) == 41
        assert (np.min(seen) >= 0.0, np.max(seen) <= 1.0) == (projected, projected)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"count": 0}, ValueError, "directions Q"),
        ({"count": 2.0}, TypeError, "directions Q"),
        ({"step": 0.0}, ValueError, "lambda"),
        ({"directions": "cubic"}, ValueError, "directions must be one of gaussian, orthonormal, sphere, got 'cubic'"),
    ],
)
def test_bad_settings_are_named(settings, error, message):
    with pytest.raises(error, match=message):
        FiniteDifferences(**settings)
