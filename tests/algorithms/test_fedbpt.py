"""FedBPT: the server's generation by hand, what travels, what it reaches, and where it cannot be used."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from fzoos import FedBPT, Study, minimize
from fzoos.algorithms.base import Round
from fzoos.engines.flower.secure import SecureFlowerEngine
from fzoos.federation.privacy import Privacy

PROBLEM = {"x0": np.zeros(3), "bounds": (-1, 1), "seed": 0}


def bowl(target):
    return lambda x: float(np.sum((x - target) ** 2))


def reply(x, loss, sigma):
    return {"x": np.array(x), "loss": np.array([loss]), "sigma": np.array([sigma])}


def generation(algorithm, state, replies, weights):
    """The server's state after a round with these replies."""
    stacked = {name: np.stack([one[name] for one in replies]) for name in replies[0]}
    round = Round(1, 0, np.array(weights, dtype=float), replied=tuple(range(len(replies))))
    return algorithm.server(2).next_state(state, "update", stacked, round)


def test_the_servers_generation_by_hand():
    """Two clients, d = 2, mu = 10 / 2. The second has the smaller loss: its rank's weight is ln 2.5, the other's ln 2.5
    - ln 2. Equations (1) to (5) with the constants of the CMA-ES tutorial."""
    first, second = math.log(2.5), math.log(2.5) - math.log(2.0)
    w = np.array([second, first]) / (first + second)
    x = w @ np.array([[0.2, 0.4], [0.6, 0.8]])
    s = math.sqrt((0.3**2 + 0.5**2) / 2 / 5)
    mu_w = 1 / (w**2).sum()
    c = (mu_w + 2) / (2 + mu_w + 3)
    path = math.sqrt(c * (2 - c) * mu_w) * (x - 0.5) / s  # the root of (mu_w - 1) / 3 is below 1: damping 1 + c
    chi = math.sqrt(2) * (1 - 1 / 8 + 1 / 84)
    sigma = 0.2 * math.exp(c / (1 + c) * (np.linalg.norm(path) / chi - 1))
    replies = [reply([0.2, 0.4], 3.0, 0.3), reply([0.6, 0.8], 1.0, 0.5)]
    made = generation(FedBPT(population=10), {"x": np.full(2, 0.5)}, replies, [2, 2])
    np.testing.assert_allclose(made["x"], x)
    np.testing.assert_allclose(made["path"], path)
    np.testing.assert_allclose(made["sigma"], [sigma])
    again = generation(FedBPT(population=10), made, replies, [1, 1])
    decayed = (1 - c) * path + math.sqrt(c * (2 - c) * mu_w) * (x - x) / s
    np.testing.assert_allclose(again["path"], decayed, atol=1e-12)


def test_weights_are_factors_of_the_ranks():
    """A client of four times the weight, in the second of two ranks."""
    made = generation(FedBPT(), {"x": np.zeros(2)}, [reply([0.0, 0.0], 1.0, 0.1), reply([1.0, 1.0], 2.0, 0.1)], [1, 4])
    share = 4 * (math.log(2.5) - math.log(2)) / (math.log(2.5) + 4 * (math.log(2.5) - math.log(2)))
    np.testing.assert_allclose(made["x"], [share, share])


def test_queries_and_bytes():
    """T lambda + 1 queries; x, loss and sigma up with a count; x down, and from the second round on sigma."""
    result = minimize([bowl(0.2), bowl(0.4)], algorithm=FedBPT(local_steps=2, population=6), rounds=3, **PROBLEM)
    assert result.queries_per_client == (39, 39)
    assert result.bytes_up == 3 * 2 * 8 * (3 + 2 + 1)
    assert result.bytes_down == 2 * 8 * 3 + 2 * 2 * 8 * (3 + 1)


def test_failed_queries():
    """A client all of whose queries fail stays where it is, and the run goes on."""
    sites = [bowl(0.3), lambda x: math.nan]
    result = minimize(sites, algorithm=FedBPT(local_steps=2, population=6), rounds=2, on_failure="skip", **PROBLEM)
    assert result.status == "completed"
    assert np.all(np.isfinite(result.x))


def test_with_constraints_it_continues_from_its_own_x():
    """Where a later x is infeasible the last feasible one is reported, but the server's steps are from x to x: the
    search is that of a run without the constraint as long as that is nowhere violated before."""
    steps = []

    class Spied(FedBPT):
        def server(self, dim):
            half = super().server(dim)
            following = half.next_state

            def next_state(state, kind, mean, round):
                after = following(state, kind, mean, round)
                steps.append((state["x"], after["x"]))
                return after

            half.next_state = next_state
            return half

    minimize([lambda x: (bowl(0.9)(x), float(x.sum()))], algorithm=Spied(local_steps=2), rounds=6, **PROBLEM)
    assert any(before.sum() > 1.5 for before, _ in steps)  # infeasible: 0 is 0.5 in the cube
    for (_, after), (before, _) in pairwise(steps):
        assert np.array_equal(after, before)


def study(**changes):
    return Study(
        **{"name": "s", "sites": ["a", "b"], "x0": [0.0], "bounds": [-1, 1], "algorithm": {"name": "fedbpt"}, **changes}
    )


def test_what_needs_a_mean_is_refused():
    """Robust aggregates and secure sums know no single replies; noise would leave nothing of a loss."""
    with pytest.raises(ValueError, match="aggregate is 'median', but FedBPT combines replies in its own way"):
        study(aggregate="median")
    with pytest.raises(ValueError, match="FedBPT needs the single replies"):
        SecureFlowerEngine(None, study())
    with pytest.raises(ValueError, match=r'FedBPT would send loss, of which noise leaves nothing; set name = "fedcma"'):
        Privacy(clip=0.1, noise=1.0).check(FedBPT())
