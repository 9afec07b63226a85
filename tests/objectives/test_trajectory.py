"""Points and values of a client, in the order of its queries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fzoos.objectives.trajectory import Trajectory


def of(points) -> Trajectory:
    """A trajectory of these points."""
    trajectory, x = Trajectory(np.shape(points)[-1]), np.array(points, dtype=float)
    trajectory.add(x, x.sum(axis=1))
    return trajectory


def test_points_and_values_are_stored_in_their_order():
    trajectory = of([[0.5, 0.25], [0.0, 1.0]])
    np.testing.assert_array_equal(trajectory.add(np.array([[0.25, 0.25]]), np.array([0.5])), [0.5])
    np.testing.assert_array_equal(trajectory.x, [[0.5, 0.25], [0.0, 1.0], [0.25, 0.25]])
    np.testing.assert_array_equal(trajectory.y, [0.75, 1.0, 0.5])


def test_failed_points_are_left_out():
    trajectory, x = Trajectory(2), np.array([[0.1, 0.0], [0.6, 0.5], [0.2, 0.1]])
    np.testing.assert_array_equal(trajectory.add(x, np.array([1.0, np.nan, 3.0])), [1.0, np.nan, 3.0])
    np.testing.assert_array_equal(trajectory.x, x[[0, 2]])
    np.testing.assert_array_equal(trajectory.y, [1.0, 3.0])
    trajectory.add(x, np.full(3, np.nan))
    assert len(trajectory) == 2


def test_nothing_is_stored_where_it_is_not_needed():
    trajectory = Trajectory(2, stores=False)
    np.testing.assert_array_equal(trajectory.add(np.zeros((3, 2)), np.ones(3)), np.ones(3))
    assert (len(trajectory), trajectory.x.shape, trajectory.y.shape) == (0, (0, 2), (0,))


@pytest.mark.parametrize("constrained", [False, True])
def test_a_trajectory_continues_from_its_state(constrained):
    """Points, values, multipliers: what is added later, and what is nearest, is the same bit for bit."""
    rng = np.random.default_rng(0)
    x, table = rng.random((30, 3)), rng.random((30, 3))
    values = table if constrained else table[:, 0]
    first, second = Trajectory(3), Trajectory(3)
    for start in (0, 10):
        first.add(x[start : start + 10], values[start : start + 10], at_server_x=True)
        if constrained:
            first.lagrangian.at_server_x = None
    second.restore(first.state())
    for trajectory in (first, second):
        trajectory.add(x[20:], values[20:], at_server_x=True)
    assert first.version == second.version == (2 if constrained else 0)
    for name in ("x", "y", "table") if constrained else ("x", "y"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    np.testing.assert_array_equal(first.nearest(x[3], 7), second.nearest(x[3], 7))
    assert first.violation == second.violation == (table[20, 1:].max() if constrained else None)


@given(st.integers(1, 40), st.integers(1, 45), st.integers(0, 1000))
def test_nearest_against_a_full_sort(n, count, seed):
    rng = np.random.default_rng(seed)
    t = of(rng.uniform(size=(n, 2)))
    x = rng.uniform(size=2)
    expected = np.sort(np.argsort(np.linalg.norm(t.x - x, axis=1))[:count])
    np.testing.assert_array_equal(t.nearest(x, count), expected)
    np.testing.assert_array_equal(t.nearest(x, None), np.arange(n))


def test_nearest_of_points_at_the_same_distance():
    """Distances 1/4, 0, 1/4, 1/2, 1/4, 1/4 to the centre: the earlier of those at 1/4."""
    t = of([[0.25, 0.5], [0.5, 0.5], [0.5, 0.75], [0.5, 1.0], [0.25, 0.5], [0.5, 0.25]])
    for count, expected in ((1, [1]), (2, [0, 1]), (3, [0, 1, 2]), (4, [0, 1, 2, 4]), (5, [0, 1, 2, 4, 5])):
        assert t.nearest(np.full(2, 0.5), count).tolist() == expected


@pytest.mark.parametrize("dim", [1, 400])
@pytest.mark.parametrize("step", [1, 2, 7, 600])
def test_rough_distances(dim, step):
    """To a few digits less than the differences' own sums of squares, side by side and here and there."""
    rng = np.random.default_rng(0)
    x = rng.random(dim)
    trajectory = of(np.vstack([rng.random((1500, dim)), x + 1e-6 * rng.standard_normal((50, dim))]).clip(0, 1))
    numbers = np.arange(7, 1550, step)
    found, error = trajectory.rough_distances(x, numbers)
    assert error < 1e-9
    np.testing.assert_allclose(found, np.sum((trajectory.x[numbers] - x) ** 2, axis=1), atol=error, rtol=0)
