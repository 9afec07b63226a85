"""Queries are made, counted and kept in one place (SPEC: "Trajectory"; DESIGN: "counted once, in one place")."""

from __future__ import annotations

import re
from concurrent.futures import CancelledError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fzoos import ObjectiveError
from fzoos.objectives.box import Box
from fzoos.objectives.trajectory import Trajectory
from fzoos.result import NotAsked


class Counting:
    """An objective that counts its own evaluations and remembers the points."""

    def __init__(self, function=lambda x: float(x.sum())):
        self.function, self.points = function, []

    def __call__(self, x):
        self.points.append(x.copy())
        return self.function(x)


def trajectory(objective, *, vectorized=False, dim=2, bounds=(0, 10), **settings) -> Trajectory:
    return Trajectory(objective, Box.of(bounds, dim), vectorized=vectorized, **settings)


@given(st.lists(st.integers(0, 5), max_size=12))
def test_every_evaluation_is_counted_once(batches):
    objective = Counting()
    t = trajectory(objective)
    rng = np.random.default_rng(0)
    asked = [rng.uniform(size=(n, 2)) for n in batches]
    for x in asked:
        y = t.query(x)
        np.testing.assert_allclose(y, 10 * x.sum(axis=1), rtol=1e-14)
    total = np.concatenate([np.empty((0, 2)), *asked])
    assert t.count == len(t) == len(objective.points) == sum(batches)
    assert t.failed == 0
    np.testing.assert_array_equal(t.x, total)  # in the cube, in the order of the queries
    np.testing.assert_allclose(t.y, 10 * total.sum(axis=1), rtol=1e-14)


def test_the_objective_sees_the_users_coordinates():
    objective = Counting()
    trajectory(objective, bounds=[(-1, 1), (100, 300)]).query(np.array([[0.5, 0.25]]))
    np.testing.assert_array_equal(objective.points, [[0.0, 150.0]])


def test_an_empty_batch_asks_nothing():
    def never(x):
        raise AssertionError

    t = trajectory(never, vectorized=True)
    assert t.query(np.empty((0, 2))).shape == (0,)
    assert t.count == 0


def test_a_batch_is_one_call_of_a_vectorised_objective():
    calls = []
    t = trajectory(lambda x: calls.append(len(x)) or x.sum(axis=1), vectorized=True)
    t.query(np.zeros((7, 2)))
    assert calls == [7]
    assert t.count == 7


def test_the_objective_cannot_reach_what_is_kept():
    def vandal(x):
        x[:] = -1.0
        return np.zeros(len(x))

    t = trajectory(vandal, vectorized=True)
    asked = np.full((3, 2), 0.5)
    t.query(asked)
    np.testing.assert_array_equal(t.x, np.full((3, 2), 0.5))
    np.testing.assert_array_equal(asked, np.full((3, 2), 0.5))


def test_the_objective_cannot_change_what_the_error_says():
    def vandal(x):
        x[:] = -1.0
        return np.full(len(x), np.nan)

    with pytest.raises(ObjectiveError) as caught:
        trajectory(vandal, vectorized=True).query(np.full((3, 2), 0.5))
    np.testing.assert_array_equal(caught.value.x, [5.0, 5.0])


def test_nor_where_a_part_of_the_batch_was_known_before():
    def vandal(x):
        x[:] = -1.0
        raise ZeroDivisionError

    t = trajectory(vandal, vectorized=True)
    t.remember(np.array([1.0]))  # of the first of three
    with pytest.raises(ObjectiveError) as caught:
        t.query(np.array([[0.1, 0.1], [0.2, 0.3], [0.4, 0.4]]))
    np.testing.assert_allclose(caught.value.x, [2.0, 3.0])


def test_nothing_is_kept_where_nobody_looks_back():
    t = trajectory(Counting(), keep=False)
    t.query(np.zeros((3, 2)))
    assert t.count == 3
    assert len(t) == 0
    assert t.x.shape == (0, 2)
    assert t.y.shape == (0,)


def test_an_objective_that_raises():
    # Bad input: the run ends with that error, naming client, round and point. One by one, the point is the one
    # where it happened, and those after it were never asked.
    def objective(x):
        if x[0] > 5:
            raise OSError("the solver is gone")
        return 1.0

    counting = Counting(objective)
    t = trajectory(counting, client=3)
    t.round = 7
    t.query(np.zeros((2, 2)))
    with pytest.raises(ObjectiveError) as caught:
        t.query(np.array([[0.1, 0.2], [0.9, 0.4], [0.3, 0.3]]))
    error = caught.value
    assert (error.client, error.round, error.result) == (3, 7, None)
    np.testing.assert_allclose(error.x, [9.0, 4.0])
    assert isinstance(error.__cause__, OSError)
    assert str(error) == "objective of client 3 raised OSError: the solver is gone in round 7 at x = [9., 4.]"
    assert t.count == len(counting.points) == 4
    assert len(t) == 2


