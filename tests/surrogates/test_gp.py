"""The derived Gaussian process against scikit-learn, mpmath and automatic differentiation (SPEC: "Local surrogate")."""

from __future__ import annotations

from functools import cache, partial

import mpmath
import numpy as np
import pytest
import torch
from mpmath import mp, mpf
from scipy.optimize import minimize_scalar
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from fzoos.surrogates.gp import DerivedGP
from fzoos.surrogates.kernels import Kernel, Matern52, SquaredExponential

KERNELS = [(SquaredExponential, RBF), (Matern52, partial(Matern, nu=2.5))]
IDS = ["squared-exponential", "matern"]
# (n, d): one point; d = 1; n < d; n over one panel of the blocked products (256).
SIZES = [(1, 3), (8, 1), (5, 9), (270, 2)]


def data(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([n, d])
    x = rng.uniform(size=(n, d))
    return x, 50.0 + 7.0 * np.sin(3.0 * x).sum(axis=1) + 0.1 * rng.standard_normal(n)


def sklearn_gp(kernel, x, y, noise) -> GaussianProcessRegressor:
    """Fixed hyper-parameters, observations standardised: what SPEC describes, by another library."""
    return GaussianProcessRegressor(kernel, alpha=noise, optimizer=None, normalize_y=True).fit(x, y)


def mp_kernel(kernel: Kernel):
    """The textbook kernel of two points in mpmath."""
    length = mpf(kernel.length_scale)

    def squared_exponential(r):
        return mpmath.exp(-(r**2) / (2 * length**2))

    def matern(r):
        a = mpmath.sqrt(5) * r / length
        return (1 + a + a**2 / 3) * mpmath.exp(-a)

    of_distance = squared_exponential if isinstance(kernel, SquaredExponential) else matern
    return lambda x, y: of_distance(mpmath.sqrt(sum((a - b) ** 2 for a, b in zip(x, y, strict=True))))


def torch_kernel(kernel: Kernel, x: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """k(x, x_j) for all j, to be differentiated."""
    r = torch.linalg.norm(x - points, dim=1)
    if isinstance(kernel, SquaredExponential):
        return torch.exp(-(r**2) / (2 * kernel.length_scale**2))
    a = 5**0.5 * r / kernel.length_scale
    return (1 + a + a**2 / 3) * torch.exp(-a)


def prior_variance(kernel: Kernel) -> float:
    """Var of a gradient coordinate, -d^2 k / d delta^2 at delta = 0, by a central difference of 60 digits."""
    with mp.workdps(60):
        h = mpf(10) ** -12
        k = mp_kernel(kernel)
        return float((2 * k([0], [0]) - 2 * k([h], [0])) / h**2)


@pytest.mark.parametrize(("ours", "theirs"), KERNELS, ids=IDS)
@pytest.mark.parametrize(("n", "d"), SIZES)
def test_gradient_of_the_mean(ours, theirs, n, d, device):
    """grad mu against the derivative of scikit-learn's posterior mean, taken by mpmath with 40 digits."""
    x, y = data(n, d)
    kernel, noise = ours(0.8), 1e-3
    gp = DerivedGP(kernel, noise, d, device)
    gp.append(x, y)
    reference = sklearn_gp(theirs(0.8), x, y, noise)
    at = np.random.default_rng(1).uniform(size=d)
    with mp.workdps(40):
        k = mp_kernel(kernel)
        points = [[mpf(float(v)) for v in row] for row in x]
        alpha = [mpf(float(v)) for v in reference.alpha_]

        def mean(*z):
            return reference._y_train_mean + reference._y_train_std * sum(
                a * k(z, p) for a, p in zip(alpha, points, strict=True)
            )

        centre = [mpf(float(v)) for v in at]
        assert float(mean(*centre)) == pytest.approx(reference.predict(at[None, :])[0], rel=1e-10)
        h = mpf(10) ** -12
        expected = []
        for i in range(d):
            up, down = list(centre), list(centre)
            up[i], down[i] = centre[i] + h, centre[i] - h
            expected.append(float((mean(*up) - mean(*down)) / (2 * h)))
    np.testing.assert_allclose(gp.grad_mean(at), expected, rtol=1e-8, atol=1e-8 * np.abs(y - y.mean()).max())


@pytest.mark.parametrize(("ours", "theirs"), KERNELS, ids=IDS)
@pytest.mark.parametrize(("n", "d", "unit"), [(5, 9, 1.0), (30, 4, 1e-6), (30, 4, 1e9)])
def test_the_likeliest_amplitude(ours, theirs, n, d, unit, device):
    """a maximises log N(y - mean; 0, a^2 (K + sigma^2 I)): scikit-learn's likelihood, maximised by SciPy over log a."""
    x, y = data(n, d)
    noise = 1e-3
    gp = DerivedGP(ours(0.8), noise, d, device)
    gp.append(x, unit * y)
    centred = y - y.mean()

    def negative(log_a):
        a2 = float(np.exp(2.0 * log_a))
        kernel = ConstantKernel(a2) * theirs(0.8)
        model = GaussianProcessRegressor(kernel, alpha=a2 * noise, optimizer=None).fit(x, centred)
        return -model.log_marginal_likelihood()

    best = minimize_scalar(negative, bounds=(-15.0, 15.0), method="bounded", options={"xatol": 1e-9}).x
    assert gp.amplitude == pytest.approx(unit * np.exp(best), rel=1e-6)


def test_amplitude_without_information(device):
    """Without observations it is 1; equal observations are explained by 0."""
    x, _ = data(6, 3)
    free = DerivedGP(Matern52(1.0), 1e-4, 3, device)
    assert free.amplitude == 1.0
    free.append(x, np.full(6, 3.0))
    assert free.amplitude == 0.0


@pytest.mark.parametrize(("ours", "theirs"), KERNELS, ids=IDS)
@pytest.mark.parametrize(("n", "d"), SIZES)
def test_trace_of_the_gradient_covariance(ours, theirs, n, d, device):
    """trace(grad grad' k - J^T A^{-1} J) with J by automatic differentiation and A from scikit-learn's factor."""
    x, y = data(n, d)
    kernel, noise = ours(0.8), 1e-3
    gp = DerivedGP(kernel, noise, d, device)
    gp.append(x, y)
    factor = sklearn_gp(theirs(0.8), x, y, noise).L_
    candidates = np.random.default_rng(2).uniform(size=(5, d))
    expected = []
    for z in candidates:
        j = torch.func.jacrev(lambda v: torch_kernel(kernel, v, torch.as_tensor(x)))(torch.as_tensor(z)).numpy()
        sigma = prior_variance(kernel) * np.eye(d) - j.T @ np.linalg.solve(factor @ factor.T, j)
        expected.append(np.trace(sigma))
    np.testing.assert_allclose(gp.grad_uncertainty(candidates), expected, rtol=1e-8, atol=1e-8 * gp.prior_trace)


def exact_posterior(kernel, noise, x, y, at):
    """(grad mu, trace Sigma_grad) of SPEC with 40 digits, by the explicit Jacobian; x and y are taken as exact."""
    n, d = x.shape
    with mp.workdps(40):
        points = np.array([[mpf(float(v)) for v in row] for row in x])
        offsets = np.array([mpf(float(v)) for v in at]) - points
        length = mpf(kernel.length_scale)

        def kappa(s):
            if isinstance(kernel, SquaredExponential):
                return mpmath.exp(-s / (2 * length**2))
            a = mpmath.sqrt(5 * s) / length
            return (1 + a + a**2 / 3) * mpmath.exp(-a)

        def slope(s):  # kappa'(s), by hand; checked against mpmath's derivative in the tests of the kernels
            if isinstance(kernel, SquaredExponential):
                return -kappa(s) / (2 * length**2)
            a = mpmath.sqrt(5 * s) / length
            return -5 / (6 * length**2) * (1 + a) * mpmath.exp(-a)

        a = mpmath.matrix(n, n)
        for i in range(n):
            for j in range(i, n):
                difference = points[i] - points[j]
                a[i, j] = a[j, i] = kappa(difference @ difference)
            a[i, i] += mpf(noise)
        values = [mpf(float(v)) for v in y]
        mean = sum(values) / n
        scale = mpmath.sqrt(sum((v - mean) ** 2 for v in values) / n)
        inverse = np.array((a**-1).tolist())
        alpha = inverse @ np.array([(v - mean) / scale for v in values])
        jacobian = np.array([2 * slope(o @ o) for o in offsets])[:, None] * offsets
        gradient = scale * (alpha @ jacobian)
        trace = -2 * slope(mpf(0)) * d - np.sum(inverse * (jacobian @ jacobian.T))
        return np.array([float(v) for v in gradient]), float(trace)


@cache
def cluster(kernel):
    """24 points within 1e-4 of (0.9, ..., 0.9) in d = 300, in blocks of 6, as in a local search."""
    rng = np.random.default_rng(5)
    x = 0.9 + rng.uniform(-1e-4, 1e-4, (24, 300))
    y = x @ rng.standard_normal(300) + ((x - 0.9) ** 2).sum(axis=1)
    at = 0.9 + rng.uniform(-1e-4, 1e-4, 300)
    return x.reshape(4, 6, 300), y.reshape(4, 6), at, exact_posterior(kernel, 1e-6, x, y, at)


@cache
def path(kernel):
    """20 points in d = 100 that span the cube, in blocks of 5 that do not."""
    rng = np.random.default_rng(6)
    x = np.linspace(0.1, 0.9, 4)[:, None, None] + rng.uniform(-1e-4, 1e-4, (4, 5, 100))
    y = np.sin(x).sum(axis=2)
    at = x[-1].mean(axis=0) + 1e-5
    return x, y, at, exact_posterior(kernel, 1e-6, x.reshape(-1, 100), y.ravel(), at)


@pytest.mark.parametrize("case", [cluster, path])
@pytest.mark.parametrize("kernel", [SquaredExponential(1.0), Matern52(1.0)], ids=IDS)
def test_clustered_points_keep_their_digits(case, kernel, device):
    """SPEC "How uncertain": centring matters: without it the cancellation eats the digits.

    The smallest eigenvalue of A is about 2e-6 and K is rounded at 1e-16: relative errors of 1e-10 are unavoidable.
    Uncentred distances would be wrong by 1e-14 to 1e-13, and K with them: relative errors of 1e-9 to 1e-8.
    """
    x, y, at, (gradient, trace) = case(kernel)
    gp = DerivedGP(kernel, 1e-6, len(at), device)
    for block, values in zip(x, y, strict=True):
        gp.append(block, values)
    np.testing.assert_allclose(gp.grad_mean(at), gradient, rtol=0, atol=5e-10 * np.linalg.norm(gradient))
    reduction = gp.prior_trace - gp.grad_uncertainty(at[None, :])[0]
    assert reduction == pytest.approx(gp.prior_trace - trace, rel=5e-10)


@pytest.mark.parametrize("kernel", [SquaredExponential(0.7), Matern52(0.7)], ids=IDS)
@pytest.mark.parametrize("sizes", [[1] * 24, [3, 1, 20]], ids=str)
def test_in_blocks_or_all_at_once(kernel, sizes, device):
    # SPEC: "extend the Cholesky factor as points arrive"; 24 rows also outgrow the first storage of 16.
    x, y = data(24, 4)
    whole, grown = DerivedGP(kernel, 1e-4, 4, device), DerivedGP(kernel, 1e-4, 4, device)
    whole.append(x, y)
    for end, m in zip(np.cumsum(sizes), sizes, strict=True):
        grown.append(x[end - m : end], y[end - m : end])
        grown.grad_mean(x[0])  # what is cached must not survive the next block
    at = np.random.default_rng(3).uniform(size=(3, 4))
    assert len(grown) == len(whole) == 24
    np.testing.assert_allclose(grown.grad_mean(at[0]), whole.grad_mean(at[0]), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(grown.grad_uncertainty(at), whole.grad_uncertainty(at), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kernel", [SquaredExponential(0.7), Matern52(0.7)], ids=IDS)
@pytest.mark.parametrize("rows", [[0], [23, 4, 11], list(range(24))], ids=str)
def test_replaced_observations(kernel, rows, device):
    """The same as a process that has never had the others, also where it had been used before and grows afterwards."""
    x, y = data(24 + len(rows) + 3, 4)
    gp = DerivedGP(kernel, 1e-4, 4, device)
    gp.append(x[:24], y[:24])
    gp.grad_mean(x[0])
    gp.grad_uncertainty(x[:1])
    gp.replace(np.array(rows), x[24:-3], y[24:-3])
    kept = [i for i in range(24) if i not in rows]
    at = np.random.default_rng(3).uniform(size=(3, 4))
    for in_use in (kept + list(range(24, 24 + len(rows))), kept + list(range(24, len(x)))):
        if len(in_use) > 24:
            gp.append(x[-3:], y[-3:])
        fresh = DerivedGP(kernel, 1e-4, 4, device)
        fresh.append(x[in_use], y[in_use])
        assert len(gp) == len(fresh)
        np.testing.assert_allclose(gp.grad_mean(at[0]), fresh.grad_mean(at[0]), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(gp.grad_uncertainty(at), fresh.grad_uncertainty(at), rtol=1e-8, atol=1e-8)
        assert gp.amplitude == pytest.approx(fresh.amplitude, rel=1e-9)


def test_without_observations(device):
    # The prior: zero mean, and Var of each coordinate -2 kappa'(0) = 1/l^2 = 4 for l = 1/2, so 4 d = 12 in all.
    gp = DerivedGP(SquaredExponential(0.5), 1e-6, 3, device)
    gp.append(np.empty((0, 3)), np.empty(0))
    assert len(gp) == 0
    np.testing.assert_array_equal(gp.grad_mean(np.full(3, 0.5)), np.zeros(3))
    assert gp.mean(np.full(3, 0.5)) == 0.0
    np.testing.assert_array_equal(gp.grad_uncertainty(np.zeros((2, 3))), [12.0, 12.0])


@pytest.mark.parametrize("kernel", [SquaredExponential(1.0), Matern52(1.0)], ids=IDS)
def test_exact_duplicates_without_noise_add_nothing(kernel, device):
    # sigma^2 = 0: asking again at the same points tells nothing new, so mean and uncertainty stay where they were, up
    # to the jitter of 1e-12 (whose inverse amplifies rounding in the trace to 1e-4 and the like).
    x, y = data(8, 3)
    once, often = DerivedGP(kernel, 0.0, 3, device), DerivedGP(kernel, 0.0, 3, device)
    once.append(x, y)
    for _ in range(6):
        often.append(x, y)
    assert once.factor.jitter == 0.0
    assert 0.0 < often.factor.jitter <= 1e-8
    at = np.random.default_rng(1).uniform(size=(4, 3))
    for z in at:
        np.testing.assert_allclose(often.grad_mean(z), once.grad_mean(z), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(often.grad_uncertainty(at), once.grad_uncertainty(at), atol=0.02 * once.prior_trace)


def test_the_units_of_the_observations(device):
    # SPEC: standardising is undone afterwards: y -> a y + b makes grad mu a times as long, and leaves Sigma as it is.
    x, y = data(12, 3)
    plain, scaled = DerivedGP(Matern52(1.0), 1e-6, 3, device), DerivedGP(Matern52(1.0), 1e-6, 3, device)
    plain.append(x, y)
    scaled.append(x, -1e5 * y + 3e4)
    at = np.full(3, 0.3)
    np.testing.assert_allclose(scaled.grad_mean(at), -1e5 * plain.grad_mean(at), rtol=1e-7)
    assert scaled.mean(at) == pytest.approx(-1e5 * plain.mean(at) + 3e4, rel=1e-9)
    assert scaled.amplitude == pytest.approx(1e5 * plain.amplitude, rel=1e-7)
    np.testing.assert_array_equal(scaled.grad_uncertainty(at[None]), plain.grad_uncertainty(at[None]))


def test_uncertainty_is_never_negative(device):
    # With d = 1 and many points the true trace is almost zero, below the rounding of prior_trace - reduction.
    x = np.linspace(0, 1, 60)[:, None]
    gp = DerivedGP(SquaredExponential(1.0), 1e-10, 1, device)
    gp.append(x, np.sin(x[:, 0]))
    uncertainty = gp.grad_uncertainty(x + 0.003)
    assert np.all(uncertainty >= 0.0)
    assert np.all(uncertainty < 1e-4)
