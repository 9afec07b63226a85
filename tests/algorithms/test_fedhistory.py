"""FedHistory (arXiv 2409.15955): the covariance of its directions, what spans the subspace, and a run by hand.

u = sqrt(1 - alpha) z_0 + sqrt(alpha d / k) P z_1 has the covariance (1 - alpha) I + alpha (d / k) P P^T.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from fzoos import SGD, FedHistory, FedZO, FiniteDifferences, minimize
from fzoos.algorithms.base import ClientContext
from fzoos.algorithms.fedhistory import draw_along
from fzoos.federation.client import Client
from fzoos.messages.message import Message
from fzoos.objectives.box import Box
from fzoos.objectives.evaluator import Evaluator
from fzoos.objectives.trajectory import Trajectory


def subspace(steps):
    """P by Gram-Schmidt, in the order of the steps."""
    basis = []
    for step in steps:
        rest = step - sum((step @ b) * b for b in basis)
        basis.append(rest / np.linalg.norm(rest))
    return np.array(basis).T


# The directions


@pytest.mark.parametrize(
    ("kind", "alpha", "k"), [("gaussian", 0.5, 2), ("sphere", 0.2, 1), ("orthonormal", 1.0, 3), ("gaussian", 0.7, 6)]
)
def test_covariance(kind, alpha, k):
    """The empirical covariance of 30 000 directions is (1 - alpha) I + alpha (d / k) P P^T; directions of length one
    have a d-th of it, and FD makes up for that with its factor d ("sphere") or not ("orthonormal")."""
    d, rng = 6, np.random.default_rng(k)
    basis = subspace(rng.standard_normal((k, d)))
    u = draw_along(basis, alpha, FiniteDifferences(count=30_000, directions=kind), rng)
    expected = (1 - alpha) * np.eye(d) + alpha * (d / k) * basis @ basis.T
    scale = 1 if kind == "gaussian" else d
    assert np.trace(expected) == pytest.approx(d)
    assert scale * (u.T @ u) / len(u) == pytest.approx(expected, abs=0.08)
    assert np.mean(u, axis=0) == pytest.approx(np.zeros(d), abs=0.04)


# A run by hand

TARGETS = np.array([[0.2, 0.9, 0.4, 0.1], [0.6, 0.3, 0.8, 0.5]])


def by_hand(settings, rounds, x, eta, local_steps, seed, weights):
    """FedHistory on f_i(x) = |x - target_i|^2, written out again; each client's generator is the seed's own child."""
    q, step = settings.differences.count, settings.differences.step
    rngs = [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(2 + len(TARGETS))[2:]]
    d, xs, basis = len(x), [x], None
    for _ in range(rounds):
        ends = []
        for target, rng in zip(TARGETS, rngs, strict=True):
            y = xs[-1]
            for _ in range(local_steps):
                u = rng.standard_normal((q, d))
                if basis is not None:
                    onto = basis @ basis.T  # P z_1 is the projection of an isotropic z
                    stretch = np.sqrt(settings.alpha * d / basis.shape[1])
                    u = np.sqrt(1 - settings.alpha) * u + stretch * rng.standard_normal((q, d)) @ onto
                slopes = [
                    (np.sum((np.clip(y + step * row, 0, 1) - target) ** 2) - np.sum((y - target) ** 2)) / step
                    for row in u
                ]
                y = np.clip(y - eta * np.mean([s * row for s, row in zip(slopes, u, strict=True)], axis=0), 0, 1)
            ends.append(y)
        xs.append(np.average(ends, axis=0, weights=weights))
        steps = np.diff(xs, axis=0)
        if len(steps) % (settings.renew or settings.history) == 0:
            basis = subspace(steps[-settings.history :])
    return xs[1:]


@pytest.mark.parametrize("settings", [{"history": 2}, {"history": 3, "renew": 2, "alpha": 0.9}])
def test_by_hand(settings):
    """Two clients, five rounds of three steps, equal a loop that was written apart from the package."""
    differences = FiniteDifferences(count=3, step=0.02)
    algorithm = FedHistory(local_steps=3, optimizer=SGD(0.02), differences=differences, **settings)
    x0, xs = np.array([0.9, 0.1, 0.5, 0.97]), []
    minimize(
        [lambda x, t=t: float(np.sum((x - t) ** 2)) for t in TARGETS],
        x0,
        bounds=(0, 1),
        algorithm=algorithm,
        rounds=5,
        weights=[1, 3],
        monitor=lambda x: xs.append(x) or 0.0,
        seed=4,
    )
    expected = by_hand(algorithm, 5, x0, eta=0.02, local_steps=3, seed=4, weights=[1, 3])
    assert np.array(xs) == pytest.approx(np.array(expected), abs=1e-12)


def run(algorithm, **changes):
    settings = {"bounds": (-1, 1), "rounds": 4, "seed": 0} | changes
    algorithm = replace(algorithm, local_steps=2)
    return minimize(
        [lambda x: float(x @ x), lambda x: float((x - 0.5) @ (x - 0.5))], np.ones(5), algorithm=algorithm, **settings
    )


def test_fedzo_is_a_special_case():
    """alpha = 0 is FedZO bit for bit, and so is any alpha until P is known: for l rounds, and one more to take the
    last of the l steps."""
    fedzo = [run(FedZO(), rounds=rounds).x for rounds in (3, 4)]
    assert np.array_equal(run(FedHistory(alpha=0.0, history=1)).x, fedzo[1])
    assert np.array_equal(run(FedHistory(history=3), rounds=3).x, fedzo[0])
    assert not np.allclose(run(FedHistory(history=3), rounds=4).x, fedzo[1], atol=1e-6)


# What spans the subspace


@dataclass
class Asked:
    """A client with alpha = 1, whose directions never leave the subspace, and what it asked in each request."""

    settings: FedHistory
    dim: int = 8

    def __post_init__(self):
        self.points = []
        evaluator = Evaluator(lambda x: self.points.append(x) or float(x.sum()), Box.of((-9, 9), self.dim))
        site = ClientContext(
            evaluator, Trajectory(self.dim), np.random.default_rng(0), self.dim, clients=2, projected=False
        )
        settings = replace(self.settings, local_steps=1, optimizer=SGD(0.01))
        self.client = Client(settings.client(site))

    def directions(self, round, x):
        """u of the round's one step, up to their length."""
        self.points = []
        self.client.handle(Message("update", round, {"x": (x + 9) / 18}))
        return np.array(self.points[1:]) - self.points[0]


