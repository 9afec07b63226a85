"""Evaluations are made, counted and journaled in one place."""

from __future__ import annotations

import re
from concurrent.futures import CancelledError
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fzoos import ObjectiveError
from fzoos.objectives.box import Box
from fzoos.objectives.evaluator import Evaluator
from fzoos.objectives.ledger import MemoryLedger
from fzoos.objectives.space import Space, SpaceBox
from fzoos.objectives.variables import Integer
from fzoos.result import ValuePending


class Counting:
    """An objective that counts its own evaluations and remembers the points."""

    def __init__(self, function=lambda x: float(x.sum())):
        self.function, self.points = function, []

    def __call__(self, x):
        self.points.append(x.copy())
        return self.function(x)


def make(objective, *, vectorized=False, dim=2, bounds=(0, 10), **settings) -> Evaluator:
    return Evaluator(objective, Box.of(bounds, dim), vectorized=vectorized, **settings)


@given(st.lists(st.integers(0, 5), max_size=12))
def test_every_evaluation_is_counted_once(batches):
    objective = Counting()
    e = make(objective)
    rng = np.random.default_rng(0)
    for n in batches:
        x = rng.uniform(size=(n, 2))
        points, y = e.evaluate(x)
        np.testing.assert_array_equal(points, x)
        np.testing.assert_allclose(y, 10 * x.sum(axis=1), rtol=1e-14)
    assert e.count == len(objective.points) == sum(batches)
    assert e.failed == 0


def test_the_objective_sees_the_users_coordinates():
    objective = Counting()
    make(objective, bounds=[(-1, 1), (100, 300)]).evaluate(np.array([[0.5, 0.25]]))
    np.testing.assert_array_equal(objective.points, [[0.0, 150.0]])


def test_no_points_are_no_call():
    def never(x):
        raise AssertionError

    e = make(never, vectorized=True)
    assert e.evaluate(np.empty((0, 2)))[1].shape == (0,)
    assert e.count == 0


def test_a_batch_is_one_call_of_a_vectorised_objective():
    calls = []
    e = make(lambda x: calls.append(len(x)) or x.sum(axis=1), vectorized=True)
    e.evaluate(np.zeros((7, 2)))
    assert calls == [7]
    assert e.count == 7


def test_the_objective_cannot_change_the_points():
    def vandal(x):
        x[:] = -1.0
        return np.zeros(len(x))

    e = make(vandal, vectorized=True)
    x = np.full((3, 2), 0.5)
    points, _ = e.evaluate(x)
    np.testing.assert_array_equal(points, np.full((3, 2), 0.5))
    np.testing.assert_array_equal(x, np.full((3, 2), 0.5))


def test_the_objective_cannot_change_what_the_error_says():
    def vandal(x):
        x[:] = -1.0
        return np.full(len(x), np.nan)

    with pytest.raises(ObjectiveError) as caught:
        make(vandal, vectorized=True).evaluate(np.full((3, 2), 0.5))
    np.testing.assert_array_equal(caught.value.x, [5.0, 5.0])


def test_an_objective_that_raises():
    # Bad input: the run ends with that error, naming client, round and point. One by one, the point is the one
    # where it happened, and those after it were never asked.
    def objective(x):
        if x[0] > 5:
            raise OSError("the solver is gone")
        return 1.0

    counting = Counting(objective)
    e = make(counting, client=3)
    e.round = 7
    e.evaluate(np.zeros((2, 2)))
    with pytest.raises(ObjectiveError) as caught:
        e.evaluate(np.array([[0.1, 0.2], [0.9, 0.4], [0.3, 0.3]]))
    error = caught.value
    assert (error.client, error.round, error.result) == (3, 7, None)
    np.testing.assert_allclose(error.x, [9.0, 4.0])
    assert isinstance(error.__cause__, OSError)
    assert str(error) == "objective of client 3 raised OSError: the solver is gone in round 7 at x = [9., 4.]"
    assert e.count == len(counting.points) == 4


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("vectorized", [False, True])
def test_nan_and_infinity_end_the_run(value, vectorized):
    # Bad input: "returns NaN or inf: by default the same".
    def objective(x):
        return np.where(x[..., 0] > 5, value, 1.0)

    e = make(objective, vectorized=vectorized, client=1)
    e.round = 2
    with pytest.raises(ObjectiveError, match=f"client 1 returned {value} in round 2") as caught:
        e.evaluate(np.array([[0.1, 0.0], [0.6, 0.5], [0.7, 0.0]]))
    np.testing.assert_allclose(caught.value.x, [6.0, 5.0])
    assert caught.value.__cause__ is None
    assert e.count == (3 if vectorized else 2)  # point by point, the third is not paid for any more


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("vectorized", [False, True])
def test_nan_and_infinity_can_be_skipped(value, vectorized):
    def objective(x):
        return np.where(x[..., 0] > 5, value, x.sum(axis=-1))

    e = make(objective, vectorized=vectorized, on_failure="skip")
    _, y = e.evaluate(np.array([[0.1, 0.0], [0.6, 0.5], [0.2, 0.1]]))
    np.testing.assert_allclose(y, [1.0, np.nan, 3.0])
    assert (e.count, e.failed) == (3, 1)
    assert np.isnan(e.evaluate(np.full((2, 2), 0.9))[1]).all()  # a whole batch may fail
    assert (e.count, e.failed) == (5, 3)


