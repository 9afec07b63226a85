"""The augmented Lagrangian of a client, and what an objective with constraints may return."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from fzoos.objectives.box import Box
from fzoos.objectives.constraints import AugmentedLagrangian
from fzoos.objectives.evaluator import Evaluator
from fzoos.objectives.trajectory import Trajectory
from fzoos.objectives.values import join_values, read_values


def lagrangian_of(multipliers, penalties):
    lagrangian = AugmentedLagrangian(len(multipliers))
    lagrangian.multipliers, lagrangian.penalties = np.array(multipliers, float), np.array(penalties, float)
    return lagrangian


def test_it_is_the_maximum_over_multipliers_of_a_proximal_lagrangian():
    # Rockafellar 1973: psi(c) = max over mu >= 0 of mu c - (mu - lambda)^2 / (2 rho), here by brute force.
    lagrangian = lagrangian_of([2.0, 0.5], [10.0, 3.0])
    mu = np.linspace(0.0, 60.0, 600_001)
    for c in ([0.3, -0.4], [-0.1, 2.0], [-5.0, -0.1]):
        expected = 1.5
        for j in range(2):
            expected += np.max(mu * c[j] - (mu - lagrangian.multipliers[j]) ** 2 / (2.0 * lagrangian.penalties[j]))
        assert lagrangian.values(np.array([[1.5, *c]]))[0] == pytest.approx(expected, abs=1e-8)


def test_slopes_are_the_derivatives_of_the_terms():
    lagrangian, h = lagrangian_of([2.0, 0.5], [10.0, 3.0]), 1e-6
    for c in (np.array([0.3, -0.4]), np.array([-0.1, 2.0]), np.array([-5.0, -0.1])):
        numeric = (lagrangian.terms(c + h) - lagrangian.terms(c - h)) / (2.0 * h)
        assert lagrangian.slopes(c) == pytest.approx(numeric, abs=1e-6)


def test_a_constraint_without_a_penalty_has_no_effect():
    assert AugmentedLagrangian(2).values(np.array([[1.0, 5.0, 7.0]])) == pytest.approx([1.0])


def test_updated_multipliers_become_those_of_the_kkt_conditions():
    # Hock and Schittkowski 76 is a convex quadratic; each "round" here minimises it exactly.
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

    lagrangian = AugmentedLagrangian(3)
    points = x0 + 0.1 * np.random.default_rng(0).standard_normal((20, 4))
    lagrangian.observe(points, np.array([[f(x), *c(x)] for x in points]))
    x = x0
    for _ in range(60):
        lagrangian.update(c(x))
        x = scipy.optimize.minimize(
            lambda x: lagrangian.values(np.array([[f(x), *c(x)]]))[0], x, bounds=[(0, None)] * 4, tol=1e-14
        ).x
    assert x == pytest.approx(reference.x, abs=1e-3)
    assert lagrangian.multipliers == pytest.approx(multipliers, abs=5e-3)


def test_penalties_are_those_of_the_slopes_of_a_linear_problem():
    # |grad F| / (0.1 |grad c|^2), for f = 3 u_1 and c = 5 u_2: 3 / (0.1 * 25) = 1.2.
    u = np.random.default_rng(0).standard_normal((20_000, 2))
    lagrangian = AugmentedLagrangian(1)
    lagrangian.observe(u, np.stack([3.0 * u[:, 0], 5.0 * u[:, 1]], axis=1))
    assert lagrangian.choose_penalties()
    assert lagrangian.penalties == pytest.approx([1.2], rel=0.05)
    assert not lagrangian.choose_penalties()  # they are chosen once


def test_penalties_grow_to_a_limit():
    u = np.random.default_rng(0).standard_normal((50, 2))
    lagrangian = AugmentedLagrangian(2)
    lagrangian.observe(u, np.stack([u[:, 0], u[:, 1], 2.0 * u[:, 1]], axis=1))
    lagrangian.choose_penalties()
    first = lagrangian.penalties
    for _ in range(10):
        lagrangian.raise_penalties(np.array([True, False]), most=100.0)
    assert lagrangian.penalties == pytest.approx(first * [100.0, 1.0])
    lagrangian.lower_penalties()
    assert lagrangian.penalties == pytest.approx(first * [25.0, 1.0])


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
    with pytest.raises(ValueError, match="the same number of constraints at every point"):
        join_values([np.array([1.0]), np.array([[1.0, 2.0]])])


def test_past_observations_follow_the_multipliers():
    trajectory, u = Trajectory(2), np.array([[0.25, 0.5], [0.75, 0.25]])
    table = np.array([[0.75, -0.25], [1.0, 0.25]])
    assert trajectory.add(u, table) == pytest.approx([0.75, 1.0])  # no penalty yet
    trajectory.lagrangian.multipliers, trajectory.lagrangian.penalties = np.array([1.0]), np.array([4.0])
    before = trajectory.version
    trajectory.observe_again()
    assert trajectory.version == before + 1
    assert trajectory.y == pytest.approx([0.75 - 1 / 8, 1.0 + (2.0**2 - 1.0) / 8])
    assert trajectory.table == pytest.approx(table)


def test_the_violation_is_that_at_the_servers_x():
    trajectory, points = Trajectory(2), np.array([[0.75, 0.5], [0.9, 0.9]])
    trajectory.add(points, np.array([[0.0, 0.5, 1.0], [0.0, -1.0, 0.125]]))
    assert trajectory.violation is None  # none of these is the server's x
    trajectory.add(points, np.array([[0.0, 0.25, -0.5], [0.0, 7.0, 7.0]]), at_server_x=True)
    assert trajectory.violation == 0.25  # the first point's
    trajectory.add(points, np.full((2, 3), 0.5), at_server_x=True)
    assert trajectory.violation == 0.25  # of a round the first query counts
    trajectory.lagrangian.at_server_x = None
    trajectory.add(points, np.array([[np.nan] * 3, [0.0, 0.0, 0.0]]), at_server_x=True)
    assert trajectory.violation == np.inf


@pytest.mark.parametrize("bad", [(np.nan, 0.0), (1.0, np.nan), (1.0, [0.0, np.inf][1])])
def test_a_point_without_all_of_its_values_has_failed(bad):
    evaluator = Evaluator(lambda u: bad if u[0] > 0.5 else (1.0, -1.0), Box.of((0, 1), dim=2), on_failure="skip")
    x, values = evaluator.evaluate(np.array([[0.25, 0.0], [0.75, 0.0]]))
    assert np.array_equal(values, [[1.0, -1.0], [np.nan, np.nan]], equal_nan=True)
    trajectory = Trajectory(2)
    assert np.array_equal(trajectory.add(x, values), [1.0, np.nan], equal_nan=True)
    assert (evaluator.failed, len(trajectory), len(trajectory.table)) == (1, 1, 1)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([(1.0, 0.0), 1.0], "must return f and 1 constraint, as before .*, got f alone"),
        ([1.0, (1.0, 0.0)], "must return f alone, as before .*, got f and 1 constraint"),
        ([(1.0, 0.0), (1.0, [0.0, 0.0])], "must return f and 1 constraint, as before .*, got f and 2"),
    ],
)
def test_an_objective_returns_constraints_always_or_never(returned, message):
    values = iter(returned)
    evaluator = Evaluator(lambda u: next(values), Box.of((0, 1), dim=2))
    evaluator.evaluate(np.zeros((1, 2)))
    with pytest.raises(ValueError, match=message):
        evaluator.evaluate(np.zeros((1, 2)))


def test_the_state_of_an_augmented_lagrangian():
    """A copy made of its state goes through the same updates; before penalties are chosen it has the queries, too."""
    u = np.random.default_rng(0).standard_normal((20, 2))
    table = np.stack([u[:, 0], u[:, 1] + 0.5], axis=1)
    first = AugmentedLagrangian(1)
    first.observe(u[:12], table[:12])
    for step in range(5):
        second = AugmentedLagrangian(1)
        second.restore(first.state())
        for lagrangian in (first, second):
            lagrangian.observe(u[12:], table[12:])
            lagrangian.observe_server_x(np.array([0.0, 0.7 - 0.05 * step]))
        assert second.violation == first.violation == pytest.approx(0.7 - 0.05 * step)
        assert np.array_equal(second.values(table), first.values(table))
        assert np.array_equal(second.penalties, first.penalties)
    assert first.multipliers[0] > 0.0
