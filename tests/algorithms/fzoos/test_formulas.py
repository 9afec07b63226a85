"""SPEC "FZooS, piece by piece": a whole run against the formulas written again in plain NumPy.

Only the active queries and the random features are taken from the run; every gradient, weight, correction, correction
length and iterate of the reference is computed here.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from plain_formulas import feature_gradient, feature_weights, gp_gradient, kernel_and_slope, nearest
from spied_federation import NOISE, SEED, X0, D, Federation, M, settings

from fzoos import Constant, DistanceAware, FZooS, Matern52, Reciprocal, Theoretical
from fzoos.surrogates.fourier import FourierFeatures


def gamma(algorithm, t, r, steps, clients, x, at):
    """The four correction lengths, from SPEC and the corollaries it names."""
    length, kappa = algorithm.length, -kernel_and_slope(algorithm.kernel, np.zeros(1))[1][0]
    if isinstance(length, Constant):
        return length.gamma
    if isinstance(length, Reciprocal):
        return 1 / t
    omega = D + 2 * (math.sqrt(D) + 1) * math.log(1 / length.delta)
    g, eps = length.heterogeneity, length.feature_error
    if isinstance(length, Theoretical):
        return g / (g + 2 * omega * kappa * length.decay ** ((r - 1) * steps) + 2 * clients * eps)
    iota = np.mean(np.sum((x - at) ** 2, axis=1))
    h = iota * (kernel_and_slope(algorithm.kernel, iota)[1] / 2) ** 2
    return g / (g + 2 * (omega * kappa - 4 * omega * h / (D + NOISE * D / len(x)) + clients * eps))


@dataclass
class Reference:
    """A whole run by the formulas, over the points that the real run queried."""

    algorithm: FZooS
    federation: Federation

    def run(self, rounds):
        a, clients, omega = self.algorithm, len(self.federation.queried), self.federation.weights
        features = FourierFeatures(SEED, M, D, a.kernel)
        picks = a.active.picks if a.active else 0
        x, known = X0.copy(), [1 + a.initial] * clients
        w_own, w, lengths = [None] * clients, None, []
        for r in range(1, rounds + 1):
            if a.refresh is not None and r > 1:
                known = [n + 1 + a.refresh.picks for n in known]
                w_own = [self._weights(features, i, known[i], x) for i in range(clients)]
                w = sum(omega[i] * w_own[i] for i in range(clients))
            ends, used = [], []
            for i in range(clients):
                z = x.copy()
                for t in range(1, a.local_steps + 1):
                    points, values = self.federation.data(i, known[i])
                    g = gp_gradient(a.kernel, *nearest(points, values, z, a.points), z)
                    used.append(0.0)
                    if w is not None:
                        used[-1] = gamma(a, t, r, a.local_steps, clients, points, z)
                        g = g + used[-1] * feature_gradient(features, w - w_own[i], x if a.vector == "fixed" else z)
                    z = z - a.optimizer.learning_rate * g
                    if a == self.federation.algorithm:  # the iterate is queried
                        assert self.federation.data(i)[0][known[i]] == pytest.approx(z, abs=1e-9)
                    known[i] += 1 + (picks if t < a.local_steps else 0)
                ends.append(z)
            x = sum(omega[i] * ends[i] for i in range(clients))
            lengths.append(np.mean(used))
            if a.refresh is None:
                w_own = [self._weights(features, i, known[i], ends[i]) for i in range(clients)]
                w = sum(omega[i] * w_own[i] for i in range(clients))
        return x, lengths

    def _weights(self, features, i, count, at):
        return feature_weights(features, *nearest(*self.federation.data(i, count), at, self.algorithm.feature_points))


VARIANTS = {
    "two exchanges": {},
    "one exchange": {"refresh": None},
    "no active queries": {"active": None},
    "fixed vector": {"vector": "fixed"},
    "matern": {"kernel": Matern52(0.9)},
    "nearest": {"points": 5, "feature_points": 7},
    "reciprocal": {"length": Reciprocal()},
    "constant": {"length": Constant(0.3)},
    "theoretical": {"length": Theoretical(heterogeneity=5.0, decay=0.8, feature_error=0.1, delta=0.2)},
    "distance-aware": {"length": DistanceAware(heterogeneity=5.0, feature_error=0.1, delta=0.2)},
    "distance-aware, matern": {"length": DistanceAware(heterogeneity=5.0), "kernel": Matern52(0.9)},
}


@pytest.mark.parametrize(
    ("changes", "weights"), [*((changes, None) for changes in VARIANTS.values()), ({}, (0.25, 0.75))]
)
def test_run_equals_the_formulas(changes, weights):
    """x after three rounds and the mean correction lengths equal the reference's; and the setting does matter."""
    algorithm = settings(**changes)
    federation = Federation(algorithm, weights=weights)
    lengths = []
    for _ in range(3):
        federation.run(1)
        lengths.append(federation.server.state.diagnostics["correction_length"])
    x, expected = Reference(algorithm, federation).run(3)
    assert federation.server.x == pytest.approx(x, abs=1e-9)
    if weights is None:  # diagnostics are weighted too; the reference's mean is not
        assert lengths == pytest.approx(expected, abs=1e-9)
    without, _ = Reference(replace(algorithm, length=Constant(0.0)), federation).run(3)
    assert np.linalg.norm(federation.server.x - without) > 1e-6


def test_fixed_and_adaptive_differ_only_after_the_first_step():
    """At t = 1 the current x is x_{r-1}: with T = 1 the two are one, with T = 3 they are not."""
    for steps, equal in ((1, True), (3, False)):
        xs = [Federation(settings(steps, vector=vector)).run(2).server.x for vector in ("adaptive", "fixed")]
        assert np.allclose(*xs, rtol=0, atol=1e-12) is equal


def test_one_client_needs_no_correction():
    """With one client the global surrogate is its own, the correction is zero, and gamma does not matter."""
    xs = [Federation(settings(length=Constant(g)), clients=1).run(3).server.x for g in (0.0, 1.0)]
    assert np.array_equal(*xs)
