"""Noise of the observations: likelihoods against scikit-learn, and what the surrogates and FZooS make of it."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from fzoos import (
    ActiveQueries,
    Constant,
    FitLengthScale,
    FittedNoise,
    FixedFZooS,
    InitialDesign,
    KnownNoise,
    Matern52,
    Measured,
    SquaredExponential,
    minimize,
)
from fzoos.federation.settings import make_algorithm
from fzoos.objectives.box import Box
from fzoos.objectives.trajectory import Trajectory
from fzoos.surrogates.evidence import Evidence, Ridge
from fzoos.surrogates.fourier import FourierFeatures, FourierSurrogate
from fzoos.surrogates.gp import DerivedGP
from fzoos.surrogates.length_scale import fit_length_scale
from fzoos.surrogates.local import LocalSurrogate
from fzoos.surrogates.noise import NoiseModel
from fzoos.tasks import Noisy, Quadratic

KERNELS = [(SquaredExponential, RBF), (Matern52, partial(Matern, nu=2.5))]
IDS = ["squared-exponential", "matern"]


def squared(x):
    return ((x[:, None] - x[None]) ** 2).sum(-1)


def draw(theirs, amplitude, sigma, n=80, d=2, seed=0):
    """A function of the Gaussian process, observed with noise; the mean of the observations is zero."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, d))
    y = rng.multivariate_normal(np.zeros(n), amplitude**2 * theirs(x) + sigma**2 * np.eye(n))
    return x, y - y.mean()


def reference(theirs, x, y):
    """scikit-learn's log likelihood as a function of a, l and sigma."""
    model = ConstantKernel(1.0) * theirs(1.0) + WhiteKernel(1.0)
    regressor = GaussianProcessRegressor(model, alpha=0.0, optimizer=None).fit(x, y)
    return lambda a, length, sigma: regressor.log_marginal_likelihood(np.log([a**2, length, sigma**2]))


def log_prior(ratio):
    """log10 lambda ~ N(-3, 2^2), but for a constant."""
    return -((math.log10(ratio) + 3.0) ** 2) / 8.0


# The likelihood


@pytest.mark.parametrize(("ours", "theirs"), KERNELS, ids=IDS)
@pytest.mark.parametrize(("amplitude", "sigma"), [(1.0, 0.1), (3.0, 0.02), (0.2, 2.0)])
def test_likelihood(ours, theirs, amplitude, sigma):
    """Eq. (1) is scikit-learn's likelihood, for any amplitude and noise, from one decomposition."""
    x, y = draw(theirs(0.4), 1.0, 0.3)
    expected = reference(theirs, x, y)(amplitude, 0.4, sigma)
    assert Evidence(ours(0.4), squared(x), y).log_likelihood(amplitude, sigma) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("ours", "theirs"), KERNELS, ids=IDS)