def rank_and_rest(u, steps):
    """The rank of the directions, and how much of them is outside the span of the steps."""
    basis = subspace(steps)
    return np.linalg.matrix_rank(u, tol=1e-9), np.abs(u - u @ basis @ basis.T).max()


@pytest.mark.parametrize(
    ("settings", "spans"),
    [
        # in rounds 2, 3, ...: which of the server's steps 1, 2, ... span the subspace
        ({"history": 2}, [[], [1, 2], [1, 2], [3, 4], [3, 4]]),
        ({"history": 2, "renew": 1}, [[1], [1, 2], [2, 3], [3, 4], [4, 5]]),
        ({"history": 3, "renew": 2}, [[], [1, 2], [1, 2], [2, 3, 4], [2, 3, 4]]),
        ({"history": 1}, [[1], [2], [3], [4], [5]]),
    ],
)
def test_which_steps_span(settings, spans):
    """The subspace is that of the latest l steps of the server, renewed when `renew` says."""
    client = Asked(FedHistory(alpha=1.0, differences=FiniteDifferences(count=20), **settings))
    xs = np.random.default_rng(1).uniform(-1, 1, (6, client.dim))
    assert np.linalg.matrix_rank(client.directions(1, xs[0])) == client.dim
    for r, span in enumerate(spans, start=2):
        u = client.directions(r, xs[r - 1])
        if not span:
            assert np.linalg.matrix_rank(u) == client.dim
            continue
        rank, rest = rank_and_rest(u, [xs[i] - xs[i - 1] for i in span])
        assert rank == len(span)
        assert rest < 1e-9


def test_missed_rounds():
    """A client that was away in rounds 2 to 4 has one step in their place: from the x of round 1 to that of round 5."""
    client = Asked(FedHistory(alpha=1.0, history=2, renew=1))
    xs = np.random.default_rng(2).uniform(-1, 1, (3, client.dim))
    client.directions(1, xs[0])
    rank, rest = rank_and_rest(client.directions(5, xs[1]), [xs[1] - xs[0]])
    assert (rank, rest < 1e-9) == (1, True)
    rank, rest = rank_and_rest(client.directions(6, xs[2]), [xs[1] - xs[0], xs[2] - xs[1]])
    assert (rank, rest < 1e-9) == (2, True)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"alpha": 1.5}, r"alpha must be a finite number in \[0, 1\], got 1.5"),
        ({"history": 0}, r"history \(l\) must be at least 1, got 0"),
        ({"renew": 0}, "renew must be at least 1, got 0"),
    ],
)
def test_settings_are_checked(settings, complaint):
    """An error names the argument, what came and what was expected."""
    with pytest.raises(ValueError, match=complaint):
        FedHistory(**settings)
