"""The surrogate of a star: universal kriging, solved once more without its formulas."""

import math

import numpy as np
import pytest

from fzoos.surrogates.trend import Slope, credible_values, fit_slope

X = np.array([0.4, 0.5, 0.6, 0.3, 0.7, 0.5])


def star(seed=0, count=5, radius=0.1):
    """x and so many points around it, fewer than a gradient has numbers."""
    rng = np.random.default_rng(seed)
    return np.vstack([X, X + radius * rng.standard_normal((count, len(X)))])


def kriging(points, values, ridge):
    """The posterior mean as a function: [[K + ridge I, B], [B^T, 0]] (alpha, b) = (y, 0), solved as one system."""
    n, length = len(points), math.sqrt(points.shape[1]) / 2

    def kernel(p):
        return np.exp(-np.sum((points - p) ** 2, axis=1) / (2 * length**2))

    def trend(p):
        return np.array([1.0, np.sum((p - X) ** 2) / 2])

    b = np.array([trend(p) for p in points])
    k = np.array([kernel(p) for p in points]) + ridge * np.eye(n)
    solved = np.linalg.solve(np.block([[k, b], [b.T, np.zeros((2, 2))]]), np.append(values, [0.0, 0.0]))
    return (lambda p: kernel(p) @ solved[:n] + trend(p) @ solved[n:]), solved[n + 1]


@pytest.mark.parametrize("ridge", [1e-6, 1.0])
def test_against_the_block_system(ridge):
    """Gradient and curvature are those of the posterior mean of universal kriging, by central differences of it.

    h = 1e-4 leaves h^2 / 6 times a third derivative of order 10, and rounding of 1e-13 / h.
    """
    points = star(1)
    values = np.random.default_rng(11).standard_normal(len(points))
    mean, curvature = kriging(points, values, ridge)
    slope = fit_slope(points - X, values, ridge)
    steps = 1e-4 * np.eye(len(X))
    differences = [(mean(X + step) - mean(X - step)) / 2e-4 for step in steps]
    np.testing.assert_allclose(slope.gradient, differences, rtol=1e-5, atol=1e-6 * np.abs(slope.gradient).max())
    assert slope.curvature == pytest.approx(curvature, rel=1e-6)


def test_a_bowl_and_a_slope():
    """f = c.p + 3 |p - x|^2 / 2 + 5 on a star with one point along each direction. A bowl is what all values have in
    common, so that a slope with coordinates of mean zero is apart from it: both are found."""
    rows = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 6)))[0]
    c = np.array([1.0, -1.0, 2.0, -2.0, 0.5, -0.5]) @ rows
    points = np.vstack([X, X + 0.01 * rows])
    slope = fit_slope(points - X, points @ c + 1.5 * np.sum((points - X) ** 2, axis=1) + 5, 1e-8)
    np.testing.assert_allclose(slope.gradient, c, atol=1e-3)  # (0.01 / l)^2 of it is the kernel's
    assert slope.curvature == pytest.approx(3.0, abs=1e-2)
    first, second = X + 0.2 * rows[0], X - 0.1 * rows[1]
    assert slope.between(first, second, X) == pytest.approx((first - second) @ c + 1.5 * (0.2**2 - 0.1**2), abs=1e-3)


def test_between_by_hand():
    """g = (1, 2), b_1 = 4, from (1, 0) to (0, 2) around 0: 1 - 4 + 2 (1 - 4) = -9."""
    slope = Slope(np.array([1.0, 2.0]), 4.0)
    assert slope.between(np.array([1.0, 0.0]), np.array([0.0, 2.0]), np.zeros(2)) == -9.0


def test_the_mean_of_clients_is_the_clients_mean():
    """Where all ask the same points, the weighted mean of their gradients is the gradient of F's surrogate, however
    much they differ."""
    points, weights = star(), np.array([0.5, 0.2, 0.3])
    values = np.random.default_rng(4).standard_normal((3, len(points))) * np.array([[1.0], [1e3], [1e-3]])
    slopes = [fit_slope(points - X, v, 1e-8) for v in values]
    whole = fit_slope(points - X, weights @ values, 1e-8)
    mean = weights @ np.array([s.gradient for s in slopes])
    np.testing.assert_allclose(mean, whole.gradient, rtol=1e-9, atol=1e-9 * np.abs(mean).max())
    assert weights @ [s.curvature for s in slopes] == pytest.approx(whole.curvature, rel=1e-8)


def test_the_gradient_lies_in_what_was_asked():
    """Nothing is said of directions that no point is in."""
    points = star(count=3)
    gradient = fit_slope(points - X, np.array([0.0, 1.0, -1.0, 2.0]), 1e-8).gradient
    basis = np.linalg.qr((points[1:] - X).T)[0]
    np.testing.assert_allclose(basis @ (basis.T @ gradient), gradient, atol=1e-9 * np.abs(gradient).max())


@pytest.mark.parametrize("ridge", [1e-8, 1e-30])
def test_points_that_are_the_same(ridge):
    """Two points alike, or all of them: there is a gradient, and it is finite."""
    twice = np.vstack([star(), star()])
    gradient = fit_slope(twice - X, np.tile(np.arange(6.0), 2), ridge).gradient
    np.testing.assert_allclose(gradient, fit_slope(star() - X, np.arange(6.0), ridge / 2).gradient, rtol=1e-4)
    nothing = fit_slope(np.tile(X, (3, 1)) - X, np.array([1.0, 2.0, 3.0]), ridge)
    assert np.array_equal(nothing.gradient, np.zeros(6))
    assert math.isfinite(nothing.curvature)


def test_outliers_by_hand():
    """1 to 5 and one far above: median 3.5, median distance 1.5, so that 3.5 + 8 * 1.4826 * 1.5 = 21.29 is the limit;
    far below it is 2.5 - 17.79 = -15.29."""
    for far, kept in ((21.2, True), (21.4, False), (-15.2, True), (-15.4, False)):
        assert credible_values(np.array([1.0, 2.0, far, 3.0, 4.0, 5.0])).tolist() == [True, True, kept, *[True] * 3]


def test_no_outliers_among_normal_values_nor_equal_ones():
    """Ten thousand normal numbers are all credible at any scale; where half of them are the same nothing is said."""
    values = np.random.default_rng(0).standard_normal(10_000)
    for scale in (1e-200, 1.0, 1e200):
        assert credible_values(scale * values).all()
    assert credible_values(np.array([1.0, 1.0, 1.0, 50.0])).all()