@pytest.mark.parametrize("sigma", [0.02, 0.3, 1.0])
def test_fitted_ridge(ours, theirs, sigma):
    """lambda and a are where a search over scikit-learn's likelihood and the prior ends."""
    x, y = draw(theirs(0.4), 2.0, sigma, seed=1)
    likelihood = reference(theirs, x, y)

    def negative(p):
        return -likelihood(math.exp(p[0]), 0.4, math.exp(p[1])) - log_prior(math.exp(2 * (p[1] - p[0])))

    best = scipy_minimize(negative, [0.0, -1.0], method="Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-9})
    # a is profiled without the prior: the two optima differ by what the weak prior moves a.
    ratio, amplitude = Evidence(ours(0.4), squared(x), y).fit(1e-6, 10.0)
    assert amplitude * math.sqrt(ratio) == pytest.approx(math.exp(best.x[1]), rel=0.03)
    assert amplitude == pytest.approx(math.exp(best.x[0]), rel=0.1)


@pytest.mark.parametrize(("ours", "theirs"), KERNELS, ids=IDS)
def test_known_noise_leaves_the_amplitude(ours, theirs):
    """With sigma given, a is the optimum of scikit-learn's likelihood with that sigma, and the prior."""
    x, y = draw(theirs(0.4), 2.0, 0.3, seed=2)
    likelihood = reference(theirs, x, y)
    grid = np.exp(np.linspace(-1, 2, 600))
    expected = grid[np.argmax([likelihood(a, 0.4, 0.3) + log_prior(0.09 / a**2) for a in grid])]
    ratio, amplitude = KnownNoise(0.3).ridge(ours(0.4), x, y)
    assert amplitude == pytest.approx(expected, rel=0.02)
    assert ratio == pytest.approx((0.3 / amplitude) ** 2, rel=1e-9)


@pytest.mark.parametrize("noise", [KnownNoise(0.3), FittedNoise()], ids=["known", "fitted"])
def test_units_do_not_matter(noise):
    """Observations in other units, with another zero: lambda is the same, a in the new units."""
    x, y = draw(RBF(0.4), 2.0, 0.3, seed=3)
    one = noise.ridge(SquaredExponential(0.4), x, y)
    other = KnownNoise(300.0) if isinstance(noise, KnownNoise) else noise
    two = other.ridge(SquaredExponential(0.4), x, 1000.0 * y - 5e4)
    assert two.ratio == pytest.approx(one.ratio, rel=1e-6)
    assert two.amplitude == pytest.approx(1000.0 * one.amplitude, rel=1e-6)


@pytest.mark.parametrize("noise", [KnownNoise(1e-9), FittedNoise()], ids=["known", "fitted"])
def test_no_noise_is_the_ridge_that_arithmetic_needs(noise):
    """A smooth function without noise: lambda is the floor, about that of the default."""
    x = np.random.default_rng(0).uniform(size=(60, 2))
    ratio, amplitude = noise.ridge(SquaredExponential(0.8), x, np.sin(3 * x).sum(axis=1))
    assert ratio == pytest.approx(NoiseModel.floor, rel=0.05)
    assert 0.5 < amplitude < 50.0


@pytest.mark.parametrize("noise", [KnownNoise(0.1), FittedNoise()], ids=["known", "fitted"])
@pytest.mark.parametrize("y", [[], [1.0], [1.0, 2.0], [3.0] * 10], ids=["none", "one", "two", "constant"])
def test_too_little_to_learn_from(noise, y):
    """The floor, and the observations' own scale."""
    x = np.random.default_rng(0).uniform(size=(len(y), 2))
    assert noise.ridge(Matern52(), x, np.array(y)) == Ridge(NoiseModel.floor, None)


@pytest.mark.parametrize("noise", [KnownNoise(0.1), FittedNoise()], ids=["known", "fitted"])
def test_duplicates_do_not_break_the_fit(noise):
    """Points asked again: K is singular, and sigma is what their observations differ by."""
    rng = np.random.default_rng(0)
    x = np.repeat(rng.uniform(size=(20, 3)), 5, axis=0)
    y = np.repeat(rng.standard_normal(20), 5) + 0.1 * rng.standard_normal(100)
    within = math.sqrt(np.mean(y.reshape(20, 5).var(axis=1, ddof=1)))
    ratio, amplitude = noise.ridge(Matern52(0.5), x, y)
    assert amplitude * math.sqrt(ratio) == pytest.approx(within, rel=0.1)


@pytest.mark.parametrize("noise", [KnownNoise(0.3), FittedNoise()], ids=["known", "fitted"])
def test_length_scale_with_a_noise_model(noise):
    """l is the optimum of scikit-learn's likelihood and the priors over all that is free."""
    x, y = draw(RBF(0.4), 2.0, 0.3, n=100, seed=4)
    likelihood = reference(RBF, x, y)

    def negative(p):
        a, length, sigma = math.exp(p[0]), math.exp(p[1]), 0.3 if isinstance(noise, KnownNoise) else math.exp(p[2])
        return -likelihood(a, length, sigma) + 0.5 * (p[1] - math.log(0.8)) ** 2

    best = scipy_minimize(negative, [0.0, -1.0, -1.0], method="Nelder-Mead", options={"maxiter": 2000})
    fitted = fit_length_scale(SquaredExponential(0.8), noise, x, y, FitLengthScale())
    assert math.log(fitted) == pytest.approx(best.x[1], abs=0.05)  # the prior on lambda is not in `negative`


def test_an_orthogonal_design_keeps_the_length_scale():
    """It says nothing of l; without the prior, l would go to an end of its range."""
    rng = np.random.default_rng(0)
    directions = np.linalg.qr(rng.standard_normal((40, 40)))[0]
    x = np.concatenate([np.full((1, 40), 0.5), 0.5 + 0.1 * directions])
    y = x @ rng.standard_normal(40) + 0.01 * rng.standard_normal(41)
    fitted = fit_length_scale(Matern52(8.0), KnownNoise(0.01), x, y, FitLengthScale())
    assert 8.0 / math.e**2 < fitted < 8.0 * math.e**2


# The surrogates


def test_surrogate_with_a_ridge():
    """Its gradient and its uncertainty are those of scikit-learn's process with that amplitude and noise."""
    x, y = draw(RBF(0.5), 2.0, 0.3, n=30, seed=5)
    trajectory = Trajectory(lambda p: y[: len(p)], Box.of((0, 1), dim=2), vectorized=True)
    trajectory.query(x, "query")
    surrogate = LocalSurrogate(trajectory, SquaredExponential(0.5), 1e-6, None)
    at = np.array([0.4, 0.6])
    surrogate.at(at)
    surrogate.use(Ridge((0.3 / 2.0) ** 2, 2.0))
    gp = surrogate.at(at)
    model = ConstantKernel(4.0) * RBF(0.5)
    theirs = GaussianProcessRegressor(model, alpha=0.09, optimizer=None).fit(x, y)
    h = 1e-4
    stencil = np.concatenate([at + h * np.eye(2), at - h * np.eye(2)])
    mean, covariance = theirs.predict(stencil, return_cov=True)
    np.testing.assert_allclose(gp.grad_mean(at), (mean[:2] - mean[2:]) / (2 * h), rtol=1e-5)
    d = np.concatenate([np.eye(2), -np.eye(2)], axis=1) / (2 * h)
    trace = float(np.trace(d @ covariance @ d.T))
    assert gp.grad_uncertainty(at[None, :])[0] * gp.scale**2 == pytest.approx(trace, rel=1e-4)


def test_features_follow_the_ridge():
    """After a change of the ridge the weights are (Phi^T Phi + lambda I)^{-1} Phi^T y, also when points come and go."""
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(12, 2)), rng.standard_normal(12)
    features = FourierFeatures(seed=0, count=30, dim=2, kernel=SquaredExponential(0.5))
    surrogate = FourierSurrogate(features, 1e-6)
    surrogate.weights(np.arange(8), x, y)
    for noise, index in ((0.1, np.arange(8)), (0.3, np.arange(10)), (0.3, np.arange(2, 12)), (0.02, np.arange(2, 12))):
        surrogate.noise = noise
        phi, centred = features(x[index]), y[index] - y[index].mean()
        expected = np.linalg.solve(phi.T @ phi + noise * np.eye(30), phi.T @ centred)
        np.testing.assert_allclose(surrogate.weights(index, x, y), expected, rtol=1e-8)