def test_a_vectorised_objective_that_raises():
    def objective(x):
        raise ZeroDivisionError("oh")

    t = trajectory(objective, vectorized=True)
    with pytest.raises(ObjectiveError, match="client 0 raised ZeroDivisionError: oh in round 0") as caught:
        t.query(np.array([[0.1, 0.2], [0.9, 0.4]]))
    np.testing.assert_allclose(caught.value.x, [1.0, 2.0])
    assert t.count == 2


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("vectorized", [False, True])
def test_nan_and_infinity_end_the_run(value, vectorized):
    # Bad input: "returns NaN or inf: by default the same".
    def objective(x):
        return np.where(x[..., 0] > 5, value, 1.0)

    t = trajectory(objective, vectorized=vectorized, client=1)
    t.round = 2
    with pytest.raises(ObjectiveError, match=f"client 1 returned {value} in round 2") as caught:
        t.query(np.array([[0.1, 0.0], [0.6, 0.5], [0.7, 0.0]]))
    np.testing.assert_allclose(caught.value.x, [6.0, 5.0])
    assert caught.value.__cause__ is None
    assert t.count == (3 if vectorized else 2)  # point by point, the third is not paid for any more


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("vectorized", [False, True])
def test_nan_and_infinity_can_be_skipped(value, vectorized):
    # "with on_failure="skip" the point is recorded as failed, excluded from the surrogate, and the run goes on."
    def objective(x):
        return np.where(x[..., 0] > 5, value, x.sum(axis=-1))

    t = trajectory(objective, vectorized=vectorized, on_failure="skip")
    y = t.query(np.array([[0.1, 0.0], [0.6, 0.5], [0.2, 0.1]]))
    np.testing.assert_allclose(y, [1.0, np.nan, 3.0])
    assert (t.count, t.failed, len(t)) == (3, 1, 2)
    np.testing.assert_array_equal(t.x, [[0.1, 0.0], [0.2, 0.1]])
    np.testing.assert_allclose(t.y, [1.0, 3.0])
    assert np.isnan(t.query(np.full((2, 2), 0.9))).all()  # a whole batch may fail
    assert (t.count, t.failed, len(t)) == (5, 3, 2)


@pytest.mark.parametrize("vectorized", [False, True])
def test_errors_can_be_skipped(vectorized):
    """A point at which the objective raises is counted and left out; of a batch, all points."""

    def objective(x):
        if np.any(x[..., 0] > 5):
            raise ValueError("broken")
        return x.sum(axis=-1)

    t = trajectory(objective, vectorized=vectorized, on_failure="skip")
    y = t.query(np.array([[0.1, 0.0], [0.6, 0.5], [0.2, 0.1]]))
    np.testing.assert_allclose(y, [np.nan] * 3 if vectorized else [1.0, np.nan, 3.0])
    assert (t.count, t.failed, len(t)) == ((3, 3, 0) if vectorized else (3, 1, 2))


def test_not_asked_is_not_a_failure():
    """Values that are found by hand later are no failure, whatever is done with those."""

    def objective(x):
        raise NotAsked("later")

    with pytest.raises(ObjectiveError) as caught:
        trajectory(objective, on_failure="skip").query(np.zeros((1, 2)))
    assert isinstance(caught.value.__cause__, NotAsked)


def test_the_first_failure_is_kept_and_said_once(caplog):
    """Its traceback begins in the user's function; later failures are counted only."""

    def objective(x):
        raise ValueError(f"broken at {x[0]:g}")

    t = trajectory(objective, on_failure="skip", client=3)
    t.query(np.array([[0.1, 0.0], [0.2, 0.0]]))
    assert "in objective\n    raise ValueError" in t.first_failure
    assert "ValueError: broken at 1\n" in t.first_failure
    assert "trajectory.py" not in t.first_failure.replace("test_trajectory.py", "")
    assert t.first_failure.splitlines()[-1].startswith("objective of client 3 raised ValueError: broken at 1")
    assert len(caplog.records) == 1


