"""Evidence without eigendecompositions: the same as with them, within its margin, and the same choice."""

import numpy as np
import pytest

from fzoos.surrogates import region
from fzoos.surrogates.region import RegionProcess
from fzoos.surrogates.tridiagonal import least_costs

RIDGES = np.array([1e-13, 1e-8, 1e-4, 1.0])


def gaussian_cost(kernel, values, ridge):
    """n/2 log a^2 + 1/2 log det (K + ridge I) with the best mean and amplitude, by solving with the matrix itself."""
    matrix, ones = kernel + ridge * np.eye(len(values)), np.ones(len(values))
    mean = ones @ np.linalg.solve(matrix, values) / (ones @ np.linalg.solve(matrix, ones))
    rest = values - mean
    return (
        0.5 * len(values) * np.log(rest @ np.linalg.solve(matrix, rest) / len(values))
        + 0.5 * (np.linalg.slogdet(matrix)[1])
    )


def kernels_of(points, lengths):
    squares = np.sum((points[:, None] - points) ** 2, axis=-1)
    return [np.exp(-0.5 * squares / length**2) for length in lengths]


@pytest.mark.parametrize("count", [2, 3, 40])
def test_costs_are_those_of_the_matrices(count):
    rng = np.random.default_rng(0)
    points, values = rng.random((count, 4)), rng.standard_normal(count)
    kernels, ridges = kernels_of(points, (0.2, 0.5)), np.tile(RIDGES[1:], (2, 1))
    expected = [min(gaussian_cost(k, values, ridge) for ridge in RIDGES[1:]) for k in kernels]
    least, lowest, at = least_costs([k.copy() for k in kernels], values, ridges)
    costs = [[gaussian_cost(k, values, ridge) for ridge in RIDGES[1:]] for k in kernels]
    np.testing.assert_array_equal(at, np.argmin(costs, axis=1))
    np.testing.assert_allclose(least, expected, rtol=1e-6)
    assert np.all(lowest <= least)
    assert np.all(least - lowest < 1e-4)  # a ridge of 1e-8 is far above rounding


def test_what_drowns_in_rounding_is_not_excluded():
    points = np.linspace(0.4, 0.6, 30)[:, None]  # thirty points of a line: all but a few eigenvalues are rounding
    _, lowest, _ = least_costs(kernels_of(points, (10.0,)), np.sin(9.0 * points[:, 0]), np.array([[1e-16]]))
    assert lowest[0] == -np.inf


def everything_decomposed(monkeypatch):
    def none_is_excluded(kernels, values, ridges):
        count = len(list(kernels))
        return np.zeros(count), np.full(count, -np.inf), np.zeros(count, dtype=int)

    monkeypatch.setattr(region, "least_costs", none_is_excluded)


@pytest.mark.parametrize("dim", [1, 3, 12])
@pytest.mark.parametrize("noise", [0.0, 1e-14, 1e-6, 1e-2])
def test_the_choice_is_that_of_all_eigendecompositions(dim, noise, monkeypatch):
    rng = np.random.default_rng(dim)
    for width in (1.0, 0.1, 1e-3):
        points = 0.5 + width * (rng.random((60, dim)) - 0.5)
        values = np.sum(np.cos(3.0 * points) + points**2, axis=1) + noise * rng.standard_normal(60)
        centre = points[0]
        quick = RegionProcess(points, values, centre)
        with monkeypatch.context() as patch:
            everything_decomposed(patch)
            exact = RegionProcess(points, values, centre)
        assert quick.choice == exact.choice
        x = points[1] + 0.1 * width
        assert quick(x)[0] == exact(x)[0]
        np.testing.assert_array_equal(quick(x)[1], exact(x)[1])


def test_few_kernels_are_decomposed(monkeypatch):
    """Which is what makes it quick: of fifteen, three or fewer here."""
    decomposed, eigh = [], np.linalg.eigh
    monkeypatch.setattr(np.linalg, "eigh", lambda matrix: decomposed.append(len(matrix)) or eigh(matrix))
    rng = np.random.default_rng(0)
    points = rng.random((60, 8))
    RegionProcess(points, np.sum(np.cos(3.0 * points), axis=1), points[0])
    assert 1 <= len(decomposed) <= 3


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_many_points_by_cholesky(noise, monkeypatch):
    """Where the shape is known: ridge, values, gradients, unknown and outliers as by an eigendecomposition."""
    rng = np.random.default_rng(1)
    points = rng.random((160, 5))
    values = np.sum(np.cos(3.0 * points), axis=1) + noise * rng.standard_normal(160)
    values[7] += 1e3
    shape = RegionProcess(points[:100], values[:100], points[8]).shape
    x = points[2] + 0.01
    for like in (shape, RegionProcess(points, values, points[8], shape).choice):
        quick = RegionProcess(points, values, points[8], like)
        with monkeypatch.context() as patch:
            patch.setattr(region, "_MANY", 1000)
            exact = RegionProcess(points, values, points[8], like)
        assert quick.choice == exact.choice
        assert quick(x)[0] == pytest.approx(exact(x)[0], rel=1e-5)
        np.testing.assert_allclose(quick(x)[1], exact(x)[1], rtol=1e-4, atol=1e-4 * np.max(np.abs(exact(x)[1])))
        np.testing.assert_allclose(quick.unknown(x), exact.unknown(x), atol=1e-7)
        assert quick.outliers() == exact.outliers()
        assert quick.sigma == pytest.approx(exact.sigma, rel=1e-5)
