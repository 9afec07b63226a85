"""SPEC "FZooS, piece by piece": a whole run against the formulas written again in plain NumPy, then each setting.

Only the queried points and the random features are taken from the run; every gradient, weight, correction and
correction length of the reference is computed here.
"""

import inspect
import math
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import pytest

from fzoos import (
    SGD,
    ActiveQueries,
    Adam,
    Constant,
    DistanceAware,
    FedZO,
    FitLengthScale,
    FixedFZooS,
    FZooS,
    InitialDesign,
    Matern52,
    Reciprocal,
    SquaredExponential,
    Theoretical,
    minimize,
)
from fzoos.algorithms.base import ClientContext
from fzoos.algorithms.fixed_fzoos.query_designs import uniform_around
from fzoos.engines.local import LocalEngine
from fzoos.federation.client import Client
from fzoos.federation.server import Server
from fzoos.messages.message import Message
from fzoos.objectives.box import Box
from fzoos.objectives.trajectory import Trajectory
from fzoos.surrogates.fourier import FourierFeatures

SEED, NOISE, D, M = 99, 1e-3, 3, 40
POINTS, PICKS, REFRESH = 6, 2, 3
X0 = np.array([0.4, 0.6, 0.5])


def client_function(i):
    centre = np.array([0.2, 0.5, 0.8]) + 0.1 * i
    return lambda x: float(np.sum((1 + i) * (x - centre) ** 2) + 0.3 * np.sin(4 * x[0]) + 5 * i)


def settings(**changes):
    values = {
        "kernel": SquaredExponential(0.7),
        "fit": None,
        "noise": NOISE,
        "features": M,
        "points": None,
        "feature_points": None,
        "active": ActiveQueries(8, PICKS, 0.1),
        "refresh": ActiveQueries(9, REFRESH, None),
        "initial": InitialDesign(POINTS, 0.2),
        "refresh_first_round": False,
        "sends": "weights",
        "length": Constant(1.0),
        "steps": None,
        "vector": "adaptive",
        "projected": False,
    }
    return FixedFZooS(**(values | changes))


class Federation:
    """Clients and a server, with everything said on the wire and everything asked written down."""

    def __init__(self, algorithm, *, clients=2, steps=3, eta=0.02, participants=None, weights=None):
        self.asked = [([], []) for _ in range(clients)]
        self.wire = []  # (request, {client: reply})
        parties = []
        for i in range(clients):
            trajectory = Trajectory(self._recorded(i), Box.of((0, 1), D), client=i)
            site = ClientContext(trajectory, np.random.default_rng(i), D, clients, steps, algorithm.projected)
            parties.append(Client(algorithm.client(site), SGD(eta)))
        self._engine = LocalEngine(parties)
        self.weights = np.full(clients, 1 / clients) if weights is None else np.array(weights)
        self.server = Server(
            self,
            algorithm,
            X0,
            local_steps=steps,
            weights=self.weights,
            participants=participants or clients,
            shared_seed=SEED,
            rng=np.random.default_rng(1),
        )

    def _recorded(self, i):
        f = client_function(i)

        def objective(x):
            y = f(x)
            self.asked[i][0].append(x.copy())
            self.asked[i][1].append(y)
            return y

        return objective

    def exchange(self, requests, timeout):
        outcome = self._engine.exchange(requests)
        self.wire.append((next(iter(requests.values())), outcome.replies))
        return outcome

    def run(self, rounds):
        for _ in range(rounds):
            self.server.run(self.server.plan())
        return self

    def data(self, i, count=None):
        x, y = self.asked[i]
        return np.array(x[:count]), np.array(y[:count])

    def sent(self, kind):
        return [(request, replies) for request, replies in self.wire if request.kind == kind]


# The formulas, once more


def kernel_and_slope(kernel, s):
    """kappa(s) and 2 kappa'(s) for SPEC's two kernels."""
    length = kernel.length_scale
    if isinstance(kernel, Matern52):
        a = np.sqrt(5 * s) / length
        return (1 + a + a**2 / 3) * np.exp(-a), -5 / (3 * length**2) * (1 + a) * np.exp(-a)
    k = np.exp(-s / (2 * length**2))
    return k, -k / length**2


