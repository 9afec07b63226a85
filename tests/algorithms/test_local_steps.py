"""T and the optimiser are settings of the algorithms that have local steps, and of no others."""

from __future__ import annotations

import numpy as np
import pytest

from fzoos import SGD, Adam, FedZO, minimize
from fzoos.algorithms import ALGORITHMS
from fzoos.messages.message import Message

SEARCHES = {"fedcma", "fedbpt"}  # their steps are generations
WITHOUT = {"auto", "fedtrustregion", "fedlinesearch", "fedlbfgs"}


@pytest.mark.parametrize("name", sorted(WITHOUT))
def test_the_others_take_none(name):
    for setting in ({"local_steps": 5}, {"optimizer": SGD(0.1)}):
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            ALGORITHMS[name](**setting)


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - WITHOUT))
def test_what_they_must_be(name):
    kind = ALGORITHMS[name]
    with pytest.raises(ValueError, match="local_steps must be at least 1, got 0"):
        kind(local_steps=0)
    with pytest.raises(TypeError, match=r"local_steps must be an integer, got 2\.5"):
        kind(local_steps=2.5)
    if name not in SEARCHES:
        for wrong in (0.01, Adam, None):
            with pytest.raises(TypeError, match="optimizer must be Optimizer, got"):
                kind(optimizer=wrong)


def test_a_step_of_sgd_by_hand():
    """f(x) = x on [0, 1], every slope 1 and every estimate the mean of u_q^2: T = 2 steps of eta times that."""
    points = []

    def f(x):
        points.append(x[0])
        return x[0]

    result = minimize([f], [0.9], bounds=(0, 1), algorithm=FedZO(local_steps=2, optimizer=SGD(0.1)), rounds=1, seed=0)
    x = 0.9
    for asked in np.array(points).reshape(2, 21):
        u = (asked[1:] - asked[0]) / 0.01
        x -= 0.1 * np.mean(u**2)
    assert result.x[0] == pytest.approx(x, abs=1e-12)


def test_a_cut_round_has_the_settings_of_one_with_fewer_steps():
    whole = ALGORITHMS["decomfl"](local_steps=5)
    request = Message("update", 1, {}, {"seed": 1, "cut": 2})
    assert [whole.steps_in(message) for message in (Message("update", 1), request)] == [5, 2]
    assert whole.cost(3, request, first=False) == 2 * 21
    assert {name: part.shape for name, part in whole.server(3).reply_parts(request).items()} == {"s": (2 * 20,)}
