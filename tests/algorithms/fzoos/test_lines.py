"""The server's arithmetic after a star: the step along a line, radius, ridge and phi, by hand and by polyfit."""

import math

import numpy as np
import pytest

from fzoos.algorithms.fzoos.control import Mode
from fzoos.algorithms.fzoos.lines import Quality, Scales, Step, best_step, differences, next_scales
from fzoos.algorithms.fzoos.star import LINE

T = np.array(LINE)
NONE, UP = np.zeros((2, 5)), np.full(5, 9.0)


def one(values, reach=1.0, failed=None):
    """The step where the second line only rises."""
    return best_step(np.stack([values, UP]), np.stack([np.zeros(5) if failed is None else failed, np.zeros(5)]), reach)


@pytest.mark.parametrize("vertex", [0.1, 0.25, 0.3, 0.6, 1.0, 1.7, 2.6, 2.9])
@pytest.mark.parametrize("reach", [1e-6, 1.0, 300.0])
def test_a_parabola_is_minimised(vertex, reach):
    """F a parabola along the line: the step ends in its minimum, whatever L is."""
    step = one((T - vertex) ** 2 - vertex**2, reach)
    assert step.line == 1
    assert step.length == pytest.approx(vertex * reach, rel=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_against_polyfit(seed):
    """Any values: the parabola through the lowest place and its neighbours, by polyfit, its vertex between them."""
    values = np.append(0.0, np.random.default_rng(seed).standard_normal(5))
    places = np.append(0.0, T)
    low = int(np.argmin(values))
    expected, promise = places[low], values[low]
    if low < 5:
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
    assert one(-T) == Step(1, 4.0)
    assert one(T) == Step(0, 0.0)
    assert one(T**2) == Step(0, 0.0)
    assert one(10 * T**2 - T) == Step(1, pytest.approx(0.05))


def test_the_lower_line_wins():
    """Values are compared where the parabolas have their minima: -0.36 against -0.4."""
    first, second = (T - 0.6) ** 2 - 0.36, 0.4 / 0.15**2 * (T - 0.15) ** 2 - 0.4
    assert second.min() > first.min()
    assert best_step(np.stack([first, second]), NONE, 1.0) == Step(2, pytest.approx(0.15))
    assert best_step(np.stack([second, first]), NONE, 1.0) == Step(1, pytest.approx(0.15))


def test_equal_lines():
    """Of two that are the same but for rounding the first is taken, on whatever machine."""
    values = (T - 0.6) ** 2 - 0.36
    for other in (values, values * (1 + 1e-12)):
        assert best_step(np.stack([values, other]), NONE, 1.0).line == 1
    assert best_step(np.stack([values, values * (1 + 1e-6)]), NONE, 1.0).line == 2


@pytest.mark.parametrize("share", [1.0, 0.01])
def test_failed_places(share):
    """A place at which even one client has no value is as if it had not been asked."""
    values, failed = (T - 0.9) ** 2 - 0.81, np.zeros(5)
    values[2], failed[2] = -100.0, share
    assert one(values, failed=failed) == Step(1, pytest.approx(0.9))
    failed[3:] = share  # 0, 0.25 and 0.5 are left, and it falls
    assert one(values, failed=failed) == Step(1, 0.5)
    assert one(values, failed=np.full(5, share)) == Step(0, 0.0)
    failed = np.array([0.0, 1.0, 1.0, 1.0, 1.0])
    assert one(np.array([-1.0, -5.0, -5.0, -5.0, -5.0]), failed=failed) == Step(1, 0.25)


def test_quality():
    """q in [0, 1], E = (1 - q) H^2 |fresh|^2 / m."""
    assert Quality.of(2.0, Mode.SHARED, 0.75, 3.0) == (2.0, Mode.SHARED, 0.75, 0.25 * 12.0)
    assert Quality.of(2.0, Mode.SHARED, 1.5, 3.0)[2:] == (1.0, 0.0)
    assert Quality.of(2.0, Mode.SHARED, -0.5, 3.0)[2:] == (0.0, 12.0)


def scaled(scales, quality, curvature=20.0, step=0.2, moved=0.04, dim=50):
    return next_scales(scales, quality, curvature, step, moved, dim)


def test_radius_by_hand():
    """d = 50, phi = 1/4, E = 4, lambda = 20: H^2 = sqrt(100) * 1 / 20 = 0.5 and h = sqrt(0.5 / 50) = 0.1."""
    after = scaled(Scales(radius=0.2, phi=0.25), Quality(1.0, Mode.SHARED, 0.8, 4.0))
    assert after.radius == pytest.approx(0.1)


def test_radius_is_held():
    """By a factor 3 from the last one, and in [1e-3, 0.3]."""
    error = Quality(1.0, Mode.SHARED, 0.8, 4.0)  # wants 0.1 as above
    for radius, expected in ((0.02, 0.06), (0.3, 0.1), (0.9, 0.3), (0.034, 0.1)):
        assert scaled(Scales(radius=radius, phi=0.25), error).radius == pytest.approx(expected)
    assert scaled(Scales(radius=0.2), Quality(1.0, Mode.SHARED, 0.8, 1e9)).radius == 0.3
    assert scaled(Scales(radius=0.002), Quality(1.0, Mode.SHARED, 1.0, 0.0)).radius == 1e-3


def test_radius_without_curvature():
    """Where F does not bend, the star is as wide as the last move; where there was none, it stays."""
    quality = Quality(1.0, Mode.SHARED, 0.8, 4.0)
    for curvature in (0.0, -3.0):
        assert scaled(Scales(radius=0.05), quality, curvature).radius == pytest.approx(0.04)
        assert scaled(Scales(radius=0.05), quality, curvature, moved=0.0).radius == pytest.approx(0.05)


def test_ridge_by_hand():
    """(1 - q) / q H^2 / l^2, l^2 = d / 4: q = 0.8, H = 1, d = 50 give 0.25 / 12.5; at least 1e-8, q at least 0.05."""
    assert scaled(Scales(), Quality(1.0, Mode.SHARED, 0.8, 4.0)).ridge == pytest.approx(0.02)
    assert scaled(Scales(), Quality(1.0, Mode.SHARED, 1.0, 0.0)).ridge == 1e-8
    assert scaled(Scales(), Quality(1.0, Mode.SHARED, 0.0, 4.0)).ridge == pytest.approx(1 / 0.05 / 12.5)


def test_phi_by_hand():
    """E = 17 at H = 2 and 2 at H = 1: kappa = 15 / 15 = 1, of E = 2 a half is curvature; phi = (0.9 + 0.5) / 2."""
    before = Scales(phi=0.9, last_length=2.0, last_mode=float(Mode.SHARED), last_error=17.0)
    assert scaled(before, Quality(1.0, Mode.SHARED, 0.5, 2.0)).phi == pytest.approx(0.7)
    # the same at every H: noise alone, (0.9 + 1) / 2; growing faster than H^4: no noise, 0.9 / 2
    assert scaled(before, Quality(1.0, Mode.SHARED, 0.5, 17.0)).phi == pytest.approx(0.95)
    assert scaled(before, Quality(1.0, Mode.SHARED, 0.5, 20.0)).phi == pytest.approx(0.95)
    assert scaled(before, Quality(1.0, Mode.SHARED, 0.5, 0.01)).phi == pytest.approx(0.45)


@pytest.mark.parametrize(
    "quality",
    [Quality(1.0, Mode.DEALT, 0.5, 2.0), Quality(2.2, Mode.SHARED, 0.5, 2.0), Quality(1.0, Mode.SHARED, 1.0, 0.0)],
    ids=("another mode", "the same H", "no error"),
)
def test_phi_that_cannot_be_told(quality):
    """Then it stays; and what was measured is remembered for the next time."""
    before = Scales(phi=0.9, last_length=2.0, last_mode=float(Mode.SHARED), last_error=17.0)
    after = scaled(before, quality)
    assert after.phi == 0.9
    assert (after.last_length, after.last_mode, after.last_error) == (quality.length, quality.mode, quality.error)


def test_reach():
    """L is the step, at least a quarter of the last."""
    quality = Quality(1.0, Mode.SHARED, 0.8, 4.0)
    for step, expected in ((0.5, 0.5), (3.0, 3.0), (0.1, 0.25), (0.0, 0.25)):
        assert scaled(Scales(reach=1.0), quality, step=step).reach == expected


def test_differences():
    """G' of two clients with slopes (1, 0) and (0, 1): mean of squares 1, square of the mean 1/2."""
    assert differences(1.0, 0.5) == 1.0
    assert differences(0.4999, 0.5) == 0.0  # rounding
    assert differences(1.0, 0.0) == math.inf
