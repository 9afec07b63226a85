"""Which shapes of surrogates a client compares, and which points it asks together."""

import numpy as np
import pytest

from fzoos import FZooS, minimize
from fzoos.algorithms.fzoos import neighbours


@pytest.mark.parametrize(("noise", "searches_all"), [(0.0, True), (0.3, False)])
def test_shapes_are_compared_again(monkeypatch, noise, searches_all):
    """Without noise in every round. With it, once 180 points are in use, in every third: six of them are new then."""
    tried: list[bool] = []

    class Watched(neighbours.RegionProcess):
        def __init__(self, points, values, centre, like=None, **options):
            super().__init__(points, values, centre, like, **options)
            if not isinstance(like, neighbours.Choice):
                tried.append(not isinstance(like, neighbours.Shape))

    monkeypatch.setattr(neighbours, "RegionProcess", Watched)
    rng = np.random.default_rng(0)
    minimize(
        lambda x: float(np.sum((x - 0.3) ** 2) + noise * rng.standard_normal()),
        np.zeros(2),
        bounds=(-1, 1),
        algorithm=FZooS(),
        rounds=120,
        tolerance=0.0 if noise else 1e-6,
        seed=0,
    )
    assert all(tried) == searches_all
    if not searches_all:
        assert sum(tried[-15:]) == 5


@pytest.mark.parametrize(("on_failure", "sizes"), [("raise", [1, 6, 1, 1]), ("skip", [1] * 9)])
def test_the_first_star_goes_out_together(on_failure, sizes):
    """x, then 6 directions, then x and one direction. Where runs survive failures, each may tell where not to ask."""
    asked: list[int] = []

    def f(x):
        asked.append(len(x))
        return np.sum((x - 0.3) ** 2, axis=1)

    settings = {"bounds": (-1, 1), "algorithm": FZooS(), "rounds": 2, "seed": 0, "on_failure": on_failure}
    batched = minimize(f, np.zeros(6), vectorized=True, **settings)
    assert asked == sizes
    single = minimize(lambda x: float(np.sum((x - 0.3) ** 2)), np.zeros(6), **settings)
    np.testing.assert_array_equal(batched.x, single.x)