def gram(kernel, x):
    s = np.sum((x[:, None, :] - x[None, :, :]) ** 2, axis=2)
    return kernel_and_slope(kernel, s)[0] + NOISE * np.eye(len(x))


def gp_gradient(kernel, x, y, at):
    """grad mu(x) = sum_j alpha_j grad_x k(x, x_j), y standardised and undone."""
    alpha = np.linalg.solve(gram(kernel, x), (y - y.mean()) / y.std())
    slope = kernel_and_slope(kernel, np.sum((at - x) ** 2, axis=1))[1]
    return y.std() * ((alpha * slope) @ (at - x))


def gp_trace(kernel, x, at):
    """The trace of grad grad' k(x, x) - J^T (K + sigma^2 I)^{-1} J, with J written out."""
    jacobian = kernel_and_slope(kernel, np.sum((at - x) ** 2, axis=1))[1][:, None] * (at - x)
    prior = -kernel_and_slope(kernel, np.zeros(1))[1][0] * D
    return prior - np.trace(jacobian.T @ np.linalg.solve(gram(kernel, x), jacobian)), prior


def feature_weights(features, x, y):
    """w = scale Phi (Phi^T Phi + sigma^2 I)^{-1} y, Phi of shape (M, n)."""
    phi = np.sqrt(2 / M) * np.cos(features.frequencies @ x.T + features.phases[:, None])
    return y.std() * phi @ np.linalg.solve(phi.T @ phi + NOISE * np.eye(len(x)), (y - y.mean()) / y.std())


def feature_gradient(features, w, at):
    """grad phi(x)^T w."""
    return -np.sqrt(2 / M) * features.frequencies.T @ (np.sin(features.frequencies @ at + features.phases) * w)


def nearest(x, y, at, count):
    if count is None:
        return x, y
    index = np.argsort(np.sum((x - at) ** 2, axis=1))[:count]
    return x[index], y[index]


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
    """A whole run by the formulas, over the points that the real run asked for."""

    algorithm: FixedFZooS
    federation: Federation
    steps: int
    eta: float

    def run(self, rounds):
        a, clients, omega = self.algorithm, len(self.federation.asked), self.federation.weights
        features = FourierFeatures(SEED, M, D, a.kernel)
        picks = a.active.picks if a.active else 0
        x, known = X0.copy(), [a.initial.points] * clients
        w_own, w, lengths = [None] * clients, None, []
        for r in range(1, rounds + 1):
            if a.refresh is not None and r > 1:
                known = [n + 1 + a.refresh.picks for n in known]
                w_own = [self._weights(features, i, known[i], x) for i in range(clients)]
                w = sum(omega[i] * w_own[i] for i in range(clients))
            ends, used = [], []
            for i in range(clients):
                z = x.copy()
                for t in range(1, self.steps + 1):
                    points, values = self.federation.data(i, known[i])
                    asked_here = picks if t > 1 else a.refresh.picks if a.refresh is not None and r > 1 else 0
                    g = gp_gradient(a.kernel, *self._in_use(points, values, z, asked_here), z)
                    used.append(0.0)
                    if w is not None:
                        used[-1] = gamma(a, t, r, self.steps, clients, points, z)
                        g = g + used[-1] * feature_gradient(features, w - w_own[i], x if a.vector == "fixed" else z)
                    z = z - self.eta * g
                    if t < self.steps:
                        known[i] += picks
                ends.append(z)
            x = sum(omega[i] * ends[i] for i in range(clients))
            lengths.append(np.mean(used))
            if a.refresh is None:
                w_own = [self._weights(features, i, known[i], ends[i]) for i in range(clients)]
                w = sum(omega[i] * w_own[i] for i in range(clients))
        return x, lengths

    def _in_use(self, x, y, at, asked_here):
        """The nearest n of the points known when x was reached, and what has been asked around x since."""
        before = len(x) - asked_here
        near_x, near_y = nearest(x[:before], y[:before], at, self.algorithm.points)
        return np.concatenate([near_x, x[before:]]), np.concatenate([near_y, y[before:]])

    def _weights(self, features, i, count, at):
        return feature_weights(features, *nearest(*self.federation.data(i, count), at, self.algorithm.feature_points))


