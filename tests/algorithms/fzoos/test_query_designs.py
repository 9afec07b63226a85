"""Which candidates active queries select (SPEC: "Active queries")."""

import numpy as np
import pytest

from fzoos import ActiveQueries
from fzoos.algorithms.query_designs import uniform_around


def test_the_least_certain_are_selected_in_order():
    x, drawn = np.full(2, 0.5), []

    def uncertainty(candidates):
        drawn.append(candidates)
        return np.array([0.1, 0.9, 0.3, 0.9, 0.2])

    selected = ActiveQueries(5, picks=3).select(x, 0.1, np.random.default_rng(0), lambda points: points, uncertainty)
    (candidates,) = drawn
    assert candidates.shape == (5, 2)
    assert np.all(np.abs(candidates - x) <= 0.1)
    # 0.9 occurs twice: the earlier one comes first, so that the selection does not depend on the sorting algorithm.
    np.testing.assert_array_equal(selected, candidates[[1, 3, 2]])


def test_candidates_are_ranked_where_they_would_be_queried():
    """At a corner the candidates are projected first: the uncertainty is that of the projected points."""

    def uncertainty(candidates):
        assert np.all((candidates >= 0) & (candidates <= 1))
        return np.arange(len(candidates), dtype=float)

    design = ActiveQueries(20, picks=2)
    corner = np.array([0.0, 1.0])
    selected = design.select(corner, 0.1, np.random.default_rng(0), lambda p: np.clip(p, 0, 1), uncertainty)
    expected = np.clip(uniform_around(corner, 20, 0.1, np.random.default_rng(0)), 0, 1)[[19, 18]]
    np.testing.assert_array_equal(selected, expected)


def test_uniform_around_fills_the_box_of_the_radius():
    x = np.array([0.2, 0.7])
    points = uniform_around(x, 4000, 0.01, np.random.default_rng(0))
    assert points.shape == (4000, 2)
    assert np.all(np.abs(points - x) <= 0.01)
    # A uniform variable on [-r, r] has variance r^2 / 3; its estimate from n draws varies by about 0.9 / sqrt(n).
    np.testing.assert_allclose(points.var(axis=0), 0.01**2 / 3, rtol=4 * 0.9 / np.sqrt(4000))


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        ({"candidates": 0, "picks": 1}, "candidates"),
        ({"candidates": 5, "picks": 0}, "picks"),
        ({"candidates": 5, "picks": 6}, "picks"),
        ({"candidates": 5, "picks": 5, "radius": 0.0}, "radius"),
        ({"candidates": 5, "picks": 5, "radius": np.nan}, "radius"),
    ],
)
def test_bad_active_queries(settings, argument):
    with pytest.raises(ValueError, match=argument):
        ActiveQueries(**settings)
