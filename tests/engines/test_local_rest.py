"""Clients that sleep give back what they can compute again (in-process engine)."""

import numpy as np
import pytest

from fzoos import Auto, FZooS, minimize
from fzoos.engines import local
from fzoos.federation.client import Client

SITES = [lambda x, c=c: float(np.mean((x - c) ** 2)) for c in np.linspace(0.1, 0.5, 6)]
SMALL = {"features": 50, "points": 30, "feature_points": 30}


def run(algorithm):
    return minimize(SITES, np.zeros(4), bounds=(-1, 1), algorithm=algorithm, rounds=8, participation=0.34, seed=1)


@pytest.mark.parametrize(
    ("algorithm", "digits"),
    [(Auto(), 0.0), (FZooS(**SMALL), 1e-6), (FZooS(features=50), 1e-6)],
    ids=("default", "nearest points", "all points"),
)
def test_sleep_changes_nothing(monkeypatch, algorithm, digits):
    """Only the two of six that take part are awake. x is that of clients that keep everything, but for the rounding of
    factors that are made in one go; bit for bit where there is none."""
    kept, slept = run(algorithm), []
    rest = Client.release
    monkeypatch.setattr(local, "_CACHED", 0)
    monkeypatch.setattr(Client, "release", lambda self: slept.append(self) or rest(self))
    again = run(algorithm)
    assert len(set(map(id, slept))) > 2
    assert again.queries == kept.queries
    np.testing.assert_allclose(again.x, kept.x, rtol=0, atol=digits)
