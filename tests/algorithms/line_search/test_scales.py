"""How wide a design is and how many directions it has, by hand, and against what random directions really show."""

import math

import numpy as np
import pytest

from fzoos.algorithms.line_search.client import LINE
from fzoos.algorithms.line_search.control import Mode
from fzoos.algorithms.line_search.design import SPREAD
from fzoos.algorithms.line_search.directions import COMMON
from fzoos.algorithms.line_search.scales import (
    QUERIES,
    Quality,
    Scales,
    first_size,
    is_converged,
    next_scales,
    next_size,
)

MANY = 10**12  # directions: q is sure then


def quality(noise, bend, count=MANY, length=1.0):
    """The q of wide and narrow distances where slopes of 1 have the squared errors A / t^2 and B t^2."""
    errors = [noise / t2 + bend * t2 for t2 in (SPREAD, 1.0 / SPREAD)]
    return Quality(length, count, *(1.0 / (1.0 + e) for e in errors), *(1.0 + e for e in errors))


def scaled(scales, now, curvature=0.0, step=0.2, moved=0.04, dim=50):
    return next_scales(scales, now, curvature, step, moved, dim)


@pytest.mark.parametrize(("noise", "bend"), [(0.3, 0.1), (0.1, 0.3), (2.0, 1.0), (0.01, 0.02)])
def test_radius_by_hand(noise, bend):
    """A and B are found from both q, and H^4 A / B is where A / t^2 + B t^2 is least, as a search finds it too."""
    after = scaled(Scales(radius=0.05), quality(noise, bend))
    t2 = np.linspace(0.1, 9.0, 100_000)
    best = math.sqrt(t2[np.argmin(noise / t2 + bend * t2)])
    assert after.radius / 0.05 == pytest.approx((noise / bend) ** 0.25) == pytest.approx(best, rel=1e-3)


def test_quality():
    """Signal and q over all distances: both kinds have slopes of 1."""
    now = quality(0.3, 0.1)
    assert now.signal == pytest.approx(1.0)
    assert now.overall == pytest.approx(2.0 / (now.wide_square + now.narrow_square))


def test_radius_is_held():
    """By a factor 3 from the last one, and between 1e-3 and what wide distances of 0.3 have."""
    noisy, smooth = quality(1.0, 0.0), quality(0.0, 1.0)
    for radius, expected in ((0.02, 0.06), (0.2, 0.3 / math.sqrt(SPREAD))):
        assert scaled(Scales(radius=radius), noisy).radius == pytest.approx(expected)
    for radius, expected in ((0.2, 0.2 / 3.0), (0.002, 1e-3)):
        assert scaled(Scales(radius=radius), smooth).radius == pytest.approx(expected)


def test_curvature_is_at_least_the_mean():
    """B is at least lambda^2 H^2 / 2 d: lambda = 2, H = 1, d = 50 give 0.04; with A = 0.04 the radius stays."""
    assert scaled(Scales(radius=0.05), quality(0.04, 0.0), curvature=2.0).radius == pytest.approx(0.05)


def test_nothing_is_seen():
    """Back to the radius at which there was most to be seen; without one, wider."""
    blind = Quality(1.0, 100, 0.05, 0.0, 1.0, 1.0)
    assert scaled(Scales(radius=0.05, best=0.6, best_radius=0.03), blind).radius == pytest.approx(0.03)
    assert scaled(Scales(radius=0.05), blind).radius == pytest.approx(0.15)
    seen = scaled(Scales(radius=0.05, best=0.6, best_radius=0.03), quality(0.1, 0.1))
    assert (seen.best, seen.best_radius) == (quality(0.1, 0.1).overall, 0.05)  # better than what was better
    assert scaled(Scales(radius=0.05, best=0.6, best_radius=0.03), blind).best == pytest.approx(0.48)


def test_nothing_is_told():
    """Under differential privacy: the design is as wide as the last move; where there was none, it stays."""
    assert scaled(Scales(radius=0.05), None).radius == pytest.approx(0.04)
    assert scaled(Scales(radius=0.05), None, moved=0.0).radius == pytest.approx(0.05)
    assert scaled(Scales(radius=0.05), None).first == 0.0


def test_ridge_by_hand():
    """(1 - q) / q H^2 / l^2, l^2 = d / 4: q = 0.8, H = 1, d = 50 give 0.25 / 12.5; at least 1e-8, q at least 0.05."""
    assert scaled(Scales(), Quality(1.0, 100, 0.8, 0.8, 4.0, 4.0)).ridge == pytest.approx(0.02)
    assert scaled(Scales(), Quality(1.0, 100, 1.0, 1.0, 4.0, 4.0)).ridge == 1e-8
    assert scaled(Scales(), Quality(1.0, 100, 0.0, 0.0, 4.0, 4.0)).ridge == pytest.approx(1 / 0.05 / 12.5)


