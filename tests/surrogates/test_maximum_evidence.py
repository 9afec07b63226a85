"""The search for the maximum evidence: against the whole grid, solving and eigendecompositions."""

import itertools

import numpy as np
import pytest
import scipy

from fzoos.surrogates import maximum_evidence as module
from fzoos.surrogates.maximum_evidence import Grid, Polynomial, SearchState, maximum_evidence

NONE, BOWL, QUADRATIC = Polynomial(), Polynomial(200.0, 0.0, 100.0, 101.0), Polynomial(200.0, 100.0, 100.0, 101.0)
LENGTHS = (0.3, 0.3 * 10**0.5, 3.0, 3 * 10**0.5, 30.0)
RIDGES = (1e-13, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
GRID = Grid(LENGTHS, (NONE, BOWL, QUADRATIC), RIDGES)


def data(count, dim, noise, seed=0):
    """Squared distances, products over rho^2, values."""
    rng = np.random.default_rng(seed)
    u = rng.uniform(-1.0, 1.0, (count, dim)) * np.sqrt(3.0 / dim)  # rho is about 1
    values = np.sum(np.cos(2.0 * u) + u**2, axis=1) + noise * rng.standard_normal(count)
    return np.sum((u[:, None] - u) ** 2, axis=-1), u @ u.T, values - values.min()


def kernel(squares, s, length, b):
    made = np.exp(-0.5 * squares / length**2) + b.linear * s + b.square * s**2
    return made + b.bowl * np.outer(np.diag(s), np.diag(s))


def cost(squares, s, values, choice):
    """Minus the log density of the values, least over mean and amplitude, up to a constant: by solving."""
    k = kernel(squares, s, choice.length, choice.polynomial) + choice.ridge * choice.polynomial.unit * np.eye(len(s))
    ones = np.ones(len(s))
    rest = values - ones @ np.linalg.solve(k, values) / (ones @ np.linalg.solve(k, ones))
    return 0.5 * len(s) * np.log(rest @ np.linalg.solve(k, rest) / len(s)) + 0.5 * np.linalg.slogdet(k)[1]


def whole_grid(squares, s, values, ridges=RIDGES[1:]):
    tried = [module.Choice(*one) for one in itertools.product(LENGTHS, (NONE, BOWL, QUADRATIC), ridges)]
    return min(cost(squares, s, values, choice) for choice in tried)


@pytest.mark.parametrize("dim", [1, 8])
@pytest.mark.parametrize("noise", [1e-6, 0.3])
def test_nothing_on_the_grid_has_more_evidence(dim, noise):
    """Without the ridge of 1e-13, whose costs rounding decides; within a unit of log density."""
    problem = data(40, dim, noise)
    grid = GRID._replace(ridges=RIDGES[1:])
    found = maximum_evidence(*problem, grid)
    assert cost(*problem, found.choice) == pytest.approx(whole_grid(*problem), abs=1.0)


@pytest.mark.parametrize("noise", [1e-6, 0.3])
def test_from_where_the_last_search_ended(noise):
    """With two more points: as good as by a search through all lengths, with half of the factors or fewer."""
    grid, counts, costs = GRID._replace(ridges=RIDGES[1:]), [], []
    squares, s, values = data(42, 3, noise)
    before = maximum_evidence(squares[:40, :40], s[:40, :40], values[:40], grid)
    for known in (before.search, None):
        tried = []
        with pytest.MonkeyPatch.context() as patch:
            compute = module._Search._compute
            patch.setattr(module._Search, "_compute", lambda self, *k, c=compute, t=tried: t.append(k) or c(self, *k))
            found = maximum_evidence(squares, s, values, grid, known)
        counts.append(len(tried))
        costs.append(cost(squares, s, values, found.choice))
    assert costs[0] == pytest.approx(costs[1], abs=0.5)
    assert counts[0] <= counts[1] / 2


def test_every_eighth_search_goes_through_all_lengths():
    problem, lengths, known = data(30, 2, 1e-3), [], None
    for _ in range(17):
        seen = set()
        with pytest.MonkeyPatch.context() as patch:
            kernel_of = module._Search._kernel
            patch.setattr(module._Search, "_kernel", lambda self, i, j, k=kernel_of, t=seen: t.add(i) or k(self, i, j))
            known = maximum_evidence(*problem, GRID, known).search
        lengths.append(len(seen))
    assert [k for k, count in enumerate(lengths) if count == len(LENGTHS)] == [0, 8, 16]


def test_a_search_with_other_polynomials_starts_over():
    problem = data(30, 2, 1e-3)
    few = maximum_evidence(*problem, Grid(LENGTHS[-1:], (NONE, BOWL), RIDGES)).search
    assert maximum_evidence(*problem, GRID, few).choice == maximum_evidence(*problem, GRID).choice


def test_the_fit():
    """Mean, amplitude and weights by solving; L L^T is the kernel with its ridge."""
    squares, s, values = data(25, 2, 1e-2)
    found = maximum_evidence(squares, s, values, Grid((0.7,), (QUADRATIC,), (1e-4,)))
    k = kernel(squares, s, 0.7, QUADRATIC) + 1e-4 * 101.0 * np.eye(25)
    inverse = np.linalg.inv(k)
    mean = inverse.sum(axis=0) @ values / inverse.sum()
    assert found.choice == (0.7, QUADRATIC, 1e-4)
    assert found.mean == pytest.approx(mean, rel=1e-8)
    np.testing.assert_allclose(found.alpha, inverse @ (values - mean), rtol=1e-6, atol=1e-9)
    assert found.amplitude == pytest.approx((values - mean) @ inverse @ (values - mean) / 25, rel=1e-8)
    np.testing.assert_allclose(np.tril(found.lower) @ np.tril(found.lower).T, k, rtol=1e-12, atol=1e-10)


def test_where_rounding_leaves_no_factor(monkeypatch):
    """By eigenvalues: the same fit. And a matrix that has none: thirty points of a line, a ridge below rounding."""
    squares, s, values = data(25, 2, 1e-2)
    grid = Grid((0.7,), (QUADRATIC,), (1e-4,))
    expected = maximum_evidence(squares, s, values, grid)
    monkeypatch.setattr(scipy.linalg.lapack, "dpotrf", lambda *given, **options: (None, 1))
    found = maximum_evidence(squares, s, values, grid)
    monkeypatch.undo()
    assert found.choice == expected.choice
    np.testing.assert_allclose(found.alpha, expected.alpha, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(np.tril(found.lower), np.tril(expected.lower), rtol=1e-6, atol=1e-8)
    x = np.linspace(0.4, 0.6, 30)
    nothing = maximum_evidence((x[:, None] - x) ** 2, np.outer(x, x), np.sin(9.0 * x), Grid((10.0,), (NONE,), (1e-18,)))
    assert np.all(np.isfinite(nothing.alpha))


def test_a_ridge_without_a_factor_is_passed_over():
    """From the smallest ridge on, which has none, to one that has."""
    x = np.linspace(0.4, 0.6, 30)
    grid = Grid((10.0,), (NONE,), (1e-18, 1e-17, 1e-8, 1e-6))
    found = maximum_evidence((x[:, None] - x) ** 2, np.outer(x, x), np.sin(9.0 * x), grid, SearchState(((0, 0),), 1))
    assert found.choice.ridge >= 1e-8


def test_values_that_are_not_finite():
    squares, s, values = data(10, 2, 0.0)
    values[3] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        maximum_evidence(squares, s, values, GRID)
