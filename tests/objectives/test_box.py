"""The box and the objectives' adapters (SPEC: "Inside the library the box is always the unit cube")."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fzoos.objectives.box import Box

EPS = np.finfo(float).eps


@st.composite
def boxes(draw, largest=1e300):
    """Any box whose widths are representable, from a single pair of neighbouring floats to nearly everything."""
    dim = draw(st.integers(1, 5))
    finite = st.floats(-largest, largest)
    pairs = [sorted(draw(st.tuples(finite, finite).filter(lambda p: p[0] != p[1]))) for _ in range(dim)]
    return Box.of(pairs, dim)


@st.composite
def boxes_with_unit_points(draw):
    box = draw(boxes())
    return box, draw(arrays(float, (draw(st.integers(1, 4)), box.dim), elements=st.floats(0.0, 1.0)))


@given(boxes_with_unit_points())
def test_a_point_of_the_cube_never_leaves_the_bounds(example):
    box, u = example
    x = box.from_cube(u)
    assert np.all(box.lower <= x)
    assert np.all(x <= box.upper)
    back = box.to_cube(x)
    assert np.all((back >= 0.0) & (back <= 1.0))


def test_rounding_does_not_leave_the_upper_bound():
    # lower + (upper - lower) rounds to a number above upper for about four in ten of these pairs.
    rng = np.random.default_rng(0)
    pairs = np.stack([rng.uniform(-1, 0, 100), rng.uniform(0, 0.1, 100)], axis=1)
    above = pairs[:, 0] + (pairs[:, 1] - pairs[:, 0]) > pairs[:, 1]
    assert above.any()
    box = Box.of(pairs[above], dim=int(above.sum()))
    np.testing.assert_array_equal(box.from_cube(np.ones(box.dim)), box.upper)


@given(boxes_with_unit_points())
def test_round_trip_from_user_coordinates(example):
    # x -> u -> x moves x by rounding at the scale of the bounds: each operation errs by half an ulp of it.
    box, u = example
    x = box.from_cube(u)
    largest = np.maximum(np.abs(box.lower), np.abs(box.upper)) + (box.upper - box.lower)
    tiny = np.finfo(float).smallest_subnormal
    assert np.all(np.abs(box.from_cube(box.to_cube(x)) - x) <= 4 * EPS * largest + 4 * tiny)


def test_mapping_by_hand():
    box = Box.of([(-1, 1), (0, 10)], dim=2)
    np.testing.assert_array_equal(box.to_cube(np.array([[0.5, 2.5], [-1.0, 10.0]])), [[0.75, 0.25], [0.0, 1.0]])
    np.testing.assert_array_equal(box.from_cube(np.array([[0.75, 0.25], [0.0, 1.0]])), [[0.5, 2.5], [-1.0, 10.0]])


def test_points_outside_the_cube_are_mapped_outside():
    # Iterates need not be projected: what lies beyond the cube lies beyond the bounds by the same share.
    box = Box.of((-1, 1), dim=1)
    np.testing.assert_array_equal(box.from_cube(np.array([[-0.5], [1.5]])), [[-2.0], [2.0]])
    np.testing.assert_array_equal(box.scale(np.array([[-2.0], [2.0]])), [[-0.5], [1.5]])
    np.testing.assert_array_equal(box.to_cube(np.array([[-2.0], [2.0]])), [[0.0], [1.0]])


@pytest.mark.parametrize(
    ("bounds", "error", "message"),
    [
        ([(0, 1), (5, 2), (0, 1)], ValueError, "bounds must have lower <= upper, got (5, 2) in coordinate 1"),
        ([(0, 1)] * 4, ValueError, "x0 has 3 values but bounds give d = 4"),
        ((0, np.inf), ValueError, "bounds must be finite"),
        ((np.nan, 1), ValueError, "bounds must be numbers, got NaN"),
        ((-1.7e308, 1.7e308), ValueError, "bounds are too far apart"),
        (
            [(0, 1, 2)] * 3,
            ValueError,
            "bounds must be one (lower, upper) pair or d pairs, got an array of shape (3, 3)",
        ),
        (4.0, ValueError, "bounds must be one (lower, upper) pair or d pairs"),
        ("wide", TypeError, "bounds must be one (lower, upper) pair or d pairs of numbers, got 'wide'"),
    ],
)
def test_bad_bounds_are_named(bounds, error, message):
    # Bad input: a clear ValueError or TypeError that names the argument.
    with pytest.raises(error, match=re.escape(message)):
        Box.of(bounds, dim=3)
