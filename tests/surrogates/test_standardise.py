"""Standardised observations against NumPy (SPEC: "zero mean, unit scale over the points in use; undone afterwards")."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fzoos.surrogates.standardise import Standardised


def test_by_hand():
    # mean 3, deviations (-2, 0, 2), scale sqrt(8/3).
    s = Standardised.of(np.array([1.0, 3.0, 5.0]))
    assert s.mean == 3.0
    assert s.scale == pytest.approx(np.sqrt(8 / 3), rel=1e-15)
    np.testing.assert_allclose(s.values, np.array([-2.0, 0.0, 2.0]) / np.sqrt(8 / 3), rtol=1e-15)


@given(arrays(float, st.integers(1, 30), elements=st.floats(-1e100, 1e100)))
def test_zero_mean_unit_scale_and_back(y):
    s = Standardised.of(y)
    assert s.scale > 0.0
    assert np.all(np.isfinite(s.values))
    np.testing.assert_allclose(s.mean + s.scale * s.values, y, rtol=0, atol=1e-14 * np.max(np.abs(y)))
    if np.ptp(y) > 1e-6 * np.max(np.abs(y)):
        assert np.mean(s.values) == pytest.approx(0.0, abs=1e-8)
        assert np.std(s.values) == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("factor", [1e-300, 1e-170, 1e170, 1e300])
def test_squares_that_overflow_or_vanish(factor):
    # (1e170)^2 overflows and (1e-170)^2 is zero in float64; the standardised values are those of [0, 1].
    s = Standardised.of(factor * np.array([0.0, 1.0]))
    np.testing.assert_allclose(s.values, [-1.0, 1.0], rtol=1e-14)
    assert s.scale == pytest.approx(factor / 2, rel=1e-14)


def test_constant_and_empty():
    s = Standardised.of(np.full(4, 7.0))
    np.testing.assert_array_equal(s.values, np.zeros(4))
    assert (s.mean, s.scale) == (7.0, 1.0)
    assert len(Standardised.of(np.empty(0)).values) == 0
