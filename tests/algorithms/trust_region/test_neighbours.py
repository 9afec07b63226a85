"""Which shapes of surrogates a client compares, and which points it asks together."""

import copy

import numpy as np
import pytest

from fzoos import FedTrustRegion, Stop, minimize
from fzoos.algorithms.base import ClientContext
from fzoos.algorithms.trust_region import neighbours
from fzoos.algorithms.trust_region.client import RegionClient
from fzoos.algorithms.trust_region.control import RegionControl
from fzoos.messages.message import Message
from fzoos.objectives.box import Box
from fzoos.objectives.evaluator import Evaluator
from fzoos.objectives.trajectory import Trajectory


@pytest.mark.parametrize(("noise", "searches"), [(0.0, 1), (0.3, 9)])
def test_shapes_are_compared_again(monkeypatch, noise, searches):
    """Without noise in every round. With it, once 180 points are in use, in every ninth: 18 of them are new then."""
    tried: list[int] = []

    class Watched(neighbours.RegionProcess):
        def __init__(self, points, values, centre, like=None, **options):
            super().__init__(points, values, centre, like, **options)
            if not isinstance(like, neighbours.Choice):
                tried.append(rounds[0])

    monkeypatch.setattr(neighbours, "RegionProcess", Watched)
    rng, rounds = np.random.default_rng(0), [0]
    minimize(
        lambda x: float(np.sum((x - 0.3) ** 2) + noise * rng.standard_normal()),
        np.zeros(2),
        bounds=(-1, 1),
        algorithm=FedTrustRegion(),
        rounds=150,
        stop=Stop(tolerance=0.0 if noise else 1e-6),
        callback=lambda record: rounds.__setitem__(0, rounds[0] + 1),
        seed=0,
    )
    between = np.diff(sorted(set(tried)))
    assert max(between) == searches
    if noise:
        assert np.mean(between[-4:]) > searches / 2  # but for values that are a surprise


def noisy_client():
    """A client whose values have noise, the same at the same point."""
    evaluator = Evaluator(lambda u: float(np.sum((u - 0.4) ** 2) + 0.1 * np.sin(1e9 * u.sum())), Box.of((0, 1), 3))
    return RegionClient(ClientContext(evaluator, Trajectory(3), np.random.default_rng(0), 3, 2, True))


def play(client, rounds, rest=0, start=0.5):
    """Gradients that it sends."""
    sent, x = [], np.full(3, start)
    for round in rounds:
        if round == rest:
            client.release()
        told = RegionControl(1, 0.1).scalars()
        reply = client.refresh(x, Message("refresh", round, {}, told))
        sent.append(reply["gradient"])
        x = client.update(x, Message("update", round, reply, told))["x"]
    return np.array(sent)


def test_a_kept_surrogate_is_part_of_the_state():
    """A site that is started again has it from its snapshot, and says the same bits as one that goes on."""
    old, new = noisy_client(), noisy_client()
    play(old, range(1, 41))
    assert old._neighbours.is_cached
    for part in ("evaluator", "trajectory"):
        getattr(new._context, part).restore(getattr(old._context, part).state())
    new.restore(copy.deepcopy(old.state()))
    assert new._neighbours.is_cached
    first, again = (play(client, range(41, 45), start=0.45) for client in (old, new))
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize(("on_failure", "sizes"), [("raise", [1, 6, 1, 1]), ("skip", [1] * 9)])
def test_the_first_star_goes_out_together(on_failure, sizes):
    """x, then 6 directions, then x and one direction. Where runs survive failures, each may tell where not to ask."""
    queried: list[int] = []

    def f(x):
        queried.append(len(x))
        return np.sum((x - 0.3) ** 2, axis=1)

    settings = {"bounds": (-1, 1), "algorithm": FedTrustRegion(), "rounds": 2, "seed": 0, "on_failure": on_failure}
    batched = minimize(f, np.zeros(6), vectorized=True, **settings)
    assert queried == sizes
    single = minimize(lambda x: float(np.sum((x - 0.3) ** 2)), np.zeros(6), **settings)
    np.testing.assert_array_equal(batched.x, single.x)


@pytest.mark.parametrize(("far", "used"), [(0.41, 8), (0.43, 6)])
def test_far_points_are_left_out(far, used):
    """Delta = 0.01 and d = 2: points beyond 30 Delta sqrt(2) = 0.424 are not used, unless fewer than the six remain
    that a quadratic has."""
    near = [[0.01 * k, 0.005 * k * k] for k in range(6)]
    for rows, count in (([*near, [far, 0.0], [0.0, far]], used), ([*near[:4], [far, 0.0], [0.0, far], [far, far]], 6)):
        evaluator, trajectory = Evaluator(lambda u: float(u @ u), Box.of((0, 1), 2)), Trajectory(2)
        points = neighbours.Neighbours(ClientContext(evaluator, trajectory, np.random.default_rng(0), 2, 1, True))
        trajectory.add(np.array(rows), np.sum(np.array(rows) ** 2, axis=1))
        assert len(points.fit(np.zeros(2), 0.01).offsets) == count
