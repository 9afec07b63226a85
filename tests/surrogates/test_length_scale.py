"""Marginal likelihood and the fitted length scale against scikit-learn."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern

from fzoos.surrogates.kernels import Matern52, SquaredExponential
from fzoos.surrogates.length_scale import FitLengthScale, fit_length_scale, log_marginal_likelihood

KERNELS = [(SquaredExponential, RBF), (Matern52, partial(Matern, nu=2.5))]
IDS = ["squared-exponential", "matern"]


def draw(kernel, n: int, d: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """One function drawn from the Gaussian process, observed with noise."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, d))
    return x, rng.multivariate_normal(np.zeros(n), kernel(x) + noise * np.eye(n))


@pytest.mark.parametrize(("ours", "theirs"), KERNELS, ids=IDS)
@pytest.mark.parametrize("length", [0.1, 0.5, 3.0])
def test_log_marginal_likelihood(ours, theirs, length):
    x, y = draw(theirs(0.5), 25, 2, 1e-2, seed=1)
    reference = GaussianProcessRegressor(theirs(length), alpha=1e-3, optimizer=None).fit(x, y)
    s = ((x[:, None] - x[None]) ** 2).sum(-1)
    assert log_marginal_likelihood(ours(length), 1e-3, s, y) == pytest.approx(
        reference.log_marginal_likelihood_value_, rel=1e-9
    )


@pytest.mark.parametrize(("ours", "theirs"), KERNELS, ids=IDS)
@pytest.mark.parametrize(("d", "length"), [(1, 0.3), (3, 0.7), (10, 2.0)])
def test_fitted_length_scale(ours, theirs, d, length):
    # scikit-learn's gradient-based optimum of the same likelihood, from the true length scale; the tolerance of the
    # scalar search is 0.01 in log l.
    noise = 1e-3
    x, y = draw(theirs(length), 60, d, 1e-5, seed=d)
    reference = GaussianProcessRegressor(theirs(length, (0.05, 20.0)), alpha=noise, normalize_y=True).fit(x, y)
    fitted = fit_length_scale(ours(1.0), noise, x, y, FitLengthScale())
    assert np.log(fitted) == pytest.approx(np.log(reference.kernel_.length_scale), abs=0.02)


def test_the_optimum_stays_in_its_range():
    x, y = draw(RBF(0.5), 40, 2, 1e-3, seed=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        optimum = GaussianProcessRegressor(RBF(0.5), alpha=1e-3, normalize_y=True).fit(x, y).kernel_.length_scale
    assert 0.2 < optimum < 2.0
    above = fit_length_scale(SquaredExponential(), 1e-3, x, y, FitLengthScale(low=2.0, high=9.0))
    below = fit_length_scale(SquaredExponential(), 1e-3, x, y, FitLengthScale(low=0.05, high=0.2))
    assert above == pytest.approx(2.0, rel=0.02)
    assert above >= 2.0
    assert below == pytest.approx(0.2, rel=0.02)
    assert below <= 0.2


@pytest.mark.parametrize("n", [0, 1, 2])
def test_too_few_points_keep_the_length_scale(n):
    kernel = SquaredExponential(0.37)
    assert fit_length_scale(kernel, 1e-6, np.zeros((n, 2)), np.arange(float(n)), FitLengthScale()) == 0.37


def test_duplicates_and_constants_do_not_break_the_fit():
    x = np.repeat(np.random.default_rng(0).uniform(size=(4, 3)), 5, axis=0)
    for y in (np.full(20, 2.0), np.repeat([1.0, 2.0, 4.0, 3.0], 5)):
        assert 0.05 <= fit_length_scale(Matern52(), 0.0, x, y, FitLengthScale()) <= 20.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"low": 0.0}, "low must be positive"),
        ({"high": -1.0}, "high must be positive"),
        ({"low": 2.0, "high": 2.0}, "low must be below high = 2, got 2"),
        ({"points": 2}, "points must be at least 3"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        FitLengthScale(**settings)
