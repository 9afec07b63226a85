"""Kernels against mpmath, scikit-learn and their own spectra (SPEC: "a kernel is four things")."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf
from sklearn.gaussian_process.kernels import RBF, Matern

from fzoos._util.arrays import to_device, to_numpy
from fzoos.surrogates.kernels import Kernel, Matern52, SquaredExponential

KERNELS = [SquaredExponential, Matern52]


def exact_kappa(kernel: Kernel):
    """The textbook kernel as a function of s, in mpmath (Rasmussen & Williams, eqs. 4.9 and 4.17)."""
    length = mpf(kernel.length_scale)
    if isinstance(kernel, SquaredExponential):
        return lambda s: mpmath.exp(-s / (2 * length**2))

    def matern(s):
        r = mpmath.sqrt(s)
        return (1 + mpmath.sqrt(5) * r / length + 5 * s / (3 * length**2)) * mpmath.exp(-mpmath.sqrt(5) * r / length)

    return matern


@pytest.mark.parametrize("kernel_type", KERNELS)
@pytest.mark.parametrize("length", [0.3, 7.0])
def test_kappa_and_its_derivative_against_mpmath(kernel_type, length, device):
    # SPEC: grad_x k = 2 kappa'(s) (x - x'); the range of s goes from neighbouring floats to opposite corners of a cube.
    kernel = kernel_type(length)
    s = np.array([1e-30, 1e-16, 1e-8, 1e-4, 0.01, 0.3, 1.0, 4.0, 30.0])
    with mp.workdps(60):
        kappa = exact_kappa(kernel)
        value = np.array([float(kappa(mpf(v))) for v in s])
        slope = np.array([float(mp.diff(kappa, mpf(v), h=mpf(v) * mpf(10) ** -20)) for v in s])
    at = to_device(s, device)
    np.testing.assert_allclose(to_numpy(kernel.kappa(at)), value, rtol=1e-13)
    np.testing.assert_allclose(to_numpy(kernel.dkappa(at)), slope, rtol=1e-13)


@pytest.mark.parametrize("kernel_type", KERNELS)
@pytest.mark.parametrize("length", [0.3, 7.0])
def test_at_distance_zero(kernel_type, length, device):
    # kappa(0) = 1; kappa'(0) is the limit of (kappa(h) - kappa(0)) / h, whose next term is of order sqrt(h) (Matern).
    kernel = kernel_type(length)
    zero = to_device(np.zeros(1), device)
    with mp.workdps(80):
        h = mpf(10) ** -40
        limit = float((exact_kappa(kernel)(h) - 1) / h)
    assert float(kernel.kappa(zero)[0]) == 1.0
    assert kernel.dkappa0 == pytest.approx(limit, rel=1e-14)
    assert float(kernel.dkappa(zero)[0]) == pytest.approx(limit, rel=1e-14)


@pytest.mark.parametrize(
    ("kernel", "theirs"), [(SquaredExponential(0.7), RBF(0.7)), (Matern52(0.7), Matern(0.7, nu=2.5))]
)
@pytest.mark.parametrize("dim", [1, 20])
def test_agrees_with_scikit_learn(kernel, theirs, dim):
    rng = np.random.default_rng(dim)
    x, y = rng.uniform(size=(6, dim)), rng.uniform(size=(5, dim))
    s = ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)
    np.testing.assert_allclose(kernel.kappa(s), theirs(x, y), rtol=1e-13)


@pytest.mark.parametrize("kernel", [SquaredExponential(0.5), Matern52(2.0)])
@pytest.mark.parametrize("dim", [1, 5])
def test_spectrum(kernel, dim):
    # SPEC: normal for the squared exponential, multivariate t with 5 degrees of freedom for Matern-5/2. Bochner:
    # k(x, x') = E cos(v . (x - x')). The mean of n cosines is within 5 standard errors of it, var <= 1.
    # For d >= 2 independent t coordinates would fail: they make a kernel that is not isotropic.
    n = 100_000
    v = kernel.frequencies(n, dim, np.random.default_rng(7))
    assert v.shape == (n, dim)
    rng = np.random.default_rng(dim)
    for distance in (0.3, 0.8, 2.0):
        for offset in (np.eye(dim)[0] * distance, _of_length(distance, dim, rng)):
            waves = np.cos(v @ offset)
            exact = float(exact_kappa(kernel)(mpf(distance) ** 2))
            assert abs(waves.mean() - exact) < 5 * waves.std() / np.sqrt(n)


def _of_length(length, dim, rng):
    direction = rng.standard_normal(dim)
    return length * direction / np.linalg.norm(direction)


@pytest.mark.parametrize("bad", [0.0, float("nan")])
@pytest.mark.parametrize("kernel_type", KERNELS)
def test_length_scale_must_be_positive(kernel_type, bad):
    with pytest.raises(ValueError, match="length_scale"):
        kernel_type(bad)