VARIANTS = {
    "two exchanges": {},
    "one exchange": {"refresh": None},
    "no active queries": {"active": None},
    "initial design only": {"active": None, "refresh": None},
    "fixed vector": {"vector": "fixed"},
    "fixed vector, one exchange": {"vector": "fixed", "refresh": None},
    "matern": {"kernel": Matern52(0.9)},
    "nearest": {"points": 5, "feature_points": 7},
    "nearest, one exchange": {"points": 5, "feature_points": 7, "refresh": None},
    "reciprocal": {"length": Reciprocal()},
    "constant": {"length": Constant(0.3)},
    "theoretical": {"length": Theoretical(heterogeneity=5.0, decay=0.8, feature_error=0.1, delta=0.2)},
    "distance-aware": {"length": DistanceAware(heterogeneity=5.0, feature_error=0.1, delta=0.2)},
    "distance-aware, matern": {"length": DistanceAware(heterogeneity=5.0), "kernel": Matern52(0.9)},
}


@pytest.mark.parametrize("weights", [None, (0.25, 0.75)])
@pytest.mark.parametrize("changes", VARIANTS.values(), ids=list(VARIANTS))
def test_run_equals_the_formulas(changes, weights):
    """x after three rounds and the mean correction lengths equal the reference's; and the setting does matter."""
    algorithm = settings(**changes)
    federation = Federation(algorithm, weights=weights)
    lengths = []
    for _ in range(3):
        federation.run(1)
        lengths.append(federation.server.state.diagnostics["correction_length"])
    x, expected = Reference(algorithm, federation, steps=3, eta=0.02).run(3)
    assert federation.server.x == pytest.approx(x, abs=1e-9)
    if weights is None:  # diagnostics are weighted too; the reference's mean is not
        assert lengths == pytest.approx(expected, abs=1e-9)
    without, _ = Reference(replace(algorithm, length=Constant(0.0)), federation, steps=3, eta=0.02).run(3)
    assert np.linalg.norm(federation.server.x - without) > 1e-6


def test_fixed_and_adaptive_differ_only_after_the_first_step():
    """At t = 1 the current x is x_{r-1}: with T = 1 the two are one, with T = 3 they are not."""
    for steps, equal in ((1, True), (3, False)):
        xs = [Federation(settings(vector=vector), steps=steps).run(2).server.x for vector in ("adaptive", "fixed")]
        assert np.allclose(*xs, rtol=0, atol=1e-12) is equal


def test_one_client_needs_no_correction():
    """With one client the global surrogate is its own, the correction is zero, and gamma does not matter."""
    xs = [Federation(settings(length=Constant(g)), clients=1).run(3).server.x for g in (0.0, 1.0)]
    assert np.array_equal(*xs)


# Rounds and messages


def test_no_correction_in_round_one():
    """In round 1 there is no payload: gamma = 0 and gamma = 1 are the same run, and part ways in round 2."""
    runs = [Federation(settings(length=Constant(g))) for g in (0.0, 1.0)]
    first = [f.run(1).server.x for f in runs]
    assert np.array_equal(*first)
    assert [f.server.state.diagnostics["correction_length"] for f in runs] == [0.0, 0.0]
    second = [f.run(1).server.x for f in runs]
    assert not np.allclose(*second, atol=1e-4)
    assert [f.server.state.diagnostics["correction_length"] for f in runs] == [0.0, 1.0]


@pytest.mark.parametrize("two", [True, False])
def test_exchanges(two):
    """Two exchanges with refresh queries, one without; M floats travel each way, and never a query."""
    algorithm = settings() if two else settings(refresh=None)
    assert algorithm.exchanges == (2 if two else 1)
    federation = Federation(algorithm).run(3)
    kinds = [request.kind for request, _ in federation.wire]
    assert kinds == (["update", *["refresh", "update"] * 2] if two else ["update"] * 3)
    for request, replies in federation.wire:
        for message in (request, *replies.values()):
            assert {name: array.shape for name, array in message.arrays.items()}.items() <= {
                "x": (D,),
                "w": (M,),
            }.items()
    carrier = "refresh" if two else "update"
    for _, replies in federation.sent(carrier):
        assert all("w" in reply.arrays for reply in replies.values())