def test_reach():
    """L is the step, at least 0.3 of the last, and of H."""
    for step, expected in ((0.5, 0.5), (3.0, 3.0), (0.1, 0.3), (0.0, 0.3)):
        assert scaled(Scales(radius=0.01, step_size=1.0), quality(0.1, 0.1), step=step).step_size == expected
    after = scaled(Scales(radius=0.1, step_size=0.0), quality(0.1, 0.1), step=0.0)
    assert after.step_size == pytest.approx(LINE[0] * after.radius * math.sqrt(50))


def gain(count, ratio, dim, cost=QUERIES):
    """Of a query: (m/d) / ((1 + r m/d) (m + c))."""
    return count / dim / ((1.0 + ratio * count / dim) * (count + cost))


@pytest.mark.parametrize("ratio", [2.0, 5.0, 30.0])
def test_size_against_a_search(ratio):
    """Twice the m at which a query gains most, as a search finds it; that costs at most a ninth of the gain."""
    dim = 2_000
    after = first_size(Scales(ratio=math.log(ratio)), Mode.SHARED, 5, dim)
    counts = np.arange(1, dim)
    best = counts[np.argmax(gain(counts, ratio, dim))]
    assert after.size == pytest.approx(2 * best, rel=0.1)
    assert gain(best, ratio, dim) / gain(after.size, ratio, dim) < 1.0 + 1.0 / 8.0


def test_size_is_held():
    """Shared: between what a round costs anyway and d/2. Split: 16 and a few for each, up to all of them."""
    for mode, least, most in ((Mode.SHARED, QUERIES, 150), (Mode.SPLIT, COMMON + 25, 300)):
        assert first_size(Scales(ratio=20.0), mode, 5, 300).size == least
        assert first_size(Scales(ratio=-20.0), mode, 5, 300).size == most


def test_dealt_size():
    """A client's fraction of m costs m/N: M = 2 sqrt(N c' d / r), c' with what is queried more often than once."""
    size = first_size(Scales(ratio=math.log(9.0)), Mode.SPLIT, 5, 3_000).size
    assert size == math.ceil(2.0 * math.sqrt(5 * (QUERIES + 16 * 0.8) * 3_000 / 9.0))


@pytest.mark.parametrize("count", [20, 60, 200])
def test_ratio_of_a_quadratic(count):
    """r, by its definition, from random directions: F bends by lambda (1 + r m/d) along what m of them show."""
    rng, dim = np.random.default_rng(count), 400
    eigenvalues = np.where(np.arange(dim) < 20, 20.0, 0.1)
    gradient = eigenvalues * rng.standard_normal(dim)
    found = []
    for _ in range(60):
        rows = np.linalg.qr(rng.standard_normal((dim, count)))[0].T
        fresh = (rows @ gradient) @ rows
        slope = math.sqrt(fresh @ fresh)
        kappa = fresh @ (eigenvalues * fresh) / slope**2
        place = slope / kappa
        now = Quality(1.0, count, 1.0, 1.0, 1.0, 1.0)
        found.append(next_size(Scales(), now, slope, place, eigenvalues.mean(), Mode.SHARED, 5, dim).ratio / 0.5)
    whole = gradient @ (eigenvalues * gradient) / (gradient @ gradient) / eigenvalues.mean() - 1.0
    assert math.exp(np.mean(found)) == pytest.approx(whole, rel=0.25)


def test_ratio_is_smoothed_and_held():
    """Half of the newest logarithm; where F does not bend on average, few directions are better."""
    now = Quality(1.0, 100, 1.0, 1.0, 1.0, 1.0)
    after = next_size(Scales(ratio=2.0), now, 3.0, 1.0, 1.0, Mode.SHARED, 5, 400)  # r = (3 - 1) 400 / 100
    assert after.ratio == pytest.approx(0.5 * (2.0 + math.log(8.0)))
    for place, curvature in ((1.0, 0.0), (1.0, -2.0), (0.0, 1.0)):
        ratio = next_size(Scales(), now, 3.0, place, curvature, Mode.SHARED, 5, 400).ratio
        assert ratio == pytest.approx(0.5 * math.log(1e3))
    assert next_size(Scales(), now, 1.0, 9.0, 1.0, Mode.SHARED, 5, 400).ratio == pytest.approx(0.5 * math.log(1e-3))


def test_resting():
    """A round without a step is no minimum while design or lines can become smaller; where all is flat it is one."""
    shortest = LINE[0] * 1e-3 * math.sqrt(50)
    assert is_converged(Scales(radius=1e-3, step_size=shortest, best=0.9), 50)
    assert not is_converged(Scales(radius=2e-3, step_size=shortest, best=0.9), 50)
    assert not is_converged(Scales(radius=1e-3, step_size=2.0 * shortest, best=0.9), 50)
    widest = 0.3 / math.sqrt(SPREAD)
    flat = Scales(radius=widest, step_size=LINE[0] * widest * math.sqrt(50))
    assert is_converged(flat, 50)
    assert not is_converged(flat._replace(best=0.1), 50)
