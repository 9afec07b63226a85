"""The local surrogate: which points it uses, and that it extends its factor (SPEC: "Which points the GP uses")."""

from __future__ import annotations

import numpy as np
import pytest

from fzoos.objectives.trajectory import Trajectory
from fzoos.surrogates.gp import DerivedGP
from fzoos.surrogates.kernels import Matern52, SquaredExponential
from fzoos.surrogates.local import LocalSurrogate

KERNEL, NOISE = SquaredExponential(0.5), 1e-4


@pytest.fixture
def trajectory() -> Trajectory:
    return Trajectory(dim=3)


def add(trajectory: Trajectory, x: np.ndarray) -> None:
    trajectory.add(x, np.sin(4 * x).sum(axis=1))


def points(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(size=(n, 3))


def nearest(x: np.ndarray, at: np.ndarray, n: int) -> np.ndarray:
    return x[np.argsort(np.linalg.norm(x - at, axis=1), kind="stable")[:n]]


def assert_conditioned_on(gp: DerivedGP, x: np.ndarray, kernel=KERNEL) -> None:
    """gp equals a process that was built at once, directly from exactly these points."""
    fresh = DerivedGP(kernel, NOISE, 3)
    fresh.append(x, np.sin(4 * x).sum(axis=1))
    at = points(2, seed=99)
    assert len(gp) == len(x)
    np.testing.assert_allclose(gp.grad_mean(at[0]), fresh.grad_mean(at[0]), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(gp.grad_uncertainty(at), fresh.grad_uncertainty(at), rtol=1e-8, atol=1e-8)


def test_the_whole_trajectory_point_by_point(trajectory, device):
    """It equals a process that is built at once, and is the same one, with the same factor, extended."""
    surrogate = LocalSurrogate(trajectory, KERNEL, NOISE, points=None, device=device)
    gp = surrogate.at(np.full(3, 0.5))
    assert len(gp) == 0
    factor, x = gp.factor, points(60)
    for n in range(1, 61):
        add(trajectory, x[n - 1 : n])
        assert surrogate.at(x[n - 1]) is gp
        if n % 13 == 0:
            gp.grad_uncertainty(x[:2])
            gp.grad_mean(x[0])
    assert gp.factor is factor
    assert_conditioned_on(gp, x)


@pytest.mark.parametrize("kernel", [KERNEL, Matern52(0.5)])
def test_the_nearest_points(trajectory, kernel, device):
    """At each x exactly the n nearest are in use, wherever it was before: all different, some different, none."""
    surrogate = LocalSurrogate(trajectory, kernel, NOISE, points=7, device=device)
    x = points(40)
    add(trajectory, x)
    for at in np.concatenate([points(4, seed=5), 0.5 + 0.1 * points(6, seed=6)]):
        assert_conditioned_on(surrogate.at(at), nearest(x, at, 7), kernel)


def test_the_nearest_grow_up_to_their_number(trajectory, device):
    """Below n the factor is extended, at n points are swapped, and from 17 to 20 of 23 both happen in one step."""
    x, at = points(33), np.full(3, 0.5)
    surrogate = LocalSurrogate(trajectory, KERNEL, NOISE, points=20, device=device)
    factors = []
    for start, end in ((0, 12), (12, 17), (17, 23), (23, 33)):
        add(trajectory, x[start:end])
        gp = surrogate.at(at)
        assert_conditioned_on(gp, nearest(x[:end], at, 20))
        factors.append(gp.factor)
    assert factors[0] is factors[1]
    assert factors[1] is not factors[2]


def test_the_nearest_that_did_not_change_are_not_refitted(trajectory):
    # Ten points around 0.2 and ten around 0.8: any x near 0.2 has the same nearest ten.
    near, far = 0.2 + 0.01 * points(10), 0.8 + 0.01 * points(10)
    add(trajectory, near)
    add(trajectory, far)
    surrogate = LocalSurrogate(trajectory, KERNEL, NOISE, points=10)
    factor = surrogate.at(np.full(3, 0.2)).factor
    assert surrogate.at(np.full(3, 0.21)).factor is factor
    assert_conditioned_on(surrogate.at(np.full(3, 0.21)), near)
    assert surrogate.at(np.full(3, 0.8)).factor is not factor
    assert_conditioned_on(surrogate.at(np.full(3, 0.8)), far)


def test_released_it_is_the_same(trajectory, device):
    surrogate = LocalSurrogate(trajectory, KERNEL, NOISE, points=8, device=device)
    x, at = points(30), np.full(3, 0.5)
    add(trajectory, x)
    surrogate.at(at)
    surrogate.release()
    assert_conditioned_on(surrogate.at(at), nearest(x, at, 8))


@pytest.mark.parametrize("limit", [None, 8])
def test_observations_that_change(limit, device):
    """With constraints, y is f and a penalty, whose multipliers change: the new observations are used."""

    trajectory = Trajectory(dim=3)
    surrogate = LocalSurrogate(trajectory, KERNEL, NOISE, limit, device)
    x, at = points(20), np.full(3, 0.5)
    queried = np.concatenate([at[None], x])
    table = np.column_stack([queried.sum(axis=1), 1.0 + queried[:, :1] ** 2])  # f and c <= 0, violated everywhere
    trajectory.add(queried, table, at_server_x=True)
    before, version = surrogate.at(at).grad_mean(at), trajectory.version
    trajectory.lagrangian.multipliers, trajectory.lagrangian.penalties = np.array([5.0]), np.array([10.0])
    trajectory.observe_again()
    assert trajectory.version == version + 1
    gp = surrogate.at(at)
    index = trajectory.nearest(at, limit)
    fresh = DerivedGP(KERNEL, NOISE, 3)
    fresh.append(trajectory.x[index], trajectory.y[index])
    np.testing.assert_allclose(gp.grad_mean(at), fresh.grad_mean(at), rtol=1e-7)
    assert np.linalg.norm(gp.grad_mean(at) - before) > 0.1 * np.linalg.norm(before)


def test_without_noise_equal_points_are_told_apart_by_the_least_noise(trajectory):
    """sigma^2 = 0 is 1e-12: without it the factor would need jitter."""
    surrogate = LocalSurrogate(trajectory, KERNEL, 0.0, points=None)
    add(trajectory, np.repeat(points(3), 2, axis=0))
    gp = surrogate.at(np.full(3, 0.5))
    assert gp.noise == 1e-12
    assert np.all(np.isfinite(gp.grad_mean(np.full(3, 0.5))))
