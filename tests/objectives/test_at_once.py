"""Queries of several clients at once: what each would have asked, observed and kept alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fzoos.objectives import at_once
from fzoos.objectives.at_once import Places, query_at_once
from fzoos.objectives.box import Box
from fzoos.objectives.trajectory import Trajectory
from fzoos.result import ObjectiveError

CLIENTS, POINTS, DIM = 3, 4, 2
BOX = Box.of([(-1, 1), (2, 5)], DIM)


def sphere(i: int) -> Callable[[Any], Any]:
    return lambda x: np.sum((x - i) ** 2, axis=-1)


def with_constraint(i: int) -> Callable[[Any], Any]:
    return lambda x: (np.sum(x**2, axis=-1), x[..., :1] - 0.1 * i)


def at_times_nan(i: int) -> Callable[[Any], Any]:
    return lambda x: np.where(x[..., 0] < 0.1 * i, np.nan, np.sum(x, axis=-1))


def trajectories(make: Callable[[int], Callable[[Any], Any]], **more: Any) -> list[Trajectory]:
    return [Trajectory(make(i), BOX, client=i, **more) for i in range(CLIENTS)]


def points() -> Any:
    return np.random.default_rng(0).random((CLIENTS, POINTS, DIM))


def never(number: int, error: Exception) -> bool:
    raise error


@pytest.mark.parametrize("large", [1, 1000], ids=["on cores", "one by one"])
@pytest.mark.parametrize("vectorized", [True, False])
@pytest.mark.parametrize("make", [sphere, with_constraint, at_times_nan])
def test_each_observes_and_keeps_what_it_would_alone(
    make: Callable[[int], Callable[[Any], Any]], vectorized: bool, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's x is among the points, so that constraints there are known; twice: the first answer tells them."""
    monkeypatch.setattr(at_once, "_LARGE", large)
    alone, ours = (trajectories(make, vectorized=vectorized, on_failure="skip") for _ in range(2))
    for centre in (points()[:, 1], points()[:, 2]):
        for row, one, other in zip(centre, alone, ours, strict=True):
            one.begin_round(row)
            other.begin_round(row)
        observed = query_at_once(ours, Places.of(ours, points()), "query", never)
        assert observed is not None
        for one, other, x, y in zip(alone, ours, points(), observed, strict=True):
            np.testing.assert_array_equal(one.query(x), y)
            np.testing.assert_array_equal(one.x, other.x)
            np.testing.assert_array_equal(one.y, other.y)
            np.testing.assert_array_equal(one.values, other.values)
            assert (one.count, one.failed, one.violation) == (other.count, other.failed, other.violation)


@pytest.mark.parametrize("goes_on", [True, False])
def test_answers_are_kept_where_another_client_fails(goes_on: bool) -> None:
    def make(i: int) -> Callable[[Any], Any]:
        def f(x: Any) -> Any:
            if i == 1:
                raise ValueError("broken")
            return np.sum(x, axis=-1)

        return f

    told: list[tuple[int, Exception]] = []
    ours = trajectories(make, vectorized=True)
    observed = query_at_once(
        ours, Places.of(ours, points()), "query", lambda *failure: bool(told.append(failure)) or goes_on
    )
    assert [(number, type(error)) for number, error in told] == [(1, ObjectiveError)]
    assert [len(t) for t in ours] == [POINTS, 0, POINTS if goes_on else 0]
    if not goes_on:
        assert observed is None
    else:
        assert observed is not None
        assert [y is None for y in observed] == [False, True, False]


def test_the_objective_may_write_into_its_points_and_keep_them() -> None:
    """They are its own: neither the trajectory nor another client sees what becomes of them."""
    kept: list[Any] = []

    def make(i: int) -> Callable[[Any], Any]:
        def f(x: Any) -> Any:
            y = np.sum(x, axis=-1)
            kept.append(x)
            x[:] = 99.0 + i
            return y

        return f

    ours = trajectories(make, vectorized=True)
    query_at_once(ours, Places.of(ours, points()), "query", never)
    for i, (trajectory, x) in enumerate(zip(ours, points(), strict=True)):
        np.testing.assert_array_equal(trajectory.x, x)
        np.testing.assert_array_equal(kept[i], np.full((POINTS, DIM), 99.0 + i))
