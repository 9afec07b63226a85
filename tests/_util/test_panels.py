"""Matrices worked on a few rows at a time."""

from __future__ import annotations

import numpy as np
import pytest

from fzoos._util.panels import in_panels


@pytest.mark.parametrize("shape", [(3, 5), (401, 300), (1, 70_000), (70_000, 1)])
def test_a_function_of_each_number_is_the_same_bits_in_panels(shape):
    x = np.random.default_rng(0).random(shape)
    seen = []

    def function(part):
        seen.append(part.size)
        return np.exp(-part) * (1.0 + part)

    np.testing.assert_array_equal(in_panels(function, x), np.exp(-x) * (1.0 + x))
    np.testing.assert_array_equal(in_panels(function, x.T), (np.exp(-x) * (1.0 + x)).T)
    assert sum(seen) == 2 * x.size
