"""A process given by gradients alone: against Gaussian conditioning on derivatives that mpmath takes of the kernel."""

from functools import cache

import mpmath
import numpy as np
import pytest

from fzoos.surrogates.from_gradients import GradientProcess

POINTS = np.array([[0.1, 0.2], [0.5, 0.3], [0.2, 0.8]])
GRADIENTS = np.array([[1.0, -2.0], [0.5, 0.0], [-1.0, 3.0]])
LENGTH = 0.7


def kernel(a, b, c, d):
    return mpmath.exp(-((a - c) ** 2 + (b - d) ** 2) / (2 * mpmath.mpf(LENGTH) ** 2))


@cache
def covariance(first, x, second, z):
    """Of a derivative at x with one at z, by mpmath; (0, 0) is the value itself."""
    with mpmath.workdps(40):
        return float(mpmath.diff(kernel, (*map(mpmath.mpf, x), *map(mpmath.mpf, z)), (*first, *second)))


DERIVATIVES = ((1, 0), (0, 1))


def conditioned(ridges, at, what):
    """Mean of a derivative at a point given all gradients: k^T (K + noise)^-1 g, noise in units of 1 / l^2."""
    known = [(order, tuple(p)) for p in POINTS for order in DERIVATIVES]
    k = np.array([[covariance(*one, *two) for two in known] for one in known])
    noise = np.repeat(ridges, 2) / LENGTH**2
    weights = np.linalg.solve(k + np.diag(noise), GRADIENTS.ravel())
    return np.array([covariance(what, tuple(at), *one) for one in known]) @ weights


@pytest.mark.parametrize("ridges", [np.full(3, 1e-12), np.array([0.1, 1e-3, 2.0])])
def test_against_conditioning(ridges):
    """Mean and gradient, with noise that differs between the gradients."""
    process, at = GradientProcess(POINTS, GRADIENTS, LENGTH, ridges), np.array([0.35, 0.6])
    value, gradient = process(at)
    assert value == pytest.approx(conditioned(ridges, at, (0, 0)), rel=1e-9)
    np.testing.assert_allclose(gradient, [conditioned(ridges, at, order) for order in DERIVATIVES], rtol=1e-9)


@pytest.mark.parametrize("ridges", [np.full(3, 1e-12), np.array([0.1, 1e-3, 2.0])])
def test_second_derivatives_against_conditioning(ridges):
    process, at = GradientProcess(POINTS, GRADIENTS, LENGTH, ridges), np.array([0.35, 0.6])
    value, gradient, bend = process.curved(at)
    orders = [[(2, 0), (1, 1)], [(1, 1), (0, 2)]]
    np.testing.assert_allclose(bend, [[conditioned(ridges, at, order) for order in row] for row in orders], rtol=1e-8)
    assert value == pytest.approx(process(at)[0], rel=1e-12)
    np.testing.assert_allclose(gradient, process(at)[1], rtol=1e-12)


def test_noise_is_not_believed():
    """A gradient with a large ridge counts for nothing: the process is that of the others."""
    process = GradientProcess(POINTS, GRADIENTS, LENGTH, np.array([1e-12, 1e12, 1e-12]))
    others = GradientProcess(POINTS[[0, 2]], GRADIENTS[[0, 2]], LENGTH, np.full(2, 1e-12))
    at = np.array([0.4, 0.4])
    assert process(at)[0] == pytest.approx(others(at)[0], rel=1e-9)


def test_one_gradient_is_a_line():
    """One gradient and a length scale far beyond the distances: g.(x - x_1), up to (distance / l)^2."""
    g, start = np.array([2.0, -1.0, 0.5]), np.array([0.3, 0.4, 0.5])
    process = GradientProcess(start[None], g[None], 1e3, np.array([1e-12]))
    for at in np.random.default_rng(0).random((4, 3)):
        value, gradient = process(at)
        assert value == pytest.approx(g @ (at - start), abs=1e-5)
        np.testing.assert_allclose(gradient, g, atol=1e-5)


@pytest.mark.parametrize(("count", "dim"), [(1, 4), (3, 2), (6, 50)])
def test_few_points_in_many_dimensions(count, dim):
    """The equations of all n d derivatives, written out: what is left out of them was not needed."""
    rng = np.random.default_rng(count)
    points, gradients, at = rng.random((count, dim)), rng.standard_normal((count, dim)), rng.random(dim)
    points[-1] = points[0] + 1e-3 * (points[-1] - points[0])  # nearly the same point twice
    length, ridges = 1.3, rng.uniform(1e-3, 1e-1, count)

    def between(x, z):
        gap = (x - z)[:, None] / length
        return np.exp(-0.5 * np.sum(gap**2)) * (np.eye(dim) - gap @ gap.T) / length**2

    matrix = np.block([[between(x, z) for z in points] for x in points])
    weights = np.linalg.solve(matrix + np.diag(np.repeat(ridges, dim)) / length**2, gradients.ravel())
    expected = np.hstack([between(at, z) for z in points]) @ weights
    np.testing.assert_allclose(
        GradientProcess(points, gradients, length, ridges)(at)[1], expected, rtol=1e-9, atol=1e-12
    )