def test_global_weights_are_the_average():
    """w = sum_i omega_i w_i goes out in the update that follows."""
    federation = Federation(settings(), weights=(0.25, 0.75)).run(2)
    (_, replies), (request, _) = federation.wire[1:]
    expected = 0.25 * replies[0].arrays["w"] + 0.75 * replies[1].arrays["w"]
    assert request.arrays["w"] == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("fit", [None, FitLengthScale(points=30)])
def test_newcomers(fit):
    """One exchange, 1 of 3 clients a round: without a w_i of its own a client makes no correction. With a fitted length
    scale neither does one that missed the last round, since its w_i has another length scale than w."""
    federation = Federation(settings(refresh=None, fit=fit), clients=3, participants=1).run(12)
    last = {}
    kinds = set()
    for request, replies in federation.wire:
        ((i, reply),) = replies.items()
        missed = last.get(i) is not None and last[i] < request.round - 1
        corrects = last.get(i) is not None and not (missed and fit is not None)
        assert reply.scalars["correction_length"] == (1.0 if corrects else 0.0)
        kinds.add((i in last, missed))
        last[i] = request.round
    assert kinds == {(False, False), (True, True), (True, False)}  # newcomers, returners, regulars: all occurred


def test_newcomers_with_a_refresh():
    """Two exchanges: a newcomer of round 2 or later makes its w_i in the refresh, and corrects at once."""
    federation = Federation(settings(), clients=3, participants=1).run(10)
    for request, replies in federation.sent("update"):
        ((_, reply),) = replies.items()
        assert reply.scalars["correction_length"] == (0.0 if request.round == 1 else 1.0)


# The fitted length scale


def test_fitted_length_scale_is_shared():
    """log l is fitted by every client, averaged, goes out with the next refresh, and is then everybody's: each w_i is
    that of features with exactly this l."""
    algorithm = settings(fit=FitLengthScale(low=0.1, high=5.0, points=30))
    federation = Federation(algorithm, weights=(0.25, 0.75))
    shared = math.log(algorithm.kernel.length_scale)  # until the first fit
    for r in range(1, 5):
        before = len(federation.wire)
        federation.run(1)
        if r == 1:
            continue
        (refresh, replies), (update, _) = federation.wire[before:]
        if r > 2:
            assert refresh.arrays["log_length_scale"] == pytest.approx([shared], abs=1e-12)
        else:
            assert "log_length_scale" not in refresh.arrays
        features = FourierFeatures(SEED, M, D, SquaredExponential(math.exp(shared)))
        for i, reply in replies.items():
            # the points known at the refresh: a round's picks come after it
            count = POINTS + (r - 1) * (1 + REFRESH) + (r - 1) * 2 * PICKS
            expected = feature_weights(features, *federation.data(i, count))
            assert reply.arrays["w"] == pytest.approx(expected, abs=1e-7)
            assert math.log(0.1) <= reply.arrays["log_length_scale"][0] <= math.log(5.0)
        own = [replies[i].arrays["log_length_scale"][0] for i in (0, 1)]
        assert own[0] != own[1]
        shared = 0.25 * own[0] + 0.75 * own[1]
        assert update.arrays["log_length_scale"] == pytest.approx([shared], abs=1e-12)


def test_fitted_length_scale_with_one_exchange():
    """The same with one exchange: w_i of round r is that of the average fitted in round r - 1."""
    algorithm = settings(fit=FitLengthScale(low=0.1, high=5.0, points=30), refresh=None)
    federation = Federation(algorithm).run(4)
    shared = math.log(algorithm.kernel.length_scale)
    for r, (request, replies) in enumerate(federation.wire, start=1):
        if r > 1:
            assert request.arrays["log_length_scale"] == pytest.approx([shared], abs=1e-12)
        features = FourierFeatures(SEED, M, D, SquaredExponential(math.exp(shared)))
        for i, reply in replies.items():
            expected = feature_weights(features, *federation.data(i, POINTS + r * 2 * PICKS))
            assert reply.arrays["w"] == pytest.approx(expected, abs=1e-7)
        shared = float(np.mean([reply.arrays["log_length_scale"][0] for reply in replies.values()]))