def test_a_value_that_is_entered_later_is_no_failure():
    """Values that are found by hand later are no failure, whatever is done with those."""

    def objective(x):
        raise ValuePending("later")

    with pytest.raises(ObjectiveError) as caught:
        make(objective, on_failure="skip").evaluate(np.zeros((1, 2)))
    assert isinstance(caught.value.__cause__, ValuePending)


def test_the_first_failure_is_stored_and_logged_once(caplog):
    """Its traceback begins in the user's function; later failures are counted only."""

    def objective(x):
        raise ValueError(f"broken at {x[0]:g}")

    e = make(objective, on_failure="skip", client=3)
    e.evaluate(np.array([[0.1, 0.0], [0.2, 0.0]]))
    assert "in objective\n    raise ValueError" in e.first_failure
    assert "ValueError: broken at 1\n" in e.first_failure
    assert "evaluator.py" not in e.first_failure.replace("test_evaluator.py", "")
    assert e.first_failure.splitlines()[-1].startswith("objective of client 3 raised ValueError: broken at 1")
    assert len(caplog.records) == 1


def cube(objective, *, vectorized=False, dim=2, **settings) -> Evaluator:
    """An evaluator whose box is the unit cube itself."""
    return Evaluator(objective, Box.of((0, 1), dim), vectorized=vectorized, **settings)


@pytest.mark.parametrize("as_number", [float, np.float32, lambda v: np.array([v]), lambda v: np.array([[v]]), int])
def test_a_scalar_objective_may_return_any_one_number(as_number):
    _, y = cube(lambda x: as_number(x.sum()), dim=3).evaluate(np.ones((2, 3)))
    np.testing.assert_array_equal(y, [3.0, 3.0])
    assert y.dtype == np.float64


def test_a_scalar_objective_that_returns_many_numbers():
    message = "must return one number for x of shape (4,), got shape (4,); is it vectorized?"
    with pytest.raises(ValueError, match=re.escape(message)):
        cube(lambda x: x, dim=4).evaluate(np.zeros((2, 4)))


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("returned", ["low", None, {}])
def test_an_objective_that_returns_no_numbers(vectorized, returned):
    """A forgotten `return` must not pass for a failed evaluation, even where those are skipped."""
    with pytest.raises(TypeError, match=f"objective of client 0 must return numbers, got {returned!r}"):
        cube(lambda x: returned, vectorized=vectorized, on_failure="skip").evaluate(np.zeros((2, 2)))


def test_a_stopped_evaluator_makes_no_further_call():
    """When a run has ended elsewhere, not one more query is paid for: not even the rest of a batch."""

    def objective(x):
        e.stopped = e.count == 2
        return 0.0

    e = cube(objective, dim=1)
    with pytest.raises(CancelledError):
        e.evaluate(np.zeros((5, 1)))
    assert e.count == 2


def test_a_ledger_on_disk_counts():
    """It knows of evaluations that this evaluator did not make, and of those that ended with an error."""

    class Ledger(MemoryLedger):
        count = 5

        def record(self, points, values, round, step, purpose, more=False):
            self.count += len(points)

        def fail(self, points, error, round, step, purpose):
            self.count += len(points)

    def objective(x):
        if x[0] > 5.0:
            raise ValueError
        return 0.0

    for e, before in ((make(objective), 0), (make(objective, ledger=Ledger(stores_failures=False)), 5)):
        assert e.count == before
        e.evaluate(np.zeros((3, 2)))
        with pytest.raises(ObjectiveError):
            e.evaluate(np.ones((1, 2)))
        assert e.count == before + 4


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("known", [0, 2, 3])
def test_points_and_values_of_the_ledger_replace_those_of_the_query(vectorized, known):
    """The first of three points are recorded, at other places: these are returned, and the rest is evaluated.

    Of a batch whose first points are known, the rest is evaluated: the objective of a resumed study may be one that
    takes batches.
    """
    recorded, made, asked = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])[:known], [], []

    class Ledger(MemoryLedger):
        left: ClassVar = list(recorded)

        def recall(self, count, round, step):
            found = [self.left.pop(0) for _ in range(min(count, len(self.left)))]
            return np.array(found).reshape(-1, 2), np.full(len(found), 7.0)

        def record(self, points, values, round, step, purpose, more=False):
            made.extend(points.tolist())

    def objective(x):
        asked.extend(np.atleast_2d(x).tolist())
        return np.sum(x, axis=-1)

    e = make(objective, ledger=Ledger(stores_failures=False), vectorized=vectorized)
    x = np.array([[0.1, 0.1], [0.2, 0.2], [0.3, 0.3]])
    found, y = e.evaluate(x)
    points = e.box.from_cube(x)
    np.testing.assert_array_equal(y[:known], 7.0)
    np.testing.assert_allclose(y[known:], points[known:].sum(axis=1))
    assert asked == made == points[known:].tolist()
    np.testing.assert_allclose(e.box.from_cube(found)[:known], recorded)
    np.testing.assert_array_equal(found[known:], x[known:])  # bit for bit
    np.testing.assert_array_equal(x, [[0.1, 0.1], [0.2, 0.2], [0.3, 0.3]])


