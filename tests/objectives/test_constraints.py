"""The augmented Lagrangian of a client, and what an objective with constraints may return."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from fzoos.objectives.box import Box
from fzoos.objectives.constraints import Merit, join_values, read_values
from fzoos.objectives.trajectory import Trajectory


def merit_of(multipliers, penalties):
    merit = Merit(len(multipliers))
    merit.multipliers, merit.penalties = np.array(multipliers, float), np.array(penalties, float)
    return merit


def test_the_merit_is_the_maximum_over_multipliers_of_a_proximal_lagrangian():
    # Rockafellar 1973: psi(c) = max over mu >= 0 of mu c - (mu - lambda)^2 / (2 rho), here by brute force.
    merit = merit_of([2.0, 0.5], [10.0, 3.0])
    mu = np.linspace(0.0, 60.0, 600_001)
    for c in ([0.3, -0.4], [-0.1, 2.0], [-5.0, -0.1]):
        expected = 1.5
        for j in range(2):
            expected += np.max(mu * c[j] - (mu - merit.multipliers[j]) ** 2 / (2.0 * merit.penalties[j]))
        assert merit.values(np.array([[1.5, *c]]))[0] == pytest.approx(expected, abs=1e-8)


def test_slopes_are_the_derivatives_of_the_terms():
    merit, h = merit_of([2.0, 0.5], [10.0, 3.0]), 1e-6
    for c in (np.array([0.3, -0.4]), np.array([-0.1, 2.0]), np.array([-5.0, -0.1])):
        numeric = (merit.terms(c + h) - merit.terms(c - h)) / (2.0 * h)
        assert merit.slopes(c) == pytest.approx(numeric, abs=1e-6)


def test_a_constraint_without_a_penalty_is_not_heard():
    assert Merit(2).values(np.array([[1.0, 5.0, 7.0]])) == pytest.approx([1.0])


def test_renewed_multipliers_become_those_of_the_kkt_conditions():
    # Hock and Schittkowski 76 is a convex quadratic; each "round" here minimises the merit exactly.
    H = np.array([[2.0, 0, -1, 0], [0, 1, 0, 0], [-1, 0, 2, 1], [0, 0, 1, 1]])
    g, x0 = np.array([-1.0, -3, 1, -1]), np.full(4, 0.5)
    A, b = np.array([[1.0, 2, 1, 1], [3, 1, 2, -1], [0, -1, -4, 0]]), np.array([5.0, 4, -1.5])

    def f(x):
        return 0.5 * x @ H @ x + g @ x

    def c(x):
        return A @ x - b

    reference = scipy.optimize.minimize(
        f, x0, bounds=[(0, None)] * 4, constraints={"type": "ineq", "fun": lambda x: -c(x)}, tol=1e-12
    )
    active = c(reference.x) > -1e-6
    free = reference.x > 1e-6
    multipliers = np.zeros(3)
    solved = np.linalg.lstsq(A[active][:, free].T, -(H @ reference.x + g)[free], rcond=None)
    multipliers[active] = solved[0]

    merit = Merit(3)
    points = x0 + 0.1 * np.random.default_rng(0).standard_normal((20, 4))
    merit.see(points, np.array([[f(x), *c(x)] for x in points]))
    x = x0
    for _ in range(60):
        merit.renew(c(x))
        x = scipy.optimize.minimize(
            lambda x: merit.values(np.array([[f(x), *c(x)]]))[0], x, bounds=[(0, None)] * 4, tol=1e-14
        ).x
    assert x == pytest.approx(reference.x, abs=1e-3)
    assert merit.multipliers == pytest.approx(multipliers, abs=5e-3)


def test_penalties_are_those_of_the_slopes_of_a_linear_problem():
    # |grad F| / (0.1 |grad c|^2), for f = 3 u_1 and c = 5 u_2: 3 / (0.1 * 25) = 1.2.
    u = np.random.default_rng(0).standard_normal((20_000, 2))
    merit = Merit(1)
    merit.see(u, np.stack([3.0 * u[:, 0], 5.0 * u[:, 1]], axis=1))
    assert merit.begin()
    assert merit.penalties == pytest.approx([1.2], rel=0.05)
    assert not merit.begin()  # they are chosen once


def test_penalties_grow_to_a_limit():
    u = np.random.default_rng(0).standard_normal((50, 2))
    merit = Merit(2)
    merit.see(u, np.stack([u[:, 0], u[:, 1], 2.0 * u[:, 1]], axis=1))
    merit.begin()
    first = merit.penalties
    for _ in range(10):
        merit.stiffen(np.array([True, False]), most=100.0)
    assert merit.penalties == pytest.approx(first * [100.0, 1.0])
    merit.relax()
    assert merit.penalties == pytest.approx(first * [25.0, 1.0])


@pytest.mark.parametrize(
    ("value", "shape", "vectorized", "expected"),
    [
        ((2.0, -1.0), (1, 3), False, [[2.0, -1.0]]),
        ((2.0, [0.0, -1.0]), (1, 3), False, [[2.0, 0.0, -1.0]]),
        ((np.array([1.0, 2.0, 3.0]), np.ones((3, 2))), (3, 1), True, [[1, 1, 1], [2, 1, 1], [3, 1, 1]]),
        ((np.array([1.0, 2.0, 3.0]), np.arange(3.0)), (3, 1), True, [[1, 0], [2, 1], [3, 2]]),
        (((1.0, 2.0)), (2, 1), True, [1.0, 2.0]),  # a batch of two values, as before
        (4.0, (1, 3), False, [4.0]),
    ],
)
def test_what_an_objective_may_return(value, shape, vectorized, expected):
    assert np.array_equal(read_values(value, shape, vectorized, "objective"), np.array(expected))


@pytest.mark.parametrize("value", [(1.0, []), (1.0, None), (1.0, "far"), ([1.0, 2.0], 0.0), [1.0, 2.0]])
def test_what_it_may_not(value):
    with pytest.raises((ValueError, TypeError), match="the objective must return"):
        read_values(value, (1, 3), False, "objective")


def test_a_batch_needs_a_row_of_constraints_for_each_point():
    with pytest.raises(ValueError, match=r"constraints of shape \(3, k\)"):
        read_values((np.zeros(3), np.zeros((2, 3))), (3, 1), True, "objective")


def test_values_of_batches_that_failed_before_constraints_were_known():
    joined = join_values([np.array([np.nan]), np.array([[1.0, 2.0]])])
    assert np.array_equal(joined, [[np.nan, np.nan], [1.0, 2.0]], equal_nan=True)
    with pytest.raises(ValueError, match="as many constraints at every point"):
        join_values([np.array([1.0]), np.array([[1.0, 2.0]])])


def trajectory_of(objective, **changes):
    return Trajectory(objective, Box.of((0, 1), dim=2), **changes)


def test_past_observations_follow_the_multipliers():
    trajectory = trajectory_of(lambda u: (float(u.sum()), u[0] - 0.5))
    u = np.array([[0.25, 0.5], [0.75, 0.25]])
    assert trajectory.query(u) == pytest.approx([0.75, 1.0])  # no penalty yet
    trajectory.merit.multipliers, trajectory.merit.penalties = np.array([1.0]), np.array([4.0])
    before = trajectory.version
    trajectory.observe_again()
    assert trajectory.version == before + 1
    assert trajectory.y == pytest.approx([0.75 - 1 / 8, 1.0 + (2.0**2 - 1.0) / 8])
    assert trajectory.table == pytest.approx(np.array([[0.75, -0.25], [1.0, 0.25]]))


def test_the_violation_is_that_at_the_servers_x():
    trajectory = trajectory_of(lambda u: (0.0, [u[0] - 0.5, u[1] - 0.9]))
    assert not trajectory.begin_round(np.array([0.75, 0.5]))  # nobody knows of constraints yet
    trajectory.query(np.array([[0.9, 0.9]]))
    assert trajectory.violation is None
    trajectory.query(np.array([[0.1, 0.1], [0.75, 0.5]]))
    assert trajectory.violation == pytest.approx(0.25)
    assert trajectory.begin_round(np.array([0.1, 0.1]))
    assert trajectory.violation is None


@pytest.mark.parametrize("bad", [(np.nan, 0.0), (1.0, np.nan), (1.0, [0.0, np.inf][1])])
def test_a_point_without_all_of_its_values_has_failed(bad):
    trajectory = trajectory_of(lambda u: bad if u[0] > 0.5 else (1.0, -1.0), on_failure="skip")
    y = trajectory.query(np.array([[0.25, 0.0], [0.75, 0.0]]))
    assert np.array_equal(y, [1.0, np.nan], equal_nan=True)
    assert (trajectory.failed, len(trajectory), len(trajectory.table)) == (1, 1, 1)


def test_an_objective_returns_constraints_always_or_never():
    answers = iter([(1.0, 0.0), 1.0])
    trajectory = trajectory_of(lambda u: next(answers))
    trajectory.query(np.zeros((1, 2)))
    with pytest.raises(ValueError, match="must return f and 1 constraint, as it did before, got f alone"):
        trajectory.query(np.zeros((1, 2)))
    answers = iter([1.0, (1.0, 0.0)])
    trajectory = trajectory_of(lambda u: next(answers))
    trajectory.query(np.zeros((1, 2)))
    with pytest.raises(ValueError, match="must return f alone, as it did before, got f and 1 constraint"):
        trajectory.query(np.zeros((1, 2)))
    answers = iter([(1.0, 0.0), (1.0, [0.0, 0.0])])
    trajectory = trajectory_of(lambda u: next(answers))
    trajectory.query(np.zeros((1, 2)))
    with pytest.raises(ValueError, match="must return f and 1 constraint, as it did before, got f and 2"):
        trajectory.query(np.zeros((1, 2)))
