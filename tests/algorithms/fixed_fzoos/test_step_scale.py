"""The step scale: its formula, and whole runs in which every prediction and every step is computed again by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fzoos import SGD, Constant, FixedFZooS, InitialDesign, Matern52, TrustRegion, UnseenDirections, minimize
from fzoos.algorithms.base import ClientContext
from fzoos.algorithms.fixed_fzoos.step_scale import StepScale, prediction_error, turn
from fzoos.engines.local import LocalEngine
from fzoos.federation.client import Client
from fzoos.federation.exchange import Outcome
from fzoos.federation.server import Server
from fzoos.federation.settings import make_algorithm
from fzoos.messages.codec import MessageError
from fzoos.messages.message import Message
from fzoos.objectives.box import Box
from fzoos.objectives.trajectory import Trajectory

D, ETA, GAMMA = 4, 0.02, 0.5
NOISE, LENGTH = 1e-4, 1.5
X0 = np.full(D, 0.5)
TRUST = TrustRegion(tolerance=0.4, smallest=0.2, largest=3.0)


# The formula


@pytest.mark.parametrize(
    ("predicted", "observed", "before", "error"),
    [
        (3.0, 3.0, 5.0, 0.0),  # as predicted
        (4.0, 3.0, 5.0, 1 / 3),  # |4 - 3| / (|4 - 5| + |3 - 5|)
        (5.0, 3.0, 5.0, 1.0),  # no change was predicted
        (3.0, 5.0, 5.0, 1.0),  # none was there
        (7.0, 3.0, 5.0, 1.0),  # the other way: |7 - 3| / (2 + 2)
        (5.0, 5.0, 5.0, 0.0),  # neither predicted nor there
        (1e308, 0.0, -1e308, 1.0),  # beyond floating-point numbers
        (math.inf, 0.0, 1.0, 1.0),
    ],
)
def test_prediction_error(predicted, observed, before, error):
    """|mu - y_r| / (|mu - y_{r-1}| + |y_r - y_{r-1}|)."""
    assert prediction_error(predicted, observed, before) == pytest.approx(error, rel=1e-15)


@given(*[st.floats(allow_nan=False, allow_infinity=False)] * 3)
def test_prediction_error_is_a_share(predicted, observed, before):
    """The triangle inequality keeps it in [0, 1], whatever the numbers; it has no unit and no sign."""
    error = prediction_error(predicted, observed, before)
    assert 0.0 <= error <= 1.0 + 1e-12
    assert prediction_error(-predicted, -observed, -before) == error


@pytest.mark.parametrize(
    ("error", "factor"),
    [
        (0.0, 2.0),
        (0.1, 2.0**0.75),  # 1 - 0.1 / 0.4
        (0.4, 1.0),  # the error at which steps stay
        (0.6, 2.0**-0.5),
        (0.8, 0.5),
        (1.0, 0.5),  # 1 - 1 / 0.4 = -1.5, cut to -1
    ],
)
def test_renewed(error, factor):
    """s 2^{clip(1 - e / tau, -1, 1)} where the server went straight on."""
    assert math.exp(TRUST.renew(math.log(0.9), error)) == pytest.approx(0.9 * factor, rel=1e-14)


@pytest.mark.parametrize(
    ("error", "cosine", "power"),
    [
        (0.0, 1.0, 1.0),
        (0.0, 0.25, 1.0),
        (0.0, 0.1, 0.4),
        (0.3, 0.1, 0.25),
        (0.0, 0.0, 0.0),
        (0.0, -0.1, -0.4),
        (0.5, -0.05, -0.25),
        (0.0, -1.0, -1.0),
        (1.0, 1.0, -1.0),
    ],
)
def test_renewed_after_a_turn(error, cosine, power):
    """s 2^{clip(min(1 - e / tau, 4 c), -1, 1)}, tau = 0.4: the worse of both counts."""
    assert TRUST.renew(0.0, error, cosine) == pytest.approx(power * math.log(2.0), abs=1e-14)


@pytest.mark.parametrize(
    ("walk", "cosine"),
    [
        ([], 1.0),
        ([(0, 0), (1, 0)], 1.0),  # two points have no angle
        ([(0, 0), (1, 0), (3, 0)], 1.0),
        ([(0, 0), (1, 0), (0.5, 0)], -1.0),
        ([(0, 0), (1, 0), (1, 7)], 0.0),
        ([(0, 0), (2, 0), (5, 4)], 0.6),
        ([(9, 9), (0, 0), (2, 0), (5, 4)], 0.6),  # the last three count
        ([(0, 0), (0, 0), (1, 0)], 1.0),  # nothing moved
        ([(0, 0), (1, 0), (1, 0)], 1.0),
    ],
)
def test_turn(walk, cosine):
    """The cosine between the server's last two moves."""
    assert turn([np.array(point, dtype=float) for point in walk]) == pytest.approx(cosine, abs=1e-15)


