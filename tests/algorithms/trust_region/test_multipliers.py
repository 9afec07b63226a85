"""How a client of the trust region adapts its multipliers, by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from fzoos.algorithms.trust_region.global_correction import GlobalCorrection
from fzoos.algorithms.trust_region.multipliers import Multipliers
from fzoos.objectives.constraints import AugmentedLagrangian


def test_the_factor_b():
    """Of c(x_r) = 1, half is left: b grows by a half. A fifth is left: it stays. Then c changes its sign: b halves,
    and is at least 1 / N."""
    lagrangian = AugmentedLagrangian(1)
    lagrangian.multipliers, lagrangian.penalties = np.ones(1), np.full(1, 10.0)
    multipliers = Multipliers(SimpleNamespace(dim=2, clients=4, trajectory=SimpleNamespace(lagrangian=lagrangian)))
    multipliers._boost, multipliers._last = np.full(1, 0.25), np.ones(1)
    factors = []
    for c in (0.5, 0.1, -0.05, -0.001, 0.0009):
        lagrangian.at_server_x = np.array([3.0, c])
        multipliers.update(np.zeros(2))
        factors.append(float(multipliers._boost[0]))
    assert factors == pytest.approx([0.375, 0.375, 0.25, 0.25, 0.25])


def test_gradients_of_past_rounds_follow_new_multipliers():
    """All averaged gradients change by (1, 2), all own ones by (3, 4)."""
    correction = GlobalCorrection(2)
    correction.add(np.zeros(2), np.array([10.0, 20.0]), np.array([5.0, 6.0]))
    correction.shift(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    ((_, averaged, own),) = correction._rows
    assert (averaged.tolist(), own.tolist()) == ([11.0, 22.0], [8.0, 10.0])