def test_scale_without_an_amplitude():
    """The standard deviation of the observations, as ever."""
    gp = DerivedGP(SquaredExponential(), 1e-6, 1)
    gp.append(np.array([[0.0], [1.0]]), np.array([1.0, 5.0]))
    assert gp.scale == 2.0


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        (Ridge(0.1, 1.0), Ridge(0.11, 1.1), True),
        (Ridge(0.1, 1.0), Ridge(0.13, 1.0), False),
        (Ridge(0.1, 1.0), Ridge(0.1, 0.8), False),
        (Ridge(1e-6), Ridge(1e-6, 1.0), False),
        (Ridge(1e-6), Ridge(1e-6), True),
    ],
)
def test_small_changes_are_not_worth_a_new_factor(one, two, same):
    """A fifth is the limit, either way round."""
    assert one.resembles(two) is same
    assert two.resembles(one) is same


# FZooS

SMALL = {"features": 60, "initial": InitialDesign(12, 0.1), "active": ActiveQueries(10, 1, 0.1)}
VARIANTS = {
    "weights": SMALL | {"refresh": ActiveQueries(20, 4, 0.1)},
    "gradient": SMALL | {"refresh": ActiveQueries(20, 4, 0.1), "sends": "gradient", "refresh_first_round": True},
    "measured length": SMALL | {"refresh": ActiveQueries(20, 4, 0.1), "sends": "gradient", "length": Measured()},
    "one exchange": SMALL | {"refresh": None, "refresh_first_round": False, "sends": "weights", "steps": None},
    "length scale": SMALL | {"refresh": ActiveQueries(20, 4, 0.1), "fit": FitLengthScale()},
    "few points": SMALL | {"refresh": ActiveQueries(20, 4, 0.1), "points": 10, "feature_points": 10},
}


