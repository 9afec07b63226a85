"""Units that are far from one: values of 1e-9 f, and surrogates without noise."""

from __future__ import annotations

import numpy as np
import pytest

from fzoos import Adam, Auto, FedZO, ScaffoldI, minimize


def bowl(centre, unit=1.0):
    return lambda x: unit * float(np.sum((x - centre) ** 2))


@pytest.mark.parametrize(
    ("algorithm", "unit"), [(Auto(), 1e-30), (FedZO(), 1e-9), (ScaffoldI(), 1e-30)], ids=lambda a: str(a)[:8]
)
def test_tiny_values_take_the_same_steps(algorithm, unit):
    """f and 1e-9 f have one minimum; Adam's eps, which is absolute, stopped the second long before it."""
    plain, tiny = (
        minimize([bowl(0.3, u), bowl(0.4, u)], np.zeros(4), bounds=(-1, 1), algorithm=algorithm, rounds=10, seed=0).x
        for u in (1.0, unit)
    )
    assert tiny == pytest.approx(plain, abs=1e-4)


def test_eps_of_ordinary_gradients_is_what_was_given():
    adam = Adam(0.1)
    assert adam.scaled(1e-4) is adam
    assert adam.scaled(0.0) is adam  # nothing is known yet
    assert adam.scaled(1e-6).eps == pytest.approx(1e-14)