# Queries


def lone_client(algorithm, x=X0):
    """A client half that has asked its initial design around x, and the list of everything it asks."""
    asked = []

    def objective(z):
        asked.append(z.copy())
        return client_function(0)(z)

    trajectory = Trajectory(objective, Box.of((0, 1), D))
    half = algorithm.client(ClientContext(trajectory, np.random.default_rng(0), D, 1, 3, algorithm.projected))
    half.begin(x, Message("update", 1, {"x": x}, {"seed": SEED}))
    return half, asked


def test_initial_design():
    """Before round 1: `points` queries within +-radius of x_0 per coordinate, and as wide as that; asked once."""
    half, asked = lone_client(settings(initial=InitialDesign(400, 0.2)))
    offsets = np.array(asked) - X0
    assert offsets.shape == (400, D)
    assert np.all(abs(offsets) <= 0.2)
    assert np.all(abs(offsets).max(axis=0) > 0.19)
    assert np.all(abs(offsets.mean(axis=0)) < 4 * 0.2 / math.sqrt(3 * 400))  # uniform: mean 0, four standard errors
    half.begin(X0, Message("update", 2, {"x": X0}, {"seed": SEED}))
    assert len(asked) == 400


@pytest.mark.parametrize("kernel", [SquaredExponential(0.7), Matern52(0.9)])
def test_active_queries_are_the_most_uncertain(kernel):
    """Candidates lie within +-radius of the new x; the picks are those of the largest trace of the gradient's posterior
    covariance, here computed with the Jacobian written out."""
    half, asked = lone_client(settings(kernel=kernel, active=ActiveQueries(50, 4, 0.1)))
    known, x = np.array(asked), X0 + 0.05
    candidates = uniform_around(x, 50, 0.1, deepcopy(half.context.rng))  # what it is about to draw
    half.explore(x)
    picked = np.array(asked[POINTS:])
    assert candidates.shape == (50, D)
    assert np.all(abs(candidates - x) <= 0.1)
    assert abs(candidates - x).max() > 0.095
    traces = np.array([gp_trace(kernel, known, candidate)[0] for candidate in candidates])
    expected = candidates[np.argsort(-traces)[:4]]
    assert sorted(picked.tolist()) == sorted(expected.tolist())


@pytest.mark.parametrize("radius", [None, 0.03])
def test_refresh_radius(radius):
    """A refresh asks x_r itself, then around it within half the mean |x_r - x_i|, or within the radius given."""
    half, asked = lone_client(settings(refresh=ActiveQueries(300, 300, radius)))
    x_i, x_r = X0 + np.array([0.3, -0.1, 0.2]), X0 + 0.1  # |x_r - x_i| = 0.2, 0.2, 0.1: half the mean is 1/12
    half.end(x_i)
    half.refresh(x_r, Message("refresh", 2, {"x": x_r}, {"seed": SEED}))
    first, *others = asked[POINTS:]
    assert first == pytest.approx(x_r, abs=1e-15)
    offsets = abs(np.array(others) - x_r)
    expected = 1 / 12 if radius is None else radius
    assert len(others) == 300
    assert np.all(offsets <= expected * (1 + 1e-12))
    assert np.all(offsets.max(axis=0) > 0.95 * expected)


def test_refresh_of_a_client_alone():
    """Where x_r = x_i (one client) the spread says nothing: the queries still do not all fall on x_r."""
    half, asked = lone_client(settings(refresh=ActiveQueries(20, 20, None)))
    half.end(X0)
    half.refresh(X0, Message("refresh", 2, {"x": X0}, {"seed": SEED}))
    others = np.array(asked[POINTS + 1 :])
    assert len(np.unique(others, axis=0)) == 20
    assert np.all(abs(others - X0) > 0)


@pytest.mark.parametrize("projected", [True, False])
def test_queries_are_projected(projected):
    """At a corner, queries are clipped to the box if projected, and go beyond it if not."""
    corner = np.array([0.0, 1.0, 0.5])
    half, asked = lone_client(settings(projected=projected), corner)
    half.explore(corner)
    points = np.array(asked)
    assert np.all((points >= 0) & (points <= 1)) == projected


