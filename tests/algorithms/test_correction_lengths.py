"""The correction lengths gamma_t, each against a number worked out by hand (SPEC: "Correction length")."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fzoos.algorithms.correction_lengths import Constant, DistanceAware, Measured, Moment, Reciprocal, Theoretical
from fzoos.surrogates.kernels import Matern52, SquaredExponential

DELTA = math.exp(-1.0)  # ln(1/delta) = 1, so that omega = d + 2 (sqrt(d) + 1) = 4 + 2 * 3 = 10 for d = 4


def moment(**changes) -> Moment:
    settings = {
        "step": 3,
        "round": 3,
        "local_steps": 2,
        "clients": 5,
        "dim": 4,
        "kernel": SquaredExponential(1.0),
        "noise": 0.5,
        "points": 2,
        "mean_squared_distance": lambda: 1.0,
        "transfer_error": lambda: 1.0,
    }
    return Moment(**{**settings, **changes})


@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
def test_constant(gamma):
    assert Constant(gamma)(moment(step=1)) == Constant(gamma)(moment(step=9)) == gamma


def test_reciprocal():
    # 1/t, t = 1..T: the whole correction at the first step of every round.
    assert [Reciprocal()(moment(step=t, round=r)) for r, t in ((1, 1), (1, 2), (2, 1), (2, 4))] == [1.0, 0.5, 1.0, 0.25]


def test_theoretical():
    # Cor. 1: G / (G + 2 omega kappa rho^{(r-1)T} + 2 N eps) with omega = 10, kappa = -2 kappa'(0) = 1/l^2 = 1,
    # rho^{2 * 2} = 1/16, N eps = 1/2: 0.25 / (0.25 + 20/16 + 1) = 0.25 / 2.5 = 0.1.
    length = Theoretical(heterogeneity=0.25, decay=0.5, feature_error=0.1, delta=DELTA)
    assert length(moment()) == pytest.approx(0.1, rel=1e-14)
    # Round 1: rho^0 = 1, so 0.25 / (0.25 + 20 + 1) = 1/85, at every step of it.
    assert length(moment(round=1)) == pytest.approx(1 / 85, rel=1e-14)
    assert length(moment(round=1, step=1)) == pytest.approx(1 / 85, rel=1e-14)
    # Matern-5/2 with l = 2: kappa = 5 / (3 l^2) = 5/12: 0.25 / (0.25 + 20 * 5/12 + 1) = 3/115.
    assert length(moment(round=1, kernel=Matern52(2.0))) == pytest.approx(3 / 115, rel=1e-14)


def test_distance_aware():
    # Cor. 2: G / (G + 2 (omega kappa - 4 omega h / (d + sigma^2 d / n) + N eps)), h(iota) = iota kappa'(iota)^2.
    # iota = 1: kappa'(1) = -exp(-1/2)/2, h = 1/(4e). d + sigma^2 d / n = 4 + 0.5 * 4 / 2 = 5, so the subtracted term is
    # 4 * 10 / (4e) / 5 = 2/e; with G = 1, N eps = 1/2: 1 / (1 + 2 (10 - 2/e + 1/2)) = 1 / (22 - 4/e).
    length = DistanceAware(heterogeneity=1.0, feature_error=0.1, delta=DELTA)
    assert length(moment()) == pytest.approx(1 / (22 - 4 / math.e), rel=1e-14)
    # iota = 4, l = 1, n = 1, sigma^2 = 0, no feature error: kappa'(4)^2 = exp(-4)/4, h = exp(-4), the term is
    # 4 * 10 exp(-4) / 4 = 10 exp(-4): 1 / (1 + 20 (1 - exp(-4))).
    plain = DistanceAware(heterogeneity=1.0, delta=DELTA)
    far = moment(mean_squared_distance=lambda: 4.0, noise=0.0, points=1)
    assert plain(far) == pytest.approx(1 / (1 + 20 * (1 - math.exp(-4))), rel=1e-14)


def test_measured():
    # G / (G + E): 3 / (3 + 1) with the E = 1 of `moment`. Nothing measured, or nothing at all: the whole correction.
    assert Measured()(moment(heterogeneity=3.0)) == pytest.approx(0.75, rel=1e-14)
    assert Measured()(moment(heterogeneity=3.0, transfer_error=lambda: 0.0)) == 1.0
    assert Measured()(moment(heterogeneity=0.0)) == 0.0
    assert Measured()(moment()) == Measured()(moment(heterogeneity=0.0, transfer_error=lambda: 0.0)) == 1.0


def test_measured_minimises_the_disparity():
    # Prop. 1: (1 - gamma)^2 G + gamma^2 E is smallest at G / (G + E).
    for g, e in ((3.0, 1.0), (0.2, 5.0)):
        gammas = np.linspace(0.0, 1.0, 100_001)
        best = gammas[np.argmin((1 - gammas) ** 2 * g + gammas**2 * e)]
        assert Measured()(moment(heterogeneity=g, transfer_error=lambda e=e: e)) == pytest.approx(best, abs=1e-5)


@given(
    st.integers(1, 100),
    st.integers(1, 50),
    st.integers(1, 3000),
    st.floats(1e-6, 1e6),
    st.floats(0.0, 1e3),
    st.floats(0.05, 20.0),
    st.floats(0.0, 500.0),
)
def test_every_length_is_between_zero_and_one(step, round_, dim, g, epsilon, scale, iota):
    # Eq. (2): gamma in [0, 1].
    for kernel in (SquaredExponential(scale), Matern52(scale)):
        where = moment(step=step, round=round_, dim=dim, kernel=kernel, mean_squared_distance=lambda: iota)
        where = replace(where, heterogeneity=g, transfer_error=lambda: epsilon)
        for length in (Constant(), Reciprocal(), Theoretical(g, 0.9, epsilon), DistanceAware(g, epsilon), Measured()):
            assert 0.0 <= length(where) <= 1.0


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Constant(1.5), ValueError, "gamma"),
        (lambda: Constant("one"), TypeError, "gamma"),
        (lambda: Theoretical(0.0), ValueError, "heterogeneity"),
        (lambda: Theoretical(1.0, decay=1.1), ValueError, "decay"),
        (lambda: Theoretical(1.0, delta=0.0), ValueError, "delta"),
        (lambda: DistanceAware(np.nan), ValueError, "heterogeneity"),
        (lambda: DistanceAware(1.0, feature_error=-1.0), ValueError, "feature_error"),
    ],
)
def test_bad_settings_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()
