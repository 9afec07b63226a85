"""The best distance of queries under noise, against the surrogate itself and against Lambert's function."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import lambertw

from fzoos.algorithms.fixed_fzoos.radius import best_distance, best_radius, explained
from fzoos.surrogates.gp import DerivedGP
from fzoos.surrogates.kernels import Matern52, SquaredExponential

KERNELS = [SquaredExponential, Matern52]


def trace(kernel, ratio, dim, count, distance):
    """The trace at the centre of a star of real points, by the surrogate."""
    directions = np.linalg.qr(np.random.default_rng(0).standard_normal((dim, dim)))[0][:count]
    x = np.full(dim, 0.3)
    gp = DerivedGP(kernel, ratio, dim)
    gp.append(np.concatenate([x[None, :], x + distance * directions]), np.zeros(count + 1))
    return float(gp.grad_uncertainty(x[None, :])[0])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("count", [1, 4, 12])
@pytest.mark.parametrize(("ratio", "distance"), [(1e-4, 0.1), (0.05, 0.7), (2.0, 3.0)])
def test_closed_form_is_the_surrogates_trace(kernel, count, ratio, distance):
    """Eq. (1) and (2) against the growing factor, for stars of one point, of some and of all directions."""
    k, dim = kernel(1.3), 12
    prior = -2.0 * k.dkappa0 * dim
    expected = trace(k, ratio, dim, count, distance)
    assert prior - explained(k, ratio, count, distance) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("ratio", [1e-5, 1e-3, 0.1, 1.0, 10.0])
def test_squared_exponential_in_closed_form(ratio):
    """Eq. (3), for many points."""
    expected = 2.5 * math.sqrt(1.0 + lambertw(-math.exp(-1.0) / (1.0 + ratio)).real)
    assert best_distance(SquaredExponential(2.5), ratio, 10**6) == pytest.approx(expected, rel=2e-3)


def test_little_and_much_noise():
    """h is about l (2 lambda)^{1/4}, and l."""
    kernel = SquaredExponential(3.0)
    assert best_distance(kernel, 1e-8, 10**8) == pytest.approx(3.0 * (2e-8) ** 0.25, rel=0.01)
    assert best_distance(kernel, 1e4, 10**4) == pytest.approx(3.0, rel=0.01)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("ratio", [1e-4, 1e-2, 1.0])
def test_nothing_is_better(kernel, ratio):
    """No distance of a fine grid leaves a smaller trace, by the surrogate on real points."""
    k, dim = kernel(0.8), 8
    best = trace(k, ratio, dim, dim, best_distance(k, ratio, dim))
    others = [trace(k, ratio, dim, dim, 0.8 * math.exp(g)) for g in np.linspace(-6.0, 1.3, 120)]
    assert best <= min(others) * (1.0 + 1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_distances_are_in_length_scales_and_grow_with_noise(kernel):
    """Twice the length scale, twice the distance; more noise, further apart."""
    ratios = [1e-6, 1e-4, 1e-2, 1.0]
    found = [best_distance(kernel(1.0), ratio, 50) for ratio in ratios]
    assert found == sorted(found)
    assert [best_distance(kernel(2.0), ratio, 50) for ratio in ratios] == pytest.approx([2.0 * h for h in found], 1e-3)


def test_radius():
    """Over sqrt(d), and not beyond the limit."""
    kernel = Matern52(4.0)
    h = best_distance(kernel, 1e-3, 50)
    assert best_radius(kernel, 1e-3, dim=100, count=50) == pytest.approx(h / 10.0, rel=1e-9)
    assert best_radius(kernel, 1e-3, dim=4, count=4) == 0.15
    assert best_radius(kernel, 1e-3, dim=4, count=4, at_most=9.0) == pytest.approx(h / 2.0, rel=0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1.0, 3), "ratio .* must be"),
        ((0.0, 3), "ratio .* must be positive"),
        ((math.nan, 3), "ratio .* must be a finite number"),
        ((0.1, 0), r"count \(m\) must be at least 1"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    """What came, and what was expected."""
    with pytest.raises(ValueError, match=message):
        best_distance(Matern52(), *arguments)
