"""The kernel that is kept from round to round: against all of it, computed from the points."""

import numpy as np
import pytest

from fzoos._util.object_state import ObjectState
from fzoos._util.panels import row_squares
from fzoos.surrogates.kept_kernel import KeptKernel
from fzoos.surrogates.trend import fit_slope, length_scale, slope_around

DIM = 30


def rounds(seed):
    """Points of a walk, and which of them are in use: new ones enter, old ones leave, some come back."""
    rng = np.random.default_rng(seed)
    points, centre = np.empty((0, DIM)), np.full(DIM, 0.5)
    for _ in range(8):
        points = np.vstack([points, centre + 0.1 * rng.standard_normal((12, DIM))])
        yield points, rng.permutation(len(points))[: 5 + len(points) // 2], centre
        centre = centre + 0.05 * rng.standard_normal(DIM)


def plain(points):
    gaps = np.sum((points[:, None] - points) ** 2, axis=-1)
    return np.exp(-0.5 * gaps / length_scale(DIM) ** 2)


@pytest.mark.parametrize("seed", range(3))
def test_against_the_plain_formula(seed):
    """Above the diagonal, in every round: exp(-|u - v|^2 / 2 l^2), to what the squares' rounding leaves."""
    kept, known = KeptKernel(), 0
    for points, numbers, centre in rounds(seed):
        order = kept.order(numbers)
        known += len(np.intersect1d(order, kept._numbers))
        assert sorted(order) == sorted(numbers)
        offsets = points[order] - centre
        kernel = kept.renewed(order, offsets, row_squares(offsets))
        above = np.triu_indices(len(order), 1)
        np.testing.assert_allclose(kernel[above], plain(points[order])[above], rtol=1e-14, atol=1e-14)
    assert known > 50  # otherwise nothing was kept


def test_the_slope_is_the_same():
    """With a kept kernel and without: gradient and curvature differ by rounding alone."""
    kept = KeptKernel()
    for points, numbers, centre in rounds(5):
        order = kept.order(numbers)
        values = np.sum(np.linspace(0.5, 2.0, DIM) * (points[order] - 0.3) ** 2, axis=1)
        offsets = points[order] - centre
        squares = row_squares(offsets)
        kernel = kept.renewed(order, offsets, squares)
        before = kernel.copy()
        found = slope_around(offsets, values, 1e-6, squares, kernel)
        wanted = fit_slope(points[order], values, centre, 1e-6)
        np.testing.assert_allclose(found.gradient, wanted.gradient, rtol=1e-8, atol=1e-9)
        assert found.curvature == pytest.approx(wanted.curvature, rel=1e-8)
        assert np.array_equal(kernel, before)  # the factor was made elsewhere


def test_a_restart_goes_on_with_the_same_bits():
    """It is part of a site's state."""
    old, new = KeptKernel(), KeptKernel()
    taken, made = ObjectState(old, ["fzoos"]), ObjectState(new, ["fzoos"])
    for points, numbers, centre in rounds(7):
        found = []
        for kernel in (old, new):
            order = kernel.order(numbers)
            offsets = points[order] - centre
            found.append(np.triu(kernel.renewed(order, offsets, row_squares(offsets)), 1))
        assert np.array_equal(*found)
        new.forget()
        made.replace(*taken.take()[:2])


def test_all_or_nothing_new():
    """The same points again, and no points."""
    kept, points = KeptKernel(), np.random.default_rng(0).random((6, DIM))
    first = np.triu(kept.renewed(kept.order(np.arange(6)), points, row_squares(points)), 1)
    again = np.triu(kept.renewed(kept.order(np.arange(6)), points + 0.1, row_squares(points + 0.1)), 1)
    assert np.array_equal(first, again)
    kept.forget()
    assert len(kept.order(np.arange(3))) == 3
    assert kept._kernel.shape == (0, 0)
