"""Which points are asked (SPEC: "Active queries")."""

import numpy as np
import pytest

from fzoos.algorithms.fixed_fzoos.query_designs import (
    ActiveQueries,
    InitialDesign,
    UnseenDirections,
    uniform_around,
)
from fzoos.algorithms.fixed_fzoos.surroundings import Surroundings


def test_the_most_uncertain_are_chosen_in_order():
    x, drawn = np.full(2, 0.5), []

    def uncertainty(candidates):
        drawn.append(candidates)
        return np.array([0.1, 0.9, 0.3, 0.9, 0.2])

    design = ActiveQueries(candidates=5, picks=3)
    chosen = design.around(Surroundings(x, 0.1, np.random.default_rng(0), uncertainty=uncertainty))
    (candidates,) = drawn
    assert candidates.shape == (5, 2)
    assert np.all(np.abs(candidates - x) <= 0.1)
    # 0.9 stands twice: the earlier one goes first, so that the choice does not depend on the sorting.
    np.testing.assert_array_equal(chosen, candidates[[1, 3, 2]])
    assert len(design.around(Surroundings(x, 0.1, np.random.default_rng(0)))) == 3  # nothing is known: any of them


def test_whether_x_is_asked():
    """Designs that say so begin with x itself; the others draw points around it."""
    x = np.full(3, 0.5)
    designs = [ActiveQueries(9, 2), UnseenDirections(2), InitialDesign(3), InitialDesign(3, kind="orthogonal")]
    assert [design.asks_x for design in designs] == [False, True, False, True]
    for design in designs:
        points = design.around(Surroundings(x, 0.1, np.random.default_rng(0)))
        assert np.array_equal(points[0], x) == design.asks_x


def test_uniform_around_fills_the_box_of_the_radius():
    x = np.array([0.2, 0.7])
    points = uniform_around(x, 4000, 0.01, np.random.default_rng(0))
    assert points.shape == (4000, 2)
    assert np.all(np.abs(points - x) <= 0.01)
    # A uniform variable on [-r, r] has variance r^2 / 3; its estimate from n draws varies by about 0.9 / sqrt(n).
    np.testing.assert_allclose(points.var(axis=0), 0.01**2 / 3, rtol=4 * 0.9 / np.sqrt(4000))


@pytest.mark.parametrize("dim", [1, 2, 5, 300])
def test_counts(dim):
    """Orthogonal designs have at most x and d directions, unseen directions are at most d; uniform points know no such
    limit. What is counted is what is asked."""
    x, rng = np.full(dim, 0.5), np.random.default_rng(0)
    for points in (1, 3, 161):
        for kind, count in (("uniform", points), ("orthogonal", min(points, dim + 1))):
            design = InitialDesign(points, 0.1, kind)
            assert design.count(dim) == count
            assert design.around(Surroundings(x, 0.1, rng)).shape == (count, dim)
    for picks in (1, 3, 80):
        unseen = UnseenDirections(picks)
        assert unseen.count(dim) == min(picks, dim)
        for count in (0, 2, 400):
            near = x + rng.normal(size=(count, dim))
            here = Surroundings(x, 0.1, rng, nearest=lambda known, near=near: near[:known])
            assert unseen.around(here).shape == (1 + min(picks, dim), dim)
    assert ActiveQueries(100, 50).count(dim) == 50


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


@pytest.mark.parametrize(
    ("settings", "argument"), [({"points": 0}, "points"), ({"radius": -1.0}, "radius"), ({"radius": np.inf}, "radius")]
)
def test_bad_initial_designs(settings, argument):
    with pytest.raises(ValueError, match=argument):
        InitialDesign(**settings)
