"""The synthetic tasks: values, gradients, minima, starts and boxes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from fzoos_experiments.tasks import TASKS, Ackley, Levy, Quadratic

EVERY = list(TASKS.values())


def literal(task, z: torch.Tensor) -> torch.Tensor:
    """F as the literature prints it, in PyTorch, for automatic differentiation."""
    d = len(z)
    if isinstance(task, Quadratic):  # the perturbations average out
        return (sum(v**2 + v for v in z) + 1) / (10 * d)
    if isinstance(task, Ackley):  # Ackley (1987), a = 20, b = 0.2, c = 2 pi
        waves = torch.exp(torch.cos(2 * math.pi * z).sum() / d)
        return -20 * torch.exp(-0.2 * torch.sqrt((z**2).sum() / d)) - waves + 20 + math.e
    w = 1 + (z - 1) / 4  # Laguna & Marti (2005), here divided by d
    middle = sum((w[j] - 1) ** 2 * (1 + 10 * torch.sin(math.pi * w[j] + 1) ** 2) for j in range(d - 1))
    last = (w[-1] - 1) ** 2 * (1 + torch.sin(2 * math.pi * w[-1]) ** 2)
    return (torch.sin(math.pi * w[0]) ** 2 + middle + last) / d


def inside(task, n=1, seed=0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(*task.bounds, (n, task.dim))


def test_the_papers_quadratic_written_out():
    # f_i(z) = (1/(10 d)) (sum_j [(1 + C (a_ij - 1/N)) z_j^2 + (1 + C (b_ij - 1/N)) z_j] + 1)
    d, n, c = 6, 3, 5.0
    task = Quadratic(dim=d, clients=n, heterogeneity=c, seed=4)
    z = inside(task)[0]
    for i in range(n):
        total = 1.0
        for j in range(d):
            total += (1 + c * (task.a[i, j] - 1 / n)) * z[j] ** 2 + (1 + c * (task.b[i, j] - 1 / n)) * z[j]
        assert task.objectives[i](z[None, :])[0] == pytest.approx(total / (10 * d), rel=1e-12)


@pytest.mark.parametrize(("clients", "heterogeneity"), [(1, 0.5), (5, 50.0)])
@pytest.mark.parametrize("kind", EVERY)
def test_f_is_the_mean_of_the_clients_whatever_c_is(kind, clients, heterogeneity):
    # The clients' perturbations average out, so that F does not depend on C.
    task = kind(dim=8, clients=clients, heterogeneity=heterogeneity, seed=1)
    z = inside(task, n=5)
    mean = np.mean([f(z) for f in task.objectives], axis=0)
    expected = [float(literal(task, torch.as_tensor(row))) for row in z]
    scale = max(np.max(np.abs(f(z))) for f in task.objectives)
    np.testing.assert_allclose(mean, expected, rtol=1e-12, atol=1e-13 * scale)
    np.testing.assert_allclose([task.value(row) for row in z], expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dim", [1, 7])
@pytest.mark.parametrize("kind", EVERY)
def test_gradient_by_automatic_differentiation(kind, dim):
    task = kind(dim=dim, clients=2, seed=2)
    for z in inside(task, n=4, seed=dim):
        at = torch.tensor(z, requires_grad=True)
        literal(task, at).backward()
        np.testing.assert_allclose(task.gradient(z), at.grad.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", EVERY)
def test_the_clients_gradients_by_complex_step(kind):
    # Im f_i(z + i h e_j) / h is the derivative to rounding: the functions are analytic away from Ackley's kink. The
    # clients' gradients differ, and their mean is the gradient of F.
    task = kind(dim=5, clients=3, heterogeneity=5.0, seed=3)
    z, h = inside(task)[0], 1e-150
    gradients = [objective(z + 1j * h * np.eye(5)).imag / h for objective in task.objectives]
    assert np.min(np.std(gradients, axis=0)) > 0.0
    np.testing.assert_allclose(np.mean(gradients, axis=0), task.gradient(z), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dim", [1, 300])
def test_minimum_of_the_quadratic(dim):
    # -0.025 + 0.1/d at z = -1/2. By hand: each z_j^2 + z_j is at least -1/4, (-d/4 + 1) / (10 d).
    task = Quadratic(dim=dim)
    assert task.minimum == pytest.approx(-0.025 + 0.1 / dim, rel=1e-12)
    np.testing.assert_array_equal(task.minimizer, np.full(dim, -0.5))
    np.testing.assert_array_equal(task.gradient(task.minimizer), np.zeros(dim))


@pytest.mark.parametrize(("kind", "where"), [(Ackley, 0.0), (Levy, 1.0)])
@pytest.mark.parametrize("dim", [1, 300])
def test_minimum_of_ackley_and_levy(kind, where, dim):
    task = kind(dim=dim)
    np.testing.assert_array_equal(task.minimizer, np.full(dim, where))
    assert task.minimum == pytest.approx(0.0, abs=1e-14)
    np.testing.assert_allclose(task.gradient(task.minimizer), np.zeros(dim), atol=1e-15)


@pytest.mark.parametrize("kind", EVERY)
def test_the_shares_are_dirichlet(kind):
    # (a_ij)_i ~ Dirichlet(1/N, ..., 1/N) for each j: not negative, sum 1 over the clients, and with alpha_0 = 1 the
    # variance of a share is (1/N)(1 - 1/N) / 2; here 0.08 for N = 5, within 5 standard errors (a share is in [0, 1]).
    task = kind(dim=4000, clients=5, seed=6)
    for shares in (task.a, task.b):
        assert shares.shape == (5, 4000)
        assert shares.min() >= 0.0
        np.testing.assert_allclose(shares.sum(axis=0), 1.0, rtol=1e-12)
        np.testing.assert_allclose(shares.mean(axis=1), 0.2, atol=5 * math.sqrt(0.08 / 4000))
        assert np.mean((shares - 0.2) ** 2) == pytest.approx(0.08, abs=0.01)
    assert not np.array_equal(task.a, task.b)


@pytest.mark.parametrize("kind", EVERY)
def test_the_start_is_in_the_box_and_comes_from_the_seed(kind):
    # x_0 is uniform in the cube: mean 0 and variance (2 H)^2 / 12 = H^2 / 3.
    task, same, other = kind(dim=3000, seed=1), kind(dim=3000, seed=1), kind(dim=3000, seed=2)
    low, high = task.bounds
    assert np.all((task.x0 >= low) & (task.x0 <= high))
    assert abs(task.x0.mean()) < 5 * high / math.sqrt(3 * 3000)
    assert task.x0.var() == pytest.approx(high**2 / 3, rel=0.1)
    np.testing.assert_array_equal(task.x0, same.x0)
    np.testing.assert_array_equal(task.a, same.a)
    assert not np.array_equal(task.x0, other.x0)


def test_heterogeneity_drives_the_clients_apart():
    # f_i - F is proportional to C.
    z = inside(Levy(dim=4), n=3)
    small, large = (Levy(dim=4, clients=2, heterogeneity=c) for c in (1.0, 10.0))
    np.testing.assert_allclose(
        large.objectives[0](z) - large.base(z), 10 * (small.objectives[0](z) - small.base(z)), rtol=1e-9
    )
    assert np.all(small.objectives[0](z) != small.base(z))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"dim": 0}, ValueError, "dim must be at least 1"),
        ({"clients": 0}, ValueError, "clients must be at least 1"),
        ({"clients": 2.0}, TypeError, "clients must be an integer"),
        ({"heterogeneity": -1.0}, ValueError, "heterogeneity"),
        ({"heterogeneity": np.nan}, ValueError, "heterogeneity"),
        ({"seed": -1}, ValueError, "seed"),
        ({"noise": -0.1}, ValueError, "noise"),
    ],
)
def test_bad_settings_are_named(settings, error, message):
    with pytest.raises(error, match=message):
        Quadratic(**settings)


def test_the_names_on_the_command_line():
    assert {"quadratic": Quadratic, "ackley": Ackley, "levy": Levy} == TASKS
