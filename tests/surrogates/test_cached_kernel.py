"""The cached kernel: against the kernel computed from all points."""

import numpy as np

from fzoos._util.panels import row_squares
from fzoos.surrogates.cached_kernel import CachedKernel
from fzoos.surrogates.trend import length_scale

DIM = 30


def rounds(seed):
    """Points of a path, and which of them are in use: new ones enter, old ones leave, some come back."""
    rng = np.random.default_rng(seed)
    points, centre = np.empty((0, DIM)), np.full(DIM, 0.5)
    for _ in range(8):
        points = np.vstack([points, centre + 0.1 * rng.standard_normal((12, DIM))])
        yield points, rng.permutation(len(points))[: 5 + len(points) // 2], centre
        centre = centre + 0.05 * rng.standard_normal(DIM)


def plain(points):
    gaps = np.sum((points[:, None] - points) ** 2, axis=-1)
    return np.exp(-0.5 * gaps / length_scale(DIM) ** 2)


def test_against_the_plain_formula():
    """Above the diagonal, in every round: exp(-|u - v|^2 / 2 l^2), to what the squares' rounding leaves."""
    cache, known = CachedKernel(), 0
    for points, numbers, centre in rounds(0):
        order = cache.order(numbers)
        known += len(np.intersect1d(order, cache._numbers))
        assert sorted(order) == sorted(numbers)
        offsets = points[order] - centre
        kernel = cache.kernel(order, offsets, row_squares(offsets))
        above = np.triu_indices(len(order), 1)
        np.testing.assert_allclose(kernel[above], plain(points[order])[above], rtol=1e-14, atol=1e-14)
    assert known > 50  # otherwise nothing was cached


def test_a_restored_cache_gives_the_same_bits():
    """It is part of a site's state."""
    old, new = CachedKernel(), CachedKernel()
    for points, numbers, centre in rounds(7):
        found = []
        for kernel in (old, new):
            order = kernel.order(numbers)
            offsets = points[order] - centre
            found.append(np.triu(kernel.kernel(order, offsets, row_squares(offsets)), 1))
        assert np.array_equal(*found)
        new.release()
        new.restore(old.state())


def test_all_or_nothing_new():
    """The same points again, and no points."""
    cache, points = CachedKernel(), np.random.default_rng(0).random((6, DIM))
    first = np.triu(cache.kernel(cache.order(np.arange(6)), points, row_squares(points)), 1)
    again = np.triu(cache.kernel(cache.order(np.arange(6)), points + 0.1, row_squares(points + 0.1)), 1)
    assert np.array_equal(first, again)
    cache.release()
    assert len(cache.order(np.arange(3))) == 3
    assert cache._kernel.shape == (0, 0)
