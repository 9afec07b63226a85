"""SPEC "FZooS, piece by piece": rounds and messages, the fitted length scale, queries, diagnostics, presets."""

import inspect
import math
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from plain_formulas import feature_weights, gp_gradient, gp_trace, nearest
from spied_federation import PICKS, POINTS, REFRESH, SEED, X0, D, Federation, M, client_function, settings

from fzoos import (
    ActiveQueries,
    Adam,
    Constant,
    FedZO,
    FitLengthScale,
    FZooS,
    InitialDesign,
    Matern52,
    Reciprocal,
    SquaredExponential,
    minimize,
)
from fzoos.algorithms.base import ClientContext
from fzoos.algorithms.fixed_fzoos.query_designs import uniform_around
from fzoos.messages.message import Message
from fzoos.objectives.box import Box
from fzoos.objectives.trajectory import Trajectory
from fzoos.surrogates.fourier import FourierFeatures

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
