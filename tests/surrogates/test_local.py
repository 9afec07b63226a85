"""The local surrogate: which points it uses, and that it extends rather than rebuilds (SPEC: "Which points")."""

from __future__ import annotations

import numpy as np
import pytest

from fzoos._util.arrays import to_device, to_numpy
from fzoos.objectives.box import Box
from fzoos.objectives.trajectory import Trajectory
from fzoos.surrogates import gp as gp_module
from fzoos.surrogates import local as local_module
from fzoos.surrogates.gp import DerivedGP
from fzoos.surrogates.kernels import Matern52, SquaredExponential
from fzoos.surrogates.local import LocalSurrogate, LocalSurrogates

KERNEL, NOISE = SquaredExponential(0.5), 1e-4


@pytest.fixture
def trajectory() -> Trajectory:
    return Trajectory(lambda x: np.sin(4 * x).sum(axis=1), Box.of((0, 1), dim=3), vectorized=True)


def points(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(size=(n, 3))


def assert_conditioned_on(gp: DerivedGP, x: np.ndarray, kernel=KERNEL) -> None:
    """gp equals a fresh process on exactly these points."""
    fresh = DerivedGP(kernel, NOISE, 3)
    fresh.append(x, np.sin(4 * x).sum(axis=1))
    at = points(2, seed=99)
    assert len(gp) == len(x)
    np.testing.assert_allclose(gp.grad_mean(at[0]), fresh.grad_mean(at[0]), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(gp.grad_uncertainty(at), fresh.grad_uncertainty(at), rtol=1e-8, atol=1e-8)


def test_all_points_extend_the_same_process(trajectory, device):
    # "For `all`, extend the Cholesky factor as points arrive, never refactor from scratch": the object stays.
    surrogate = LocalSurrogate(trajectory, KERNEL, NOISE, points=None, device=device)
    x = points(30)
    gp = surrogate.at(np.full(3, 0.5))
    assert len(gp) == 0
    factor = gp.factor
    for end, start in ((10, 0), (11, 10), (30, 11)):
        trajectory.query(x[start:end])
        assert surrogate.at(x[start]) is gp
        assert gp.factor is factor
        assert_conditioned_on(gp, x[:end])


def test_nearest_points(trajectory, device):
    surrogate = LocalSurrogate(trajectory, Matern52(0.5), NOISE, points=7, device=device)
    x = points(40)
    trajectory.query(x)
    for at in points(4, seed=5):
        nearest = np.argsort(np.linalg.norm(x - at, axis=1))[:7]
        assert_conditioned_on(surrogate.at(at), x[nearest], Matern52(0.5))


def test_nearest_extends_until_it_is_full(trajectory):
    surrogate = LocalSurrogate(trajectory, KERNEL, NOISE, points=20)
    x = points(30)
    trajectory.query(x[:12])
    gp = surrogate.at(x[0])
    trajectory.query(x[12:20])
    assert surrogate.at(x[1]) is gp
    assert_conditioned_on(gp, x[:20])
    trajectory.query(x[20:])
    at = np.full(3, 0.5)
    assert surrogate.at(at) is not gp
    assert_conditioned_on(surrogate.at(at), x[np.argsort(np.linalg.norm(x - at, axis=1))[:20]])


def test_nearest_that_did_not_change_are_kept(trajectory):
    # Ten points around 0.2 and ten around 0.8: any x near 0.2 has the same nearest ten.
    near, far = 0.2 + 0.01 * points(10), 0.8 + 0.01 * points(10)
    trajectory.query(near)
    trajectory.query(far)
    surrogate = LocalSurrogate(trajectory, KERNEL, NOISE, points=10)
    gp = surrogate.at(np.full(3, 0.2))
    assert surrogate.at(np.full(3, 0.21)) is gp
    assert_conditioned_on(gp, near)
    assert surrogate.at(np.full(3, 0.8)) is not gp
    assert_conditioned_on(surrogate.at(np.full(3, 0.8)), far)


def test_new_queries_join_while_x_stays(trajectory):
    # Active queries around x come one after another: they are added to the points chosen at x, and when x moves the
    # nearest are chosen again.
    x = points(30)
    trajectory.query(x)
    surrogate = LocalSurrogate(trajectory, KERNEL, NOISE, points=8)
    at = np.full(3, 0.5)
    gp = surrogate.at(at)
    chosen = np.sort(np.argsort(np.linalg.norm(x - at, axis=1))[:8])
    new = at + 0.01 * points(4, seed=3)
    trajectory.query(new)
    assert surrogate.at(at.copy()) is gp
    assert_conditioned_on(gp, np.concatenate([x[chosen], new]))
    moved = at + 0.02
    everything = np.concatenate([x, new])
    nearest = np.argsort(np.linalg.norm(everything - moved, axis=1))[:8]
    assert_conditioned_on(surrogate.at(moved), everything[nearest])


def test_x_is_not_held_by_reference(trajectory):
    # An x that is moved in place has moved.
    x = points(30)
    trajectory.query(x)
    surrogate = LocalSurrogate(trajectory, KERNEL, NOISE, points=8)
    at = np.full(3, 0.1)
    surrogate.at(at)
    at += 0.8
    assert_conditioned_on(surrogate.at(at), x[np.argsort(np.linalg.norm(x - at, axis=1))[:8]])


def test_what_is_no_longer_nearest_stays_for_a_while(trajectory):
    """The nearest 100 are always in use, never more than 105, and the factor is not made anew at every step."""
    surrogate, x = LocalSurrogate(trajectory, KERNEL, NOISE, points=100), np.full(3, 0.2)
    trajectory.query(points(300))
    made, last = 0, None
    for step in range(40):
        x = x + 0.002
        gp = surrogate.at(x)
        made, last = made + (gp is not last), gp
        assert set(trajectory.nearest(x, 100)) <= set(surrogate._in_use)
        assert len(gp) == len(set(surrogate._in_use)) <= 105
        assert_conditioned_on(gp, trajectory.x[surrogate._in_use])
        trajectory.query(x[None] + 0.001 * points(1, seed=step))
    assert 1 < made < 20


def clients(counts: list[int]) -> list[Trajectory]:
    """Each with its own function and points, as many as it has."""
    made = [
        Trajectory(lambda x, a=a: np.sin(a * x).sum(axis=1), Box.of((0, 1), dim=3), vectorized=True)
        for a in range(1, len(counts) + 1)
    ]
    for i, (trajectory, count) in enumerate(zip(made, counts, strict=True)):
        trajectory.query(points(count, seed=i))
    return made


def assert_as_alone(
    several: LocalSurrogates, alone: list[LocalSurrogate], x: np.ndarray, device, latest: np.ndarray | None = None
) -> None:
    several.condition(x, latest if latest is None else to_device(latest, device))
    at = np.stack([points(4, seed=50 + i) for i in range(len(x))])
    gradients = to_numpy(several.grad_mean(to_device(x, device)))
    traces = to_numpy(several.grad_uncertainty(to_device(at, device)))
    for i, surrogate in enumerate(alone):
        gp = surrogate.at(x[i])
        np.testing.assert_allclose(gradients[i], gp.grad_mean(x[i]), rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(traces[i], gp.grad_uncertainty(at[i]), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("limit", [None, 9])
def test_several_at_once_are_what_each_is_alone(limit, device) -> None:
    """Also where one gets fewer points than the others, where the nearest are other ones, and after they part."""
    given = clients([8, 8, 8, 5])
    ours, alone = ([LocalSurrogate(t, KERNEL, NOISE, limit, device) for t in given] for _ in range(2))
    several = LocalSurrogates(ours)
    for step, counts in enumerate([(2, 2, 2, 2), (3, 3, 1, 3), (0, 0, 0, 0), (2, 2, 4, 0)]):
        for i, count in enumerate(counts):
            given[i].query(points(count, seed=100 * step + i))
        assert_as_alone(several, alone, points(4, seed=7 * step), device)
    several.close()
    for i, surrogate in enumerate(ours):
        x = points(1, seed=i)[0]
        np.testing.assert_allclose(surrogate.at(x).grad_mean(x), alone[i].at(x).grad_mean(x), rtol=1e-8, atol=1e-8)
    assert_as_alone(LocalSurrogates(ours), alone, points(4, seed=3), device)


@pytest.mark.parametrize("counts", [(8, 8, 8), (8, 5, 8)], ids=["one group", "two groups"])
@pytest.mark.parametrize("limit", [None, 9])
def test_points_that_are_on_the_device_already_are_used_where_they_are_due(limit, counts, device) -> None:
    """Of one client a query failed, so that its points are fewer; where 9 are used, not all of the latest are near."""
    given = clients(list(counts))
    ours, alone = ([LocalSurrogate(t, KERNEL, NOISE, limit, device) for t in given] for _ in range(2))
    several = LocalSurrogates(ours)
    assert_as_alone(several, alone, points(3), device)
    for step, lost in enumerate([0, 0, 1]):
        new = np.stack([points(2, seed=100 * step + i) for i in range(3)])
        for i, trajectory in enumerate(given):
            trajectory.query(new[i, : 2 - (lost if i == 1 else 0)])
        assert_as_alone(several, alone, points(3, seed=7 * step), device, new)


def test_points_on_the_device_are_not_copied_there_again(monkeypatch) -> None:
    given = clients([8, 8])
    several = LocalSurrogates([LocalSurrogate(t, KERNEL, NOISE, None) for t in given])
    several.condition(points(2))
    new = np.stack([points(2, seed=i) for i in range(2)])
    for trajectory, own in zip(given, new, strict=True):
        trajectory.query(own)
    monkeypatch.setattr(local_module, "stack_for_device", None)
    several.condition(points(2), new)
    with pytest.raises(TypeError):
        LocalSurrogates([LocalSurrogate(t, KERNEL, NOISE, None) for t in given]).condition(points(2), new)


def test_alike_ones_are_one_operation(monkeypatch, device) -> None:
    """Three with five points and two with four: two products in place of five."""
    shapes: list[tuple[int, ...]] = []
    compute = gp_module._grad_mean

    def counted(points, *rest):
        shapes.append(tuple(points.shape))
        return compute(points, *rest)

    monkeypatch.setattr(gp_module, "_grad_mean", counted)
    several = LocalSurrogates([LocalSurrogate(t, KERNEL, NOISE, None, device) for t in clients([5, 4, 5, 4, 5])])
    several.condition(points(5))
    several.grad_mean(to_device(points(5), device))
    assert shapes == [(3, 5, 3), (2, 4, 3)]