def test_only_nearest_points_matter():
    """With `points` = n the local surrogate is that of the n nearest points; far ones leave the gradient unchanged."""
    half, asked = lone_client(settings(points=4))
    x, y = np.array(asked), np.array([client_function(0)(z) for z in asked])
    expected = gp_gradient(SquaredExponential(0.7), *nearest(x, y, X0, 4), X0)
    assert half.local_gradient(X0) == pytest.approx(expected, abs=1e-9)
    assert not np.allclose(expected, gp_gradient(SquaredExponential(0.7), x, y, X0), atol=1e-3)


# Diagnostics


def test_uncertainty():
    """The record's uncertainty is the posterior over the prior trace at the new x, before it is queried around; it is
    in [0, 1] and falls as queries come in. With T = 2 there is one such x a round: x_0 - eta grad mu(x_0) at first."""
    algorithm = settings()
    federation = Federation(algorithm, clients=1, steps=2).run(1)
    known = federation.data(0, POINTS)
    x = X0 - 0.02 * gp_gradient(algorithm.kernel, *known, X0)
    trace, prior = gp_trace(algorithm.kernel, known[0], x)
    first = federation.server.state.diagnostics["uncertainty"]
    assert first == pytest.approx(trace / prior, abs=1e-9)
    values = [first]
    for _ in range(6):
        values.append(federation.run(1).server.state.diagnostics["uncertainty"])
    assert all(0 <= value <= 1 for value in values)
    assert values[-1] < values[0]


def test_diagnostics_reach_the_record():
    """`history` has both, for every round."""
    result = minimize(
        [client_function(0), client_function(1)],
        X0,
        bounds=(0, 1),
        algorithm=settings(length=Reciprocal()),
        rounds=3,
        local_steps=4,
        seed=0,
    )
    lengths = [record.diagnostics["correction_length"] for record in result.history]
    assert lengths == pytest.approx([0.0, 25 / 48, 25 / 48])  # (1 + 1/2 + 1/3 + 1/4) / 4
    assert all(0 <= record.diagnostics["uncertainty"] <= 1 for record in result.history)


# Presets and devices


def test_paper():
    """`FZooS.paper()` and the plain defaults of `minimize` are SPEC's table of the paper's experiments."""
    paper = FZooS.paper()
    assert paper.kernel == SquaredExponential(1.0)
    assert paper.fit is None
    assert paper.noise == 1e-6
    assert paper.features == 10_000
    assert (paper.points, paper.feature_points) == (None, None)
    assert paper.active == ActiveQueries(candidates=100, picks=5, radius=0.01)
    assert paper.refresh == ActiveQueries(candidates=200, picks=50, radius=None)
    assert paper.initial == InitialDesign(points=10, radius=0.01)
    assert paper.length == Reciprocal()
    assert paper.vector == "adaptive"
    assert paper.exchanges == 2
    assert (FedZO().differences.count, FedZO().differences.step) == (20, 0.01)
    assert FedZO().differences.directions == "gaussian"
    defaults = {name: p.default for name, p in inspect.signature(minimize).parameters.items()}
    assert (defaults["rounds"], defaults["local_steps"]) == (50, 10)
    assert defaults["optimizer"] is None
    assert (Adam().learning_rate, Adam().restart) == (0.01, True)
    assert defaults["algorithm"] == FZooS()


def test_paper_can_be_changed():
    """Keyword arguments change single settings and leave the others the paper's."""
    assert FZooS.paper(features=50) == replace(FZooS.paper(), features=50)


@pytest.mark.parametrize("changes", [{}, {"refresh": None}, {"fit": FitLengthScale()}, {"points": 10}])
def test_device(changes):
    """The same run on PyTorch: the same queries, and x up to rounding."""
    runs = [
        minimize(
            [client_function(0), client_function(1)],
            X0,
            bounds=(0, 1),
            algorithm=settings(device=device, **changes),
            rounds=3,
            local_steps=3,
            seed=0,
        )
        for device in (None, "cpu")
    ]
    assert runs[0].x == pytest.approx(runs[1].x, abs=1e-7)
    assert runs[0].queries == runs[1].queries
    assert runs[0].bytes_up == runs[1].bytes_up