def test_the_wrong_shape_is_a_value_error():
    # Bad input: a clear ValueError, even though the objective is only asked within the run.
    t = trajectory(lambda x: x, vectorized=True)
    with pytest.raises(ValueError, match="vectorized objective of client 0 must return shape"):
        t.query(np.zeros((3, 2)))


def test_an_interrupt_is_not_an_error_of_the_objective():
    def objective(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trajectory(objective).query(np.zeros((1, 2)))


@given(st.integers(1, 40), st.integers(1, 45), st.integers(0, 1000))
def test_nearest_against_a_full_sort(n, count, seed):
    rng = np.random.default_rng(seed)
    t = trajectory(Counting())
    t.query(rng.uniform(size=(n, 2)))
    x = rng.uniform(size=2)
    expected = np.sort(np.argsort(np.linalg.norm(t.x - x, axis=1))[:count])
    np.testing.assert_array_equal(t.nearest(x, count), expected)
    np.testing.assert_array_equal(t.nearest(x, None), np.arange(n))


def test_nearest_of_points_at_the_same_distance():
    """Distances 1/4, 0, 1/4, 1/2, 1/4, 1/4 to the centre: the earlier of those at 1/4."""
    t = trajectory(Counting())
    t.query(np.array([[0.25, 0.5], [0.5, 0.5], [0.5, 0.75], [0.5, 1.0], [0.25, 0.5], [0.5, 0.25]]))
    for count, expected in ((1, [1]), (2, [0, 1]), (3, [0, 1, 2]), (4, [0, 1, 2, 4]), (5, [0, 1, 2, 4, 5])):
        assert t.nearest(np.full(2, 0.5), count).tolist() == expected


def test_nearest_of_nothing():
    t = trajectory(Counting())
    assert len(t.nearest(np.zeros(2), None)) == 0
    assert len(t.nearest(np.zeros(2), 5)) == 0


def cube(objective, *, vectorized=False, dim=2, **settings) -> Trajectory:
    """A trajectory whose box is the unit cube itself."""
    return Trajectory(objective, Box.of((0, 1), dim), vectorized=vectorized, **settings)


def test_a_scalar_objective_is_called_row_by_row():
    rows = []

    def objective(x):
        rows.append(x.copy())
        x[:] = np.nan  # what the objective does to its argument is its own affair
        return rows[-1].sum()

    x = np.arange(6.0).reshape(3, 2) / 8
    np.testing.assert_array_equal(cube(objective).query(x), [1 / 8, 5 / 8, 9 / 8])
    np.testing.assert_array_equal(rows, np.arange(6.0).reshape(3, 2) / 8)
    np.testing.assert_array_equal(x, np.arange(6.0).reshape(3, 2) / 8)


@pytest.mark.parametrize("as_number", [float, np.float32, lambda v: np.array([v]), lambda v: np.array([[v]]), int])
def test_a_scalar_objective_may_return_any_one_number(as_number):
    y = cube(lambda x: as_number(x.sum()), dim=3).query(np.ones((2, 3)))
    np.testing.assert_array_equal(y, [3.0, 3.0])
    assert y.dtype == np.float64


@pytest.mark.parametrize(
    ("returned", "shape"),
    [(0.0, "()"), (np.zeros((2, 1)), "(2, 1)"), (np.zeros(3), "(3,)"), (np.zeros((2, 4)), "(2, 4)")],
)
def test_a_vectorised_objective_of_the_wrong_shape(returned, shape):
    """Bad input: a vectorised objective that returns the wrong shape."""
    message = (
        "the vectorized objective of client 3 must return shape (2,) for x of shape (2, 4), " + f"got shape {shape}"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        cube(lambda x: returned, vectorized=True, dim=4, client=3).query(np.zeros((2, 4)))


def test_a_scalar_objective_that_returns_many_numbers():
    message = "must return one number for x of shape (4,), got shape (4,); is it vectorized?"
    with pytest.raises(ValueError, match=re.escape(message)):
        cube(lambda x: x, dim=4).query(np.zeros((2, 4)))


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("returned", ["low", None, {}])
def test_an_objective_that_returns_no_numbers(vectorized, returned):
    """A forgotten `return` must not pass for a failed evaluation, even where those are skipped."""
    with pytest.raises(TypeError, match=f"objective of client 0 must return numbers, got {returned!r}"):
        cube(lambda x: returned, vectorized=vectorized, on_failure="skip").query(np.zeros((2, 2)))


@pytest.mark.parametrize(("vectorized", "x", "count"), [(False, 0.5, 3), (True, 0.0, 5)])
def test_an_objective_that_raises_says_where(vectorized, x, count):
    """One by one, the third of five rows fails, after three evaluations; a batch fails as a whole."""

    def objective(x):
        if np.any(x == 0.5):
            raise KeyError("no such point")
        return x.sum()

    t = cube(objective, vectorized=vectorized, dim=1)
    with pytest.raises(ObjectiveError) as caught:
        t.query(np.arange(5.0)[:, None] / 4)
    assert isinstance(caught.value.__cause__, KeyError)
    np.testing.assert_array_equal(caught.value.x, [x])
    assert t.count == count


def test_a_stopped_trajectory_asks_nothing_more():
    """When a run has ended elsewhere, not one more query is paid for: not even the rest of a batch."""

    def objective(x):
        t.stopped = t.count == 2
        return 0.0

    t = cube(objective, dim=1)
    with pytest.raises(CancelledError):
        t.query(np.zeros((5, 1)))
    assert t.count == 2


def test_what_was_paid_for_before():
    """A ledger knows of queries that this trajectory did not make, and counts the failed ones, too."""

    class Ledger:
        count = 5

        def recall(self, count, round, step):
            return np.empty((0, 2)), np.empty(0)

        def record(self, points, values, round, step, purpose, more=False):
            self.count += len(points)

        def fail(self, points, error, round, step, purpose):
            self.count += len(points)

    def objective(x):
        if x[0] > 5.0:
            raise ValueError
        return 0.0

    alone, kept = trajectory(objective), trajectory(objective, ledger=Ledger())
    for t, before in ((alone, 0), (kept, 5)):
        assert t.paid == before
        t.query(np.zeros((3, 2)))
        with pytest.raises(ObjectiveError):
            t.query(np.ones((1, 2)))
        assert (t.count, t.paid) == (4, before + 4)


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("known", [0, 2, 3])
def test_what_the_ledger_has_is_taken_as_it_is(vectorized, known):
    """The first of three points are recorded, at places of their own: these join the trajectory, the rest is asked.

    A batch of which a part is known is asked for the rest: the objective of a resumed study may have become one that
    takes batches.
    """
    recorded, made, asked = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])[:known], [], []

    class Ledger:
        count, left = known, list(recorded)

        def recall(self, count, round, step):
            found = [self.left.pop(0) for _ in range(min(count, len(self.left)))]
            return np.array(found).reshape(-1, 2), np.full(len(found), 7.0)

        def record(self, points, values, round, step, purpose, more=False):
            made.extend(points.tolist())

    def objective(x):
        asked.extend(np.atleast_2d(x).tolist())
        return np.sum(x, axis=-1)

    t = trajectory(objective, ledger=Ledger(), vectorized=vectorized)
    x = np.array([[0.1, 0.1], [0.2, 0.2], [0.3, 0.3]])
    y = t.query(x)
    points = t.box.from_cube(x)
    np.testing.assert_array_equal(y[:known], 7.0)
    np.testing.assert_allclose(y[known:], points[known:].sum(axis=1))
    assert asked == made == points[known:].tolist()
    np.testing.assert_allclose(t.box.from_cube(t.x)[:known], recorded)
    np.testing.assert_array_equal(t.x[known:], x[known:])  # bit for bit what was asked for
    assert t.count == 3


@pytest.mark.parametrize("dim", [1, 400])
@pytest.mark.parametrize("step", [1, 2, 7, 600])
def test_rough_distances(dim, step):
    """To a few digits less than the differences' own sums of squares, side by side and here and there."""
    rng = np.random.default_rng(0)
    trajectory = Trajectory(lambda x: x.sum(axis=1), Box.of((0, 1), dim=dim), vectorized=True)
    x = rng.random(dim)
    trajectory.query(np.vstack([rng.random((1500, dim)), x + 1e-6 * rng.standard_normal((50, dim))]).clip(0, 1))
    numbers = np.arange(7, 1550, step)
    found, error = trajectory.rough_distances(x, numbers)
    assert error < 1e-9
    np.testing.assert_allclose(found, np.sum((trajectory.x[numbers] - x) ** 2, axis=1), atol=error, rtol=0)


def test_rough_distances_of_no_points():
    trajectory = Trajectory(lambda x: x.sum(), Box.of((0, 1), dim=2))
    assert trajectory.rough_distances(np.zeros(2), np.arange(0))[0].shape == (0,)
