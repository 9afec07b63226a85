"""Random Fourier features (SPEC: "Transferable surrogate")."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fzoos._util.arrays import to_numpy
from fzoos.surrogates.fourier import FourierFeatures, FourierSurrogate
from fzoos.surrogates.gp import DerivedGP
from fzoos.surrogates.kernels import Matern52, SquaredExponential

KERNELS = [SquaredExponential(0.8), Matern52(0.8)]
IDS = ["squared-exponential", "matern"]


def data(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([n, d])
    x = rng.uniform(size=(n, d))
    return x, 20.0 + 5.0 * np.sin(3.0 * x).sum(axis=1)


def direct_weights(features: FourierFeatures, noise: float, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """w = scale * Phi^T (Phi Phi^T + sigma^2 I)^{-1} y_standardised, with NumPy's own cosine and solver."""
    v, b = to_numpy(features.frequencies), to_numpy(features.phases)
    phi = np.sqrt(2 / len(b)) * np.cos(x @ v.T + b)
    scale = np.std(y) or 1.0
    return scale * phi.T @ np.linalg.solve(phi @ phi.T + noise * np.eye(len(y)), (y - np.mean(y)) / scale)


@pytest.mark.parametrize("kernel", KERNELS, ids=IDS)
@pytest.mark.parametrize("d", [1, 4, 20])
def test_inner_products_estimate_the_kernel(kernel, d, device):
    # phi(x).phi(x') is the mean of M terms 2 cos(v.x + b) cos(v.x' + b), each with mean k(x, x') and in [-2, 2]: five
    # standard errors are at most 10 / sqrt(M). The paper's printed factor 2/sqrt(M) would give 2 k instead.
    m = 40_000
    features = FourierFeatures(seed=3, count=m, dim=d, kernel=kernel, device=device)
    x = np.random.default_rng(d).uniform(size=(4, d))
    phi = to_numpy(features(x))
    assert phi.shape == (4, m)
    s = ((x[:, None] - x[None]) ** 2).sum(-1)
    np.testing.assert_allclose(phi @ phi.T, kernel.kappa(s), atol=10 / np.sqrt(m))


@pytest.mark.parametrize("kernel", KERNELS, ids=IDS)
def test_gradient_by_automatic_differentiation(kernel, device):
    # grad mu_hat(x) = grad phi(x)^T w: differentiate phi(x).w, written out here, with PyTorch.
    m, d = 500, 6
    features = FourierFeatures(seed=1, count=m, dim=d, kernel=kernel, device=device)
    rng = np.random.default_rng(2)
    x, w = rng.uniform(size=d), rng.standard_normal(m)
    v, b = (torch.as_tensor(to_numpy(a)) for a in (features.frequencies, features.phases))
    z = torch.tensor(x, requires_grad=True)
    ((2 / m) ** 0.5 * torch.cos(v @ z + b) @ torch.as_tensor(w)).backward()
    np.testing.assert_allclose(features.grad(x, w), z.grad.numpy(), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("kernel", KERNELS, ids=IDS)
@pytest.mark.parametrize(("n", "m"), [(1, 50), (30, 200), (30, 8)])  # the last: fewer features than points
def test_weights_against_the_formula(kernel, n, m, device):
    x, y = data(n, 3)
    features = FourierFeatures(seed=2, count=m, dim=3, kernel=kernel, device=device)
    expected = direct_weights(features, 1e-3, x, y)
    w = FourierSurrogate(features, 1e-3).weights(np.arange(n), x, y)
    assert w.shape == (m,)
    np.testing.assert_allclose(w, expected, rtol=1e-8, atol=1e-9 * max(np.abs(expected).max(), 1.0))


def test_replaced_points_equal_a_fresh_computation(device):
    # SPEC "Which points": `nearest n` swaps points; after each swap w is that of the points now in use alone.
    x, y = data(60, 3)
    features = FourierFeatures(seed=2, count=120, dim=3, kernel=Matern52(1.0), device=device)
    surrogate = FourierSurrogate(features, 1e-3)
    rng = np.random.default_rng(0)
    in_use = [np.arange(5), np.arange(12), np.arange(20)]  # the trajectory grows up to n = 20
    in_use += [np.sort(rng.choice(60, 20, replace=False)) for _ in range(4)]  # then its nearest 20 change
    in_use += [in_use[-1], np.arange(40, 60), np.arange(20)]  # nothing, then all of them
    for index in in_use:
        w = surrogate.weights(index, x, y)
        np.testing.assert_allclose(w, direct_weights(features, 1e-3, x[index], y[index]), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("kernel", KERNELS, ids=IDS)
def test_converges_to_the_gaussian_process(kernel):
    """The error of grad mu_hat falls like M^(-1/2): its square times M is constant.

    The root mean square over 24 seeds at each M; the slope of its logarithm against
    log M is -1/2 up to the noise of the estimate (a few hundredths).
    """
    n, d, noise = 12, 3, 0.05
    x, y = data(n, d)
    gp = DerivedGP(kernel, noise, d)
    gp.append(x, y)
    at = np.full(d, 0.4)
    exact = gp.grad_mean(at)
    counts = [250, 1000, 4000, 16000]
    errors = []
    for m in counts:
        squared = []
        for seed in range(24):
            features = FourierFeatures(seed, m, d, kernel)
            w = FourierSurrogate(features, noise).weights(np.arange(n), x, y)
            squared.append(np.sum((features.grad(at, w) - exact) ** 2))
        errors.append(np.sqrt(np.mean(squared)))
    slope = np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.12)
    assert errors[-1] < 0.05 * np.linalg.norm(exact)


def test_only_the_seed_travels(device):
    # SPEC: V, b are drawn once from a seed that all share.
    first, again, other = (FourierFeatures(seed, 10, 2, Matern52(1.0), device) for seed in (5, 5, 6))
    x = np.array([[0.1, 0.2]])
    np.testing.assert_array_equal(to_numpy(first(x)), to_numpy(again(x)))
    assert not np.array_equal(to_numpy(first(x)), to_numpy(other(x)))


def test_duplicates_constant_and_no_noise(device):
    # Bad input: duplicates and a constant objective never break the factorisation.
    features = FourierFeatures(seed=0, count=50, dim=2, kernel=SquaredExponential(1.0), device=device)
    x = np.full((20, 2), 0.5)
    surrogate = FourierSurrogate(features, 0.0)
    for n in (1, 3, 20):
        np.testing.assert_array_equal(surrogate.weights(np.arange(n), x, np.full(20, 4.0)), np.zeros(50))


@pytest.mark.parametrize(("count", "error"), [(0, ValueError), (-3, ValueError), (2.5, TypeError), (True, TypeError)])
def test_number_of_features_must_be_positive(count, error):
    # Bad input: features < 1 names the argument.
    with pytest.raises(error, match="features must be"):
        FourierFeatures(seed=0, count=count, dim=2, kernel=SquaredExponential(1.0))