# F at the server's x


X = np.array([0.25, 0.5])


def test_the_value_of_f_is_reused_where_the_next_round_begins():
    """One evaluation for both; the query that reuses it has all of its values in their order."""
    objective = Counting()
    e = make(objective)
    assert e.value(X) == 7.5
    e.begin_round(X)
    assert not e.has_queried
    points, y = e.evaluate(np.stack([X, X, [1.0, 1.0]]), at_server_x=True)
    assert y.tolist() == [7.5, 7.5, 20.0]
    assert points.tolist() == [[0.25, 0.5], [0.25, 0.5], [1.0, 1.0]]
    assert (e.count, len(objective.points), e.has_queried) == (3, 3, True)


@pytest.mark.parametrize(("at", "first"), [(X + 1e-9, True), (X, False)])
def test_the_value_of_f_is_not_reused_elsewhere(at, first):
    """Neither at another x, nor by a query that does not begin at the server's x."""
    e = make(Counting())
    e.value(X)
    e.begin_round(at)
    e.evaluate(at[None], at_server_x=first)
    assert e.count == 2


def test_the_value_of_f_is_reused_once():
    e = make(Counting())
    e.value(X)
    for count in (1, 2):
        e.begin_round(X)
        e.evaluate(X[None], at_server_x=True)
        assert e.count == count


@pytest.mark.parametrize("reused", [True, False])
def test_a_failed_value_of_f_is_one_failure(reused):
    """Whether the algorithm's query reuses it or another evaluation fails as well."""
    e = make(lambda x: float("nan"), on_failure="skip")
    assert np.isnan(e.value(X))
    assert (e.count, e.failed) == (1, 1)
    e.begin_round(X)
    assert np.isnan(e.evaluate(X[None], at_server_x=reused)[1][0])
    assert e.failed == e.count == (1 if reused else 2)


def test_with_constraints_the_value_of_f_is_not_reused():
    """The constraints there are wanted, too."""
    e = make(lambda x: (float(x.sum()), -1.0))
    assert e.value(X) == 7.5
    e.begin_round(X)
    assert e.evaluate(X[None], at_server_x=True)[1].tolist() == [[7.5, -1.0]]
    assert e.count == 2


# State


def test_an_evaluator_continues_from_its_state():
    """Rounding, counts and a value of F that waits for its query are those of the evaluator itself."""
    box = SpaceBox.around(Space(a=Integer(0, 9), b=Integer(0, 9)))
    for kind, seed in ((box, np.random.SeedSequence(3)), (Box.of((0, 10), 2), None)):
        first = Evaluator(lambda x: np.nan if x[0] > 8 else x.sum(), kind, on_failure="skip", seed=seed)
        first.evaluate(np.random.default_rng(0).random((20, 2)))
        first.value(X)
        first.round, first.step = 4, 2
        second = Evaluator(lambda x: x.sum(), kind, on_failure="skip", seed=np.random.SeedSequence(5))
        second.restore(first.state())
        assert (second.round, second.step, second.has_queried) == (4, 2, True)
        assert (second.count, second.failed) == (first.count, first.failed) == (21, first.failed)
        for e in (first, second):
            e.begin_round(X)
        x = np.concatenate([X[None], np.random.default_rng(1).random((5, 2)) / 2])
        (points, values), (again, y) = (e.evaluate(x, at_server_x=True) for e in (first, second))
        np.testing.assert_array_equal(points, again)
        np.testing.assert_array_equal(values, y)
        assert first.count == second.count == (27 if kind is box else 26)
        assert first.state().keys() == second.state().keys()