def small_run(**settings):
    task = Noisy(Quadratic(6, 2, 1.0, 0), 0.05)
    run = {"bounds": task.bounds, "rounds": 3, "local_steps": 3, "vectorized": True, "monitor": task.value, "seed": 0}
    return minimize(task.objectives, task.x0, algorithm=FixedFZooS(**settings), **run)


@pytest.mark.parametrize("noise", [KnownNoise(0.1), FittedNoise()], ids=["known", "fitted"])
@pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS.keys())
def test_nothing_more_travels(noise, settings):
    """A noise model changes x, but no message and no query; the same seed gives the same bits."""
    plain, run, again = small_run(**settings), small_run(noise=noise, **settings), small_run(noise=noise, **settings)
    assert (run.bytes_up, run.bytes_down, run.queries) == (plain.bytes_up, plain.bytes_down, plain.queries)
    assert np.all(np.isfinite(run.x))
    assert not np.array_equal(run.x, plain.x)
    assert np.array_equal(run.x, again.x)


def test_known_noise_helps():
    """Far better than the ridge of noiseless functions, over four seeds; the scatter is a tenth of the range."""
    gaps = {"plain": 0.0, "known": 0.0}
    for seed in range(4):
        task = Noisy(Quadratic(30, 3, 1.0, seed), 0.1, seed)
        queries = {"initial": InitialDesign(31, 0.1, "orthogonal"), "active": ActiveQueries(50, 2, 0.1)}
        queries |= {"refresh": ActiveQueries(50, 10, 0.1), "length": Constant(), "features": 400}
        for name, noise in (("plain", 1e-6), ("known", KnownNoise(task.sigma))):
            run = {"bounds": task.bounds, "rounds": 6, "vectorized": True, "seed": seed}
            result = minimize(task.objectives, task.x0, algorithm=FixedFZooS(noise=noise, **queries), **run)
            gaps[name] += task.value(result.x) - task.minimum
    assert gaps["known"] < 0.7 * gaps["plain"]


# Settings


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"sigma": 0.1}, KnownNoise(0.1)),
        ({"name": "KnownNoise", "sigma": 0.1, "points": 50}, KnownNoise(0.1, 50)),
        ({"name": "FittedNoise"}, FittedNoise()),
        ({"name": "FittedNoise", "points": 50}, FittedNoise(50)),
        (0.5, 0.5),
    ],
)
def test_tables(table, expected):
    """A study's file can say all of them, and a plain number as before."""
    assert make_algorithm({"name": "fzoos", "noise": table}) == FixedFZooS(noise=expected)
    assert make_algorithm({"name": "fzoos", "noise": table}) == FixedFZooS(noise=expected)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: KnownNoise(0.0), "sigma must be positive, got 0.0"),
        (lambda: KnownNoise(-1.0), "sigma must be positive, got -1.0"),
        (lambda: KnownNoise("much"), "sigma must be a number, got 'much'"),
        (lambda: KnownNoise(0.1, points=2), "points must be at least 3, got 2"),
        (lambda: FittedNoise(points=0), "points must be at least 3, got 0"),
        (lambda: FixedFZooS(noise=-1.0), r"noise \(sigma\^2\) must be"),
        (lambda: FixedFZooS(noise="little"), r"noise \(sigma\^2\) must be a number, got 'little'"),
        (lambda: FixedFZooS(noise=None), r"noise \(sigma\^2\) must be a number, got None"),
        (lambda: make_algorithm({"name": "fzoos", "noise": {"name": "Known"}}), "algorithm.noise: name must be one of"),
        (lambda: make_algorithm({"name": "fzoos", "noise": False}), "noise .* must be a number, got False"),
        (lambda: make_algorithm({"name": "fzoos", "noise": {}}), "algorithm.noise: sigma is missing"),
    ],
)
def test_bad_settings_are_named(make, message):
    """What came, and what was expected."""
    with pytest.raises((ValueError, TypeError), match=message):
        make()
