"""FedBPT: the server's generation by hand, what travels, what it reaches, and where it cannot be used."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fzoos import FedBPT, Study, minimize
from fzoos.engines.flower.secure import SecureFlowerEngine
from fzoos.federation.privacy import Privacy

PROBLEM = {"x0": np.zeros(3), "bounds": (-1, 1), "seed": 0}


def bowl(target):
    return lambda x: float(np.sum((x - target) ** 2))


def reply(x, loss, sigma):
    return {"x": np.array(x), "loss": np.array([loss]), "sigma": np.array([sigma])}


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
    made = FedBPT(population=10).combine_replies({"x": np.full(2, 0.5)}, replies, np.array([2.0, 2.0]))
    np.testing.assert_allclose(made["x"], x)
    np.testing.assert_allclose(made["path"], path)
    np.testing.assert_allclose(made["sigma"], [sigma])
    again = FedBPT(population=10).combine_replies(made, replies, np.ones(2))
    decayed = (1 - c) * path + math.sqrt(c * (2 - c) * mu_w) * (x - x) / s
    np.testing.assert_allclose(again["path"], decayed, atol=1e-12)


def test_weights_are_factors_of_the_ranks():
    """A client of four times the weight, in the second of two ranks."""
    made = FedBPT().combine_replies(
        {"x": np.zeros(2)}, [reply([0.0, 0.0], 1.0, 0.1), reply([1.0, 1.0], 2.0, 0.1)], np.array([1.0, 4.0])
    )
    share = 4 * (math.log(2.5) - math.log(2)) / (math.log(2.5) + 4 * (math.log(2.5) - math.log(2)))
    np.testing.assert_allclose(made["x"], [share, share])


def test_queries_and_bytes():
    """T lambda + 1 queries; x, loss and sigma up with two scalars; x down, and from the second round on sigma."""
    result = minimize([bowl(0.2), bowl(0.4)], algorithm=FedBPT(local_steps=2, population=6), rounds=3, **PROBLEM)
    assert result.queries_per_client == (39, 39)
    assert result.bytes_up == 3 * 2 * 8 * (3 + 2 + 2)
    assert result.bytes_down == 2 * 8 * 3 + 2 * 2 * 8 * (3 + 1)


def test_failed_queries():
    """A client all of whose queries fail stays where it is, and the run goes on."""
    sites = [bowl(0.3), lambda x: math.nan]
    result = minimize(sites, algorithm=FedBPT(local_steps=2, population=6), rounds=2, on_failure="skip", **PROBLEM)
    assert result.status == "completed"
    assert np.all(np.isfinite(result.x))


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