def test_kept_within():
    """s stays in [smallest, largest], however often it is renewed, and whatever is told."""
    longer = shorter = 0.0
    for _ in range(9):
        longer, shorter = TRUST.renew(longer, 0.0), TRUST.renew(shorter, 1.0)
    assert math.exp(longer) == pytest.approx(3.0, rel=1e-14)
    assert math.exp(shorter) == pytest.approx(0.2, rel=1e-14)
    assert [TRUST.within(told) for told in (1e9, -1e9, 0.1)] == [math.log(3.0), math.log(0.2), 0.1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tolerance": 0.0}, r"tolerance \(tau\) must be positive"),
        ({"tolerance": "some"}, r"tolerance \(tau\) must be a number, got 'some'"),
        ({"smallest": 0.0}, "smallest must be positive"),
        ({"smallest": 1.5}, "smallest must be a finite number in"),
        ({"largest": 0.5}, "largest must be a finite number of at least 1, got 0.5"),
        ({"largest": math.inf}, "largest must be a finite number"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        TrustRegion(**settings)


# A client's part


def told(log_scale):
    """A request that brings log s."""
    return Message("update", 2, {"log_step": np.array([log_scale])})


def test_seen_by_hand():
    """The first observation says nothing; from the second on, each is compared with the one before, and from the third
    on the turn counts."""
    steps = StepScale(TRUST)
    assert steps.scale == 1.0
    steps.observe(np.array([0.0, 0.0]), 5.0, 4.0)
    assert steps.log_scale == 0.0
    steps.observe(np.array([1.0, 0.0]), 3.0, 3.0)
    assert steps.scale == pytest.approx(2.0)
    steps.observe(np.array([2.0, 0.0]), 2.0, 2.5)  # e = 0.5 / (0.5 + 1) = 1/3, y_{r-1} = 3, straight on
    assert steps.scale == pytest.approx(2.0 * 2 ** (1 - 1 / 3 / 0.4))
    steps.take(X0, told(math.log(0.7)))
    assert steps.scale == pytest.approx(0.7)
    steps.observe(np.array([2.0, 1.0]), 1.0, 1.0)  # as predicted, but a right angle: c = 0
    assert steps.scale == pytest.approx(0.7)
    steps.observe(np.array([2.0, 0.0]), 0.0, 0.0)  # back again
    assert steps.scale == pytest.approx(0.35)


def straight(t):
    return np.array([t, 2.0 * t])


def test_a_failed_observation():
    """NaN leaves s where it is and is nothing to compare the next one with; the one after that counts again."""
    steps = StepScale(TRUST)
    steps.observe(straight(0), 5.0)
    steps.observe(straight(1), math.nan, 4.0)
    assert steps.log_scale == 0.0
    steps.observe(straight(2), 3.0, 3.0)  # exactly as predicted, but what was before?
    assert steps.log_scale == 0.0
    steps.observe(straight(3), 1.0, 1.0)
    assert steps.scale == pytest.approx(2.0)


def test_without_a_prediction():
    """An observation without a prediction is only remembered."""
    steps = StepScale(TRUST)
    steps.observe(straight(0), 5.0)
    steps.observe(straight(1), 4.0)
    assert steps.log_scale == 0.0
    steps.observe(straight(2), 3.0, 4.0)  # no change from 4 was predicted: e = 1, which it is not against 5
    assert steps.scale == pytest.approx(0.5)


def test_without_settings():
    """None: s is 1, whatever is seen and told."""
    steps = StepScale(None)
    steps.observe(straight(0), 5.0)
    steps.observe(straight(1), 3.0, 3.0)
    steps.take(X0, told(2.0))
    assert steps.scale == 1.0


# Whole runs


def objective(i):
    rng = np.random.default_rng(70 + i)
    slope, curvature = 3.0 * rng.normal(size=D), rng.uniform(0.5, 2.0, D)
    return lambda x: float(slope @ x + curvature @ (x - 0.3) ** 2 + np.sin(9.0 * x[0]))


def algorithm(**changes):
    settings = {
        "kernel": Matern52(LENGTH),
        "noise": NOISE,
        "points": None,
        "active": None,
        "refresh": UnseenDirections(2, radius=0.05),
        "initial": InitialDesign(D + 1, 0.05, "orthogonal"),
        "refresh_first_round": True,
        "sends": "gradient",
        "length": Constant(GAMMA),
        "steps": TRUST,
        "projected": False,
    }
    return FixedFZooS(**settings | changes)


class Rounds:
    """Clients and a server, T = 1; keeps what was asked and what was sent, and may put words in a client's mouth."""

    def __init__(self, algorithm, rounds, clients=2, participants=None, lie=None, functions=None):
        self._lie = lie
        self.asked, self.wire, self.x = [[] for _ in range(clients)], [], [X0]
        self._functions = functions or [objective(i) for i in range(clients)]
        parties = []
        for i in range(clients):
            trajectory = Trajectory(self._recorded(i), Box.of((0, 1), D), on_failure="skip")
            site = ClientContext(trajectory, np.random.default_rng(i), D, clients, 1, False)
            parties.append(Client(algorithm.client(site), SGD(ETA)))
        self._engine = LocalEngine(parties)
        common = {"local_steps": 1, "weights": np.full(clients, 1 / clients), "shared_seed": 3}
        common |= {"participants": participants or clients, "rng": np.random.default_rng(0)}
        self.server = Server(self, algorithm, X0, **common)
        for _ in range(rounds):
            self.server.run(self.server.plan())
            self.x.append(self.server.x)

    def _recorded(self, i):
        def call(x):
            self.asked[i].append((x.copy(), self._functions[i](x)))
            return self.asked[i][-1][1]

        return call

    def exchange(self, requests, timeout):
        before = [len(asked) for asked in self.asked]
        outcome = self._engine.exchange(requests)
        if self._lie is not None and 0 in outcome.replies and "log_step" in outcome.replies[0].arrays:
            told = outcome.replies[0]
            arrays = {**told.arrays, "log_step": np.array([self._lie])}
            lied = Message(told.kind, told.round, arrays, told.scalars)
            outcome = Outcome({**outcome.replies, 0: lied}, outcome.failures)
        self.wire.append((requests, outcome.replies, before))
        return outcome


def correlation(a, b):
    r = np.sqrt(5.0) * np.linalg.norm(a[:, None] - b[None], axis=2) / LENGTH
    return (1 + r + r**2 / 3) * np.exp(-r)


def posterior(asked, x):
    """Mean at x and its gradient, by the textbook's formulas; failed observations are not among the data."""
    points, y = (np.array(part) for part in zip(*[(p, v) for p, v in asked if math.isfinite(v)], strict=True))
    alpha = np.linalg.solve(correlation(points, points) + NOISE * np.eye(len(y)), y - y.mean())
    r = np.sqrt(5.0) * np.linalg.norm(x - points, axis=1) / LENGTH
    gradient = -(alpha * 5.0 / (3.0 * LENGTH**2) * (1 + r) * np.exp(-r)) @ (x - points)
    return y.mean() + alpha @ correlation(points, x[None])[:, 0], gradient


def follow(run):
    """Every log s and every x of a run again, from the queries that it made."""
    log_s, last, walks, scales = 0.0, {}, {}, []
    for r, (refresh, update) in enumerate(zip(run.wire[::2], run.wire[1::2], strict=True)):
        x, own, gradients = run.x[r], {}, {}
        for i, reply in refresh[1].items():
            request, n = refresh[0][i], refresh[2][i]
            assert ("log_step" in request.arrays) == (r > 0)
            if r > 0:
                assert request.arrays["log_step"][0] == pytest.approx(log_s, abs=1e-7)
            at, y = run.asked[i][n]
            assert np.array_equal(at, x)  # x itself is asked first
            factor, walk = 0.0, [*walks.get(i, []), x]
            if i in last and math.isfinite(last[i]) and math.isfinite(y):
                predicted, _ = posterior(run.asked[i][:n], x)
                error = abs(predicted - y) / (abs(predicted - last[i]) + abs(y - last[i]))
                power = 1 - error / TRUST.tolerance
                if len(walk) > 2:
                    then, now = walk[-2] - walk[-3], walk[-1] - walk[-2]
                    power = min(power, 4 * (then @ now) / np.sqrt((then @ then) * (now @ now)))
                factor = min(max(power, -1.0), 1.0)
            own[i] = min(max(log_s + factor * math.log(2.0), math.log(TRUST.smallest)), math.log(TRUST.largest))
            assert reply.arrays["log_step"].shape == (1,)
            assert reply.arrays["log_step"][0] == pytest.approx(own[i], abs=1e-7)
            last[i], walks[i] = y, walk
            gradients[i] = posterior(run.asked[i][: update[2][i]], x)[1]
        log_s = float(np.mean(list(own.values())))
        scales.append(math.exp(log_s))
        mean = np.mean(list(gradients.values()), axis=0)
        for i, reply in update[1].items():
            assert update[0][i].arrays["log_step"][0] == pytest.approx(log_s, abs=1e-7)
            assert reply.scalars["step_scale"] == pytest.approx(math.exp(log_s), abs=1e-7)
            step = (x - reply.arrays["x"]) / ETA
            expected = math.exp(log_s) * (gradients[i] + GAMMA * (mean - gradients[i]))
            assert step == pytest.approx(expected, rel=1e-6, abs=1e-6)
    return scales


def test_rounds_by_hand():
    """Three rounds of two clients: each log s on the wire, its average in the next requests, and each step s times the
    optimiser's."""
    scales = follow(Rounds(algorithm(), 3))
    assert scales[0] == 1.0
    assert scales[1] != 1.0
    assert scales[2] != scales[1]


def test_newcomers_take_what_they_are_told():
    """With 2 of 6 clients a round, a newcomer predicts nothing: it sends the log s that came with the request. Who was
    away compares with the last x that it saw."""
    run = Rounds(algorithm(), 10, clients=6, participants=2)
    follow(run)
    met, told = set(), []
    for r, (requests, replies, _) in enumerate(run.wire[::2]):
        for i in set(requests) - met:
            if r > 0:
                told.append(requests[i].arrays["log_step"][0])
                assert replies[i].arrays["log_step"][0] == told[-1]
        met |= set(requests)
    assert met == set(range(6))
    assert any(told)


def test_failed_observations():
    """Where the observation at x fails, the client sends the log s that it was told, in that round and in the next."""

    def failing(x):
        failing.calls += 1
        return math.nan if failing.calls == D + 2 else objective(1)(x)  # the first query of its second round

    failing.calls = 0
    run = Rounds(algorithm(), 4, functions=[objective(0), failing])
    assert math.isnan(run.asked[1][D + 1][1])
    follow(run)
    told = [refresh[1][1].arrays["log_step"][0] for refresh in run.wire[::2]]
    assert told[1] == 0.0
    assert told[2] == run.wire[4][0][1].arrays["log_step"][0]
    assert told[3] != run.wire[6][0][1].arrays["log_step"][0]


@pytest.mark.parametrize("lie", [1e9, -1e9])
def test_a_client_that_lies(lie):
    """What no honest client sends is refused before it is averaged."""
    with pytest.raises(MessageError, match="'log_step' must hold numbers from"):
        Rounds(algorithm(), 3, lie=lie)


def test_a_late_newcomer_has_nothing_to_predict():
    """Without an early refresh a newcomer of round 2 asks its design, x among it, and then x again: that it knows that
    value says nothing of its surrogate."""
    run = Rounds(algorithm(refresh_first_round=False), 6, clients=3, participants=1)
    met = {next(iter(run.wire[0][0]))}  # round 1 has no refresh
    newcomers = 0
    for requests, replies, _ in run.wire[1::2]:
        (i,) = requests
        if i not in met:
            newcomers += 1
            assert replies[i].arrays["log_step"][0] == requests[i].arrays.get("log_step", np.zeros(1))[0]
        met.add(i)
    assert newcomers == 2


def test_scaled_by_one():
    """A trust region that allows nothing but 1 is none, but for the bytes."""
    common = {"bounds": (0, 1), "rounds": 3, "local_steps": 2, "seed": 0}
    sites = [objective(0), objective(1)]
    plain = minimize(sites, X0, algorithm=algorithm(steps=None), **common)
    same = minimize(sites, X0, algorithm=algorithm(steps=TrustRegion(smallest=1.0, largest=1.0)), **common)
    assert np.array_equal(plain.x, same.x)
    assert "step_scale" not in plain.history[-1].diagnostics
    assert [record.diagnostics["step_scale"] for record in same.history] == [1.0] * 3
    # payload up, its average down, the diagnostic; log s with the refresh requests from the second on
    assert same.bytes_up - plain.bytes_up == 2 * 3 * (8 + 8)
    assert same.bytes_down - plain.bytes_down == 2 * (3 * 8 + 2 * 8)


@pytest.mark.parametrize("size", [1e-300, 1e-5, 1e90])
def test_observations_of_any_size(size):
    """Tiny and huge observations break nothing."""
    sites = [lambda x, i=i: size * objective(i)(x) for i in range(2)]
    settings = algorithm(projected=True, length=Constant(1.0))
    result = minimize(sites, X0, bounds=(0, 1), rounds=3, local_steps=2, seed=0, algorithm=settings)
    assert result.status == "completed"
    assert np.all(abs(result.x - 0.5) <= 0.5)
    assert all(TRUST.smallest <= record.diagnostics["step_scale"] <= TRUST.largest for record in result.history)


# From a study's file


def test_tables():
    """`steps = {...}` is a trust region, `steps = false` is none."""
    common = {"name": "fzoos", "refresh_first_round": True}
    told = make_algorithm({**common, "steps": {"tolerance": 0.3, "smallest": 0.5, "largest": 4.0}})
    assert told.steps == TrustRegion(0.3, 0.5, 4.0)
    assert make_algorithm({**common, "steps": {}}).steps == TrustRegion()
    assert make_algorithm({**common, "steps": False}).steps is None
    assert make_algorithm(common).steps == TrustRegion()
    assert make_algorithm({"name": "fzoos", "steps": False}).steps is None
    assert "log_step" not in make_algorithm({"name": "fzoos", "steps": False}).payload(D)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (True, "algorithm.steps must be a table, or false for none, got True"),
        (0.5, "algorithm.steps must be a table, or false for none, got 0.5"),
        ({"tau": 0.3}, "algorithm.steps: there is no setting 'tau'"),
        ({"smallest": 2.0}, "algorithm.steps: smallest must be"),
    ],
)
def test_bad_tables(steps, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make_algorithm({"name": "fzoos", "steps": steps})
    with pytest.raises(TypeError, match="steps must be TrustRegion or None"):
        FixedFZooS(steps=0.5)
    with pytest.raises(ValueError, match="need a refresh, but refresh is None"):
        FixedFZooS(steps=TrustRegion(), refresh=None, refresh_first_round=False, sends="weights")
