"""Newton's method in a box: against conditions of optimality, SciPy's L-BFGS-B and functions with known minima."""

import numpy as np
import pytest

from fzoos.algorithms.trust_region.minimizers import Curved, lbfgsb_point, newton_point
from fzoos.surrogates.from_gradients import GradientProcess
from fzoos.surrogates.region import RegionProcess


def projected(t, slope, low, high):
    """What is left of the gradient at a point of the box."""
    return np.max(np.abs(np.clip(t - slope, low, high) - t))


@pytest.mark.parametrize(("dim", "condition"), [(1, 1.0), (7, 1e6), (30, 1.0)])
def test_parabolas(dim, condition):
    """A convex parabola has one minimum in a box: where the projected gradient vanishes."""
    rng = np.random.default_rng(dim)
    low, high = -rng.uniform(0.0, 1.0, dim), rng.uniform(0.0, 1.0, dim)
    for _ in range(10):
        turn = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
        bend, slope = (turn * np.geomspace(1.0, condition, dim)) @ turn.T, rng.standard_normal(dim) * np.sqrt(condition)
        evaluations = []

        def parabola(t, bend=bend, slope=slope, evaluations=evaluations):
            evaluations.append(t)
            return Curved(float(slope @ t + 0.5 * t @ bend @ t), slope + bend @ t, bend)

        t = newton_point(parabola, np.zeros(dim), low, high, 1e-12)
        assert np.all((low <= t) & (t <= high))
        assert projected(t, parabola(t).slope, low, high) < 1e-7
        assert len(evaluations) <= 12


def surrogates(seed, dim, count=40):
    """A client's process and what the others add, of functions with ripples: not convex."""
    rng = np.random.default_rng(seed)
    points, x = rng.uniform(0.3, 0.7, (count, dim)), np.full(dim, 0.5)
    process = RegionProcess(points, np.sum((points - 0.4) ** 2 + 0.05 * np.cos(15 * points), axis=1), x)
    centres = rng.uniform(0.3, 0.7, (5, dim))
    correction = GradientProcess(centres, rng.standard_normal((5, dim)), process.choice.length, np.full(5, 1e-6))

    def curved(t):
        own, other = process.curved(x + 0.2 * t), correction.curved(x + 0.2 * t)
        return Curved(own[0] + other[0], 0.2 * (own[1] + other[1]), 0.04 * (own[2] + other[2]))

    return curved


@pytest.mark.parametrize("dim", [1, 3, 10])
def test_surrogates_against_lbfgsb(dim):
    """L-BFGS-B that begins at a minimum found stays there. From the same start both find one of several: over twelve
    functions Newton's are as low, up to a seventh of the fall."""
    low, high, bounds, falls = np.full(dim, -1.0), np.full(dim, 1.0), [(-1.0, 1.0)] * dim, []
    for seed in range(12):
        curved, start = surrogates(seed, dim), np.zeros(dim)
        t = newton_point(curved, start, low, high, 1e-13)
        assert projected(t, curved(t).slope, low, high) < 1e-5
        again, other = (lbfgsb_point(lambda t, f=curved: f(t)[:2], begin, bounds) for begin in (t, start))
        np.testing.assert_allclose(again, t, atol=1e-4)
        falls.append([curved(start).value - curved(end).value for end in (t, other)])
    newton, lbfgsb = np.sum(falls, axis=0)
    assert newton > 0.85 * lbfgsb


def test_a_saddle_is_left():
    """x^2 - y^2 + y^4 from just beside its saddle: to y = 1 / sqrt 2, where the slope -2 y + 4 y^3 is zero."""

    def saddle(t):
        x, y = t
        return Curved(x**2 - y**2 + y**4, np.array([2 * x, -2 * y + 4 * y**3]), np.diag([2.0, -2.0 + 12.0 * y**2]))

    found = newton_point(saddle, np.array([0.5, 1e-3]), np.full(2, -2.0), np.full(2, 2.0))
    np.testing.assert_allclose(found, [0.0, 0.5**0.5], atol=1e-9)


def test_steps_that_are_too_long_are_made_shorter():
    """sqrt(1 + t^2) at 2: Newton's step goes to -8, where the value is larger."""

    def valley(t):
        root = np.sqrt(1.0 + t[0] ** 2)
        return Curved(float(root), t / root, np.array([[root**-3.0]]))

    assert newton_point(valley, np.array([2.0]), np.array([-50.0]), np.array([50.0]))[0] == pytest.approx(0.0, abs=1e-8)


def test_values_that_are_rounding():
    """Values with an error of 1e-6 and good gradients: a parabola's minimum is found to 1e-9."""
    rng = np.random.default_rng(0)

    def noisy(t):
        error = 1e-6 * rng.standard_normal()
        return Curved(float(1e-3 * (t - 0.25) @ (t - 0.25)) + error, 2e-3 * (t - 0.25), 2.1e-3 * np.eye(2))

    found = newton_point(noisy, np.zeros(2), np.full(2, -1.0), np.ones(2), rounding=5e-6)
    np.testing.assert_allclose(found, 0.25, atol=1e-6)


def test_steps_where_a_function_is_not_convex_are_counted():
    """log(1 + t^2) is not convex beyond t = 1: from 1.5 its minimum is found, and no step is made where none may be."""
    evaluations = []

    def hill(t):
        evaluations.append(float(t[0]))
        square = t * t
        return Curved(
            float(np.sum(np.log(1 + square))), 2 * t / (1 + square), np.diag(2 * (1 - square) / (1 + square) ** 2)
        )

    low, high, start = np.array([-100.0]), np.array([100.0]), np.array([1.5])
    assert abs(newton_point(hill, start, low, high)[0]) < 1e-6
    whole, evaluations[:] = len(evaluations), []
    assert newton_point(hill, start, low, high, saddles=0)[0] == 1.5
    assert len(evaluations) == 1 < whole
