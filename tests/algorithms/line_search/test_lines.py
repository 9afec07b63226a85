"""The server's arithmetic after a round: the step along a line, and how much clients differ, by hand and by polyfit."""

import math

import numpy as np
import pytest

from fzoos.algorithms.line_search.client import LINE
from fzoos.algorithms.line_search.server import Step, best_step, differences

T = np.array(LINE)
COUNT = len(LINE)
NONE, UP = np.zeros((2, COUNT)), np.full(COUNT, 9.0)


def step_of(values, failed, step_size):
    """Line and length."""
    return Step(*best_step(values, failed, step_size)[:2])


def one(values, step_size=1.0, failed=None):
    """The step where the second line only rises."""
    failed = np.zeros(COUNT) if failed is None else failed
    return step_of(np.stack([values, UP]), np.stack([failed, np.zeros(COUNT)]), step_size)


def test_a_parabola_is_minimised():
    """F a parabola along the line: the step ends in its minimum, whatever L is."""
    for vertex, step_size in ((0.1, 1e-6), (0.3, 1.0), (1.0, 300.0), (1.9, 1.0)):
        step = one((T - vertex) ** 2 - vertex**2, step_size)
        assert step.line == 1
        assert step.length == pytest.approx(vertex * step_size, rel=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_against_polyfit(seed):
    """Any values: the parabola through the lowest place and its neighbours, by polyfit, its vertex between them."""
    values = np.append(0.0, np.random.default_rng(seed).standard_normal(COUNT))
    places = np.append(0.0, T)
    low = int(np.argmin(values))
    expected, promise = places[low], values[low]
    if low < COUNT:
        left = max(low - 1, 0)
        fitted = np.polyfit(places[left : left + 3], values[left : left + 3], 2)
        if fitted[0] > 0.0:
            expected = np.clip(-fitted[1] / (2 * fitted[0]), places[left], places[low + 1])
            promise = np.polyval(fitted, expected)
    step = one(values[1:])
    if promise >= 0.0:
        assert step == Step(0, 0.0)
    else:
        assert step.length == pytest.approx(expected, rel=1e-9)


def test_the_ends_of_a_line():
    """Still falling at the last place: it is the step. Rising from the start: no step, or one before any place."""
    assert one(-T) == Step(1, LINE[-1])
    assert one(T) == Step(0, 0.0)
    assert one(T**2) == Step(0, 0.0)
    assert one(10 * T**2 - T) == Step(1, pytest.approx(0.05))


def test_the_lower_line_wins():
    """Values are compared where the parabolas have their minima: -0.36 against -0.4."""
    first, second = (T - 0.6) ** 2 - 0.36, 0.4 / 0.15**2 * (T - 0.15) ** 2 - 0.4
    assert second.min() > first.min()
    assert step_of(np.stack([first, second]), NONE, 1.0) == Step(2, pytest.approx(0.15))
    assert step_of(np.stack([second, first]), NONE, 1.0) == Step(1, pytest.approx(0.15))


def test_equal_lines():
    """Of two that are the same but for rounding the first is taken, on whatever machine."""
    values = (T - 0.6) ** 2 - 0.36
    for other in (values, values * (1 + 1e-12)):
        assert step_of(np.stack([values, other]), NONE, 1.0).line == 1
    assert best_step(np.stack([values, values * (1 + 1e-6)]), NONE, 1.0).line == 2


@pytest.mark.parametrize("weight", [1.0, 0.01])
def test_failed_places(weight):
    """A place at which even one client has no value is as if it had not been queried."""
    values, failed = (T - 0.9) ** 2 - 0.81, np.zeros(COUNT)
    values[1], failed[1] = -100.0, weight
    assert one(values, failed=failed) == Step(1, pytest.approx(0.9))
    assert one(values, failed=np.full(COUNT, weight)) == Step(0, 0.0)
    failed[2] = weight  # 0 and 0.3 are left, and it falls
    assert one(values, failed=failed) == Step(1, 0.3)


def test_where_the_first_line_is_lowest():
    """It is told whichever line wins; where nothing on it is better, it is nearer than the nearest place."""
    first, second = (T - 0.6) ** 2 - 0.36, (T - 0.9) ** 2 - 0.81
    assert best_step(np.stack([first, second]), NONE, 2.0) == (2, pytest.approx(1.8), pytest.approx(1.2))
    assert best_step(np.stack([T, second]), NONE, 2.0).first == 0.5 * 2.0 * LINE[0]


def test_differences():
    """G' of two clients with slopes (1, 0) and (0, 1): mean of squares 1, square of the mean 1/2."""
    assert differences(1.0, 0.5) == 1.0
    assert differences(0.4999, 0.5) == 0.0  # rounding
    assert differences(1.0, 0.0) == math.inf
