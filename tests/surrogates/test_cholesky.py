"""The growing factor: append against one refactorisation, solve, jitter (SPEC: "extend the Cholesky factor")."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import RBF, Matern

from fzoos._util.arrays import to_device, to_numpy
from fzoos.surrogates.cholesky import GrowingCholesky

SPLITS = [[12], [1] * 12, [5, 7], [2, 1, 6, 3]]


def grow(matrix: np.ndarray, sizes: list[int], device: str | None = None) -> GrowingCholesky:
    factor = GrowingCholesky(to_device(np.empty(0), device))
    n = 0
    for m in sizes:
        rows = to_device(matrix[n : n + m], device)
        factor.append(rows[:, :n], rows[:, n : n + m])
        n += m
    return factor


def random_matrix(n: int, seed: int) -> np.ndarray:
    root = np.random.default_rng(seed).standard_normal((n, n + 2))
    return root @ root.T + 0.1 * np.eye(n)


@pytest.mark.parametrize("sizes", SPLITS, ids=str)
def test_append_against_one_refactorisation(sizes, device):
    # A = L L^T is unique, so W = L^{-1} must be that of SciPy's factor however the rows arrived.
    matrix = random_matrix(12, seed=3)
    factor = grow(matrix, sizes, device)
    lower = scipy.linalg.cholesky(matrix, lower=True)
    expected = scipy.linalg.solve_triangular(lower, np.eye(12), lower=True)
    assert len(factor) == 12
    assert factor.jitter == 0.0
    np.testing.assert_allclose(to_numpy(factor.inverse_factor), expected, rtol=1e-11, atol=1e-13)


@st.composite
def split_matrices(draw):
    """A random positive definite matrix with a condition number up to 1e6, and a random split of its rows."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=6))
    n = sum(sizes)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    decades = draw(st.floats(0.0, 6.0))
    scale = 10.0 ** draw(st.integers(-6, 6))
    q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    return scale * (q * np.logspace(-decades, 0, n)) @ q.T, sizes


@given(split_matrices())
def test_any_split_solves_the_same_system(example):
    matrix, sizes = example
    matrix = (matrix + matrix.T) / 2
    b = np.linspace(1.0, 2.0, len(matrix))
    for device in (None, "cpu"):
        factor = grow(matrix, sizes, device)
        solution = to_numpy(factor.solve(to_device(b, device)))
        expected = np.linalg.solve(matrix, b)
        # Both are off by condition times rounding at most: 1e6 * 2e-16, and a modest factor of n.
        np.testing.assert_allclose(solution, expected, rtol=0, atol=1e-8 * np.linalg.norm(expected))


@st.composite
def points_with_duplicates(draw):
    """Points of which many are the same, and a split of their order of arrival."""
    distinct, dim = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    order = draw(st.lists(st.integers(0, distinct - 1), min_size=1, max_size=25))
    sizes, left = [], len(order)
    while left:
        sizes.append(draw(st.integers(1, left)))
        left -= sizes[-1]
    x = np.random.default_rng(draw(st.integers(0, 2**32 - 1))).uniform(size=(distinct, dim))
    return x[order], sizes


@given(points_with_duplicates(), st.sampled_from([RBF(1.0), Matern(0.5, nu=2.5)]))
def test_duplicates_without_noise_never_break_the_factor(example, kernel):
    # Bad input: duplicate points never break the factorisation, here in exact singularity (sigma^2 = 0). The
    # observations are the same at the same point, so K alpha = y has solutions, and alpha must be one of them up to
    # the jitter: K alpha - y = -jitter * alpha on the points that needed it.
    x, sizes = example
    matrix = kernel(x)
    y = np.sin(3.0 * x.sum(axis=1))
    for device in (None, "cpu"):
        factor = grow(matrix, sizes, device)
        alpha = to_numpy(factor.solve(to_device(y, device)))
        assert np.all(np.isfinite(alpha))
        assert factor.jitter <= 1e-6
        np.testing.assert_allclose(matrix @ alpha, y, atol=1e-4)


def test_the_jitter_is_the_smallest_that_works(device):
    # [[1, 1], [1, 1 - 1e-9]] has the pivot -1e-9: 1e-12 and 1e-10 cannot mend it, 1e-8 can.
    factor = grow(np.array([[1.0, 1.0], [1.0, 1.0 - 1e-9]]), [1, 1], device)
    assert factor.jitter == pytest.approx(1e-8, rel=1e-9, abs=0.0)
    # The new point became noisier, the old one stayed: W^{-1} W^{-T} is A plus 1e-8 in the last entry only.
    lower = np.linalg.inv(to_numpy(factor.inverse_factor))
    np.testing.assert_allclose(lower @ lower.T, [[1.0, 1.0], [1.0, 1.0 + 0.9e-8]], rtol=1e-14, atol=1e-14)


def test_the_jitter_is_relative_to_the_diagonal(device):
    factor = grow(1e6 * np.ones((2, 2)), [1, 1], device)
    assert factor.jitter == pytest.approx(1e-12 * 1e6, rel=1e-9, abs=0.0)
    assert grow(np.diag([1e-20, 1e-20]), [1, 1], device).jitter == 0.0


def test_nan_is_an_error_in_words(device):
    factor = grow(np.eye(2), [2], device)
    with pytest.raises(np.linalg.LinAlgError, match="NaN"):
        factor.append(to_device(np.zeros((1, 2)), device), to_device(np.full((1, 1), np.nan), device))
    assert len(factor) == 2  # and the factor is as it was
