"""HiSo against its paper's equations, computed in the test.

What it shares with DeComFL (who gets what, restored servers, interrupted studies, rounded messages) is in
test_decomfl.py.

The objectives live on the unit cube itself, far enough from its walls that nothing is clipped.
"""

from dataclasses import replace

import numpy as np
import pytest

from fzoos import SGD, Adam, FiniteDifferences, HiSo, minimize
from fzoos.algorithms.base import ClientContext
from fzoos.federation.client import Client
from fzoos.messages.codec import MessageError
from fzoos.messages.message import Message
from fzoos.objectives.box import Box
from fzoos.objectives.evaluator import Evaluator
from fzoos.objectives.trajectory import Trajectory

D, N, T, P, ROUNDS, LAMBDA, ETA = 3, 2, 2, 2, 3, 0.01, 0.02
NU, EPS = 0.3, 1e-3  # so large that H differs from round to round
X0 = np.array([0.5, 0.45, 0.55])
CURVATURES = np.array([[2.0, 0.5, 6.0], [0.6, 1.5, 4.0]])
CENTRES = np.array([[0.4, 0.6, 0.5], [0.55, 0.4, 0.6]])
QUICK = FiniteDifferences(P, LAMBDA)


def objective(i):
    return lambda x: float(CURVATURES[i] @ (x - CENTRES[i]) ** 2)


OBJECTIVES = [objective(i) for i in range(N)]


def by_hand(seed, optimizer, rescaled, h_0):
    """x_1, ..., x_R and h_0, ..., h_R by the paper's equations, one number at a time."""
    shared = int(np.random.SeedSequence(seed).spawn(2 + N)[1].generate_state(1)[0])
    x, h = X0.copy(), np.full(D, h_0)
    m, v, k = np.zeros(D), np.zeros(D), 0
    xs, hs = [], [h]

    def advance(g, state):
        if optimizer == "sgd":
            return ETA * g, state
        m, v, k = state
        m, v, k = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g, k + 1
        return ETA * m / (1 - 0.9**k) / (np.sqrt(v / (1 - 0.999**k)) + 1e-8), (m, v, k)

    for r in range(1, ROUNDS + 1):
        if optimizer == "adam":
            m, v, k = np.zeros(D), np.zeros(D), 0
        length = np.sqrt(D / np.sum(1 / h)) if rescaled else 1.0
        z = [
            np.random.default_rng([shared, r, t]).standard_normal((P, D)) @ np.diag(length * h**-0.5)
            for t in range(1, T + 1)
        ]
        slopes = np.zeros((N, T, P))
        for i in range(N):
            y, state = x, (m, v, k)
            for t in range(T):
                for p in range(P):
                    slopes[i, t, p] = (OBJECTIVES[i](y + LAMBDA * z[t][p]) - OBJECTIVES[i](y)) / LAMBDA
                step, state = advance(slopes[i, t] @ z[t] / P, state)
                y = y - step
        mean = slopes.mean(axis=0)
        for t in range(T):
            g = mean[t] @ z[t] / P
            step, (m, v, k) = advance(g, (m, v, k))
            x, h = x - step, (1 - NU) * h + NU * (g**2 + EPS)
        xs.append(x)
        hs.append(h)
    return xs, hs


OPTIMIZERS = {"sgd": SGD(ETA), "adam": Adam(ETA), "kept": Adam(ETA, restart=False)}


@pytest.mark.parametrize(
    ("optimizer", "rescaled", "h_0"), [("sgd", True, 0.2), ("adam", False, 1.0), ("kept", True, 1.0)]
)
def test_a_run_by_hand(optimizer, rescaled, h_0):
    """N = 2, T = 2, P = 2, three rounds: the equations give the x of every round, and H has moved."""
    expected, hs = by_hand(5, optimizer, rescaled, h_0)
    found = []
    minimize(
        OBJECTIVES,
        X0,
        bounds=(0, 1),
        algorithm=HiSo(
            local_steps=T,
            optimizer=OPTIMIZERS[optimizer],
            smoothing=NU,
            eps=EPS,
            curvature=h_0,
            rescaled=rescaled,
            differences=QUICK,
        ),
        rounds=ROUNDS,
        seed=5,
        monitor=lambda x: found.append(x) or 0.0,
    )
    for mine, theirs in zip(found, expected, strict=True):
        assert mine == pytest.approx(theirs, abs=1e-11)
    assert np.max(hs[2]) > 1.05 * np.min(hs[2])


def run(algorithm, dim=3, eta=ETA):
    algorithm = replace(algorithm, local_steps=T, optimizer=SGD(eta))
    settings = {"bounds": (0, 1), "rounds": 4, "seed": 0}
    return minimize([lambda x: float(x @ x)] * 2, np.full(dim, 0.5), algorithm=algorithm, **settings)


@pytest.mark.parametrize("h", [[1.0, 0.0, 1.0], [1.0, -1.0, 2.0]])
def test_a_hessian_that_is_none(h):
    """h from a server that is not ours never reaches the objective as NaN."""
    asked, algorithm = [], HiSo(local_steps=T, optimizer=SGD(ETA), differences=QUICK)
    evaluator = Evaluator(lambda x: asked.append(x) or 0.0, Box.of((0, 1), D))
    site = ClientContext(evaluator, Trajectory(D), np.random.default_rng(0), D, 1, True)
    client = Client(algorithm.client(site))
    with pytest.raises(MessageError, match="the diagonal h of the Hessian must be positive"):
        client.handle(Message("update", 1, {"x": X0, "h": np.array(h)}, {"seed": 1}))
    assert asked == []


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"smoothing": 1.5}, r"smoothing \(nu\) must be a finite number in \[0, 1\], got 1.5"),
        ({"eps": 0.0}, "eps must be positive, got 0.0"),
        ({"curvature": -1.0}, r"curvature \(h_0\) must be positive, got -1.0"),
    ],
)
def test_settings(settings, reason):
    """What cannot be is refused by name."""
    with pytest.raises(ValueError, match=reason):
        HiSo(**settings)
