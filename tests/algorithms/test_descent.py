"""An optimiser with its state, as a client uses it."""

from __future__ import annotations

import numpy as np
import pytest

from fzoos import SGD, Adam
from fzoos.algorithms.local_steps import Descent


def test_steps_are_those_of_the_optimiser():
    """SGD by hand: eta g; and Adam's state is passed on: the same steps as by calling it directly."""
    np.testing.assert_array_equal(Descent(SGD(0.5), 2)(np.array([2.0, -4.0])), [1.0, -2.0])
    adam, descent = Adam(0.1), Descent(Adam(0.1), 3)
    state = adam.init(3)
    for gradient in np.random.default_rng(0).standard_normal((4, 3)):
        state, step = adam.step(state, gradient)
        np.testing.assert_array_equal(descent(gradient), step)


def test_small_gradients_are_steps_in_their_own_units():
    """1e-9 f takes the steps of f: eps is relative to the largest entry so far, 1.0 here."""
    large, small = Descent(Adam(0.1, eps=1e-8), 2), Descent(Adam(0.1, eps=1e-8), 2)
    for gradient in ([1.0, -1e-8], [0.5, 1e-8]):
        np.testing.assert_allclose(small(1e-9 * np.array(gradient)), large(np.array(gradient)), rtol=1e-12)
    assert small.largest == 1e-9


@pytest.mark.parametrize(("restart", "steps"), [(True, 0), (False, 1)])
def test_a_round_begins_from_zero_where_the_optimiser_restarts(restart, steps):
    descent = Descent(Adam(restart=restart), 4)
    descent(np.ones(4))
    descent.start_round(4)
    assert descent.state[0] == steps
