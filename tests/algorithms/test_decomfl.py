"""DeComFL against its paper's equations, computed in the test; and that nobody needs x who can rebuild it.

The objectives live on the unit cube itself, so that its coordinates are the user's, and far enough from its walls that
nothing is clipped, unless a test says so.
"""

import json

import numpy as np
import pytest

from fzoos import SGD, Adam, DeComFL, FiniteDifferences, HiSo, minimize
from fzoos.algorithms.base import ClientContext
from fzoos.federation.client import Client
from fzoos.federation.exchange import Dropouts, Outcome
from fzoos.federation.server import Server
from fzoos.federation.server_state import ServerState
from fzoos.messages.codec import MessageError
from fzoos.messages.message import Message
from fzoos.messages.rounding import Rounding
from fzoos.objectives.box import Box
from fzoos.objectives.evaluator import Evaluator
from fzoos.objectives.trajectory import Trajectory

D, N, T, P, ROUNDS, LAMBDA, ETA = 3, 2, 2, 2, 3, 0.01, 0.02
X0 = np.array([0.5, 0.45, 0.55])
CURVATURES = np.array([[1.0, 0.5, 2.0], [0.3, 1.5, 1.0], [0.8, 0.8, 0.4]])
CENTRES = np.array([[0.4, 0.6, 0.5], [0.55, 0.4, 0.6], [0.6, 0.5, 0.4]])
QUICK = FiniteDifferences(P, LAMBDA)


def objective(i):
    return lambda x: float(CURVATURES[i] @ (x - CENTRES[i]) ** 2)


OBJECTIVES = [objective(i) for i in range(3)]


def shared_seed(seed, clients):
    """The second child of the run's seed: docs/architecture.md, "One seed"."""
    return int(np.random.SeedSequence(seed).spawn(2 + clients)[1].generate_state(1)[0])


def adam(gradients, m, v, k):
    """Kingma & Ba's Algorithm 1, the steps with these gradients one after another."""
    steps = []
    for g in gradients:
        k += 1
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        steps.append(ETA * (m / (1 - 0.9**k)) / (np.sqrt(v / (1 - 0.999**k)) + 1e-8))
    return steps, m, v, k


class ByHand:
    """The paper's equations for N clients, as the head of decomfl.py has them, one number at a time."""

    def __init__(self, seed, optimizer, clients=N, omega=None):
        self.seed, self.optimizer, self.clients = seed, optimizer, clients
        self.omega = np.full(clients, 1 / clients) if omega is None else np.array(omega) / np.sum(omega)
        self.x, self.moments = X0.copy(), (np.zeros(D), np.zeros(D), 0)

    def directions(self, r, t):
        return np.random.default_rng([self.seed, r, t]).standard_normal((P, D))

    def step(self, g, moments):
        if self.optimizer == "sgd":
            return ETA * g, moments
        (step,), *moments = adam([g], *moments)
        return step, moments

    def round(self, r, taking_part):
        if self.optimizer == "adam":  # restarted
            self.moments = (np.zeros(D), np.zeros(D), 0)
        told, last = {}, {}
        for i in taking_part:
            x, moments, told[i] = self.x, self.moments, []
            for t in range(1, T + 1):
                z = self.directions(r, t)
                told[i].append([(OBJECTIVES[i](x + LAMBDA * z[p]) - OBJECTIVES[i](x)) / LAMBDA for p in range(P)])
                step, moments = self.step(sum(told[i][-1][p] * z[p] for p in range(P)) / P, moments)
                x = x - step
            last[i] = x
        total = sum(self.omega[i] for i in taking_part)
        for t in range(1, T + 1):
            z = self.directions(r, t)
            mean = [sum(self.omega[i] * told[i][t - 1][p] for i in taking_part) / total for p in range(P)]
            step, self.moments = self.step(sum(mean[p] * z[p] for p in range(P)) / P, self.moments)
            self.x = self.x - step
        return sum(self.omega[i] * last[i] for i in taking_part) / total


OPTIMIZERS = {"sgd": SGD(ETA), "adam": Adam(ETA), "kept": Adam(ETA, restart=False)}


def quick(kind, optimizer):
    return kind(local_steps=T, optimizer=optimizer, differences=QUICK)


@pytest.mark.parametrize(("optimizer", "weights"), [("sgd", [1, 3]), ("adam", None), ("kept", [1, 3])])
def test_a_run_by_hand(optimizer, weights):
    """N = 2, T = 2, P = 2, three rounds: the paper's equations give the x of every round; with SGD, x_r is also the
    mean of the clients' last x."""
    hand, xs = ByHand(shared_seed(5, N), optimizer, omega=weights), []
    minimize(
        OBJECTIVES[:N],
        X0,
        bounds=(0, 1),
        algorithm=DeComFL(local_steps=T, optimizer=OPTIMIZERS[optimizer], differences=QUICK),
        rounds=ROUNDS,
        weights=weights,
        seed=5,
        monitor=lambda x: xs.append(x) or 0.0,
    )
    for r in range(1, ROUNDS + 1):
        mean = hand.round(r, range(N))
        assert xs[r - 1] == pytest.approx(hand.x, abs=1e-12)
        if optimizer == "sgd":
            assert hand.x == pytest.approx(mean, abs=1e-14)
    assert np.linalg.norm(xs[-1] - X0) > 0.005


# Bytes


@pytest.mark.parametrize("dim", [3, 1000])
def test_bytes(dim):
    """8 (T P + 2) up (two scalars beside the slopes: queries and correction length) and 8 (T P + 1) down for each
    client and round, whatever d is; x goes down once, in round 1."""
    result = minimize(
        [lambda x: float(x @ x)] * 2,
        np.full(dim, 0.5),
        bounds=(0, 1),
        algorithm=DeComFL(local_steps=T, differences=QUICK),
        rounds=4,
        seed=0,
    )
    assert [record.bytes_up for record in result.history] == [r * 2 * 8 * (T * P + 2) for r in range(1, 5)]
    first = 2 * 8 * (dim + 1)
    assert [record.bytes_down for record in result.history] == [first + r * 2 * 8 * (T * P + 1) for r in range(4)]
    assert all(record.distances == (None, None) for record in result.history)


# Rounds that were missed


class Line:
    """Three clients and a server between which messages can get lost; keeps the requests."""

    def __init__(self, algorithm, lost=(), precision="float64", combine="mean"):
        self.algorithm, self.lost = algorithm, set(lost)
        self.requests = []  # (client, round, names of the arrays)
        self.clients = []
        for i in range(3):
            site = ClientContext(
                Evaluator(OBJECTIVES[i], Box.of((0, 1), D)), Trajectory(D), np.random.default_rng(i), D, 3, True
            )
            rounding = Rounding(precision, np.random.SeedSequence(i))
            self.clients.append(Client(algorithm.client(site), rounding))
        self.rounding, self.combine = Rounding(precision, np.random.SeedSequence(9)), combine
        self.server = self.make_server()

    def make_server(self):
        return Server(
            self,
            self.algorithm,
            X0,
            weights=np.full(3, 1 / 3),
            participants=3,
            shared_seed=77,
            rng=np.random.default_rng(0),
            dropouts=Dropouts(min_clients=1, retries=0),
            combine=self.combine,
            rounding=self.rounding,
        )

    def exchange(self, requests, timeout):
        outcome = Outcome()
        for i, request in requests.items():
            self.requests.append((i, request.round, tuple(sorted(request.arrays))))
            where = next((where for where in ("down", "up") if (i, request.round, where) in self.lost), None)
            reply = None if where == "down" else self.clients[i].handle(request)
            if where is None:
                outcome.replies[i] = reply
            else:
                outcome.failures[i] = TimeoutError(where)
        return outcome

    def run(self, rounds):
        xs = [X0]
        for _ in range(rounds):
            self.server.run(self.server.plan())
            xs.append(self.server.x)
        return xs


@pytest.mark.parametrize(("optimizer", "where"), [("sgd", "down"), ("kept", "up")])
def test_who_misses_a_round_gets_x(optimizer, where):
    """Client 1 does not answer in round 2, the request or the reply being lost: in round 3 it is sent all of the state,
    the others the slopes; then all have the server's x, bit for bit, and x is that of the equations."""
    line = Line(quick(DeComFL, OPTIMIZERS[optimizer]), lost=[(1, 2, where)])
    xs = line.run(5)
    state = ("optimizer", "x") if optimizer == "kept" else ("x",)
    full = {(i, 1) for i in range(3)} | {(1, 3)}
    assert line.requests == [(i, r, state if (i, r) in full else ("s",)) for r in range(1, 6) for i in range(3)]
    for client in line.clients:
        assert client.x.tobytes() == xs[4].tobytes()  # of the beginning of round 5
    hand = ByHand(77, optimizer, clients=3)
    for r in range(1, 6):
        hand.round(r, [0, 2] if r == 2 else range(3))
        assert xs[r] == pytest.approx(hand.x, abs=1e-12)


@pytest.mark.parametrize(("kind", "precision"), [(DeComFL, "stochastic"), (HiSo, "float32")])
def test_rounded_messages_leave_all_with_the_same_x(kind, precision):
    """The slopes travel rounded, and everybody, the server too, rebuilds x from what has travelled; x itself, to who
    missed a round, is exact."""
    line = Line(quick(kind, Adam(ETA)), lost=[(1, 2, "down")], precision=precision)
    xs = line.run(5)
    for client in line.clients:
        assert client.x.tobytes() == xs[4].tobytes()
    exact = Line(quick(kind, Adam(ETA)), lost=[(1, 2, "down")]).run(5)
    assert not np.array_equal(xs[5], exact[5])
    assert line.server.state.bytes_up < 5 * 3 * 8 * (T * P + 2) * 0.95


def test_a_request_that_comes_twice_counts_once():
    """A client that hears the same slopes again, since its answer got lost, does not take their steps again."""
    line = Line(quick(DeComFL, Adam(ETA)))
    client, seed = line.clients[0], {"seed": 77}
    client.handle(Message("update", 1, {"x": X0}, seed))
    request = Message("update", 2, {"s": np.array([0.5, -1.0, 2.0, 0.1])}, seed)
    first = client.handle(request)
    x = client.x.copy()
    second = client.handle(request)
    assert np.array_equal(client.x, x)
    assert np.array_equal(first.arrays["s"], second.arrays["s"])
    assert not np.array_equal(x, X0)


def test_a_state_that_leads_nowhere():
    """Moments that no server of ours sends (a negative mean square) never take the objective outside the box."""
    asked = []
    algorithm = quick(DeComFL, OPTIMIZERS["kept"])
    evaluator = Evaluator(lambda x: asked.append(x) or 1.0 + float(x.sum()), Box.of((0, 1), D))
    site = ClientContext(evaluator, Trajectory(D), np.random.default_rng(0), D, 1, True)
    client = Client(algorithm.client(site))
    state = {"x": X0, "optimizer": np.concatenate([[3.0], np.zeros(D), np.full(D, -1e9)])}
    with np.errstate(invalid="ignore"), pytest.raises(MessageError, match="leads to no point"):
        client.handle(Message("update", 4, state, {"seed": 77}))
    assert np.all(np.isfinite(asked))


# Taken up again


@pytest.mark.parametrize("kind", [DeComFL, HiSo])
def test_restored_server(kind):
    """A server made anew after round 2 from the state of the first, through JSON, goes on to the same bits, also
    towards a client that has missed that round."""
    lost = [(2, 2, "down")]
    whole = Line(quick(kind, OPTIMIZERS["kept"]), lost)
    expected = whole.run(5)
    line = Line(quick(kind, OPTIMIZERS["kept"]), lost)
    line.run(2)
    values, arrays = line.server.state.save()
    line.server = line.make_server()
    copied = {name: array.copy() for name, array in arrays.items()}
    line.server.state = ServerState.load(json.loads(json.dumps(values)), copied)
    assert np.array_equal(line.run(3)[-1], expected[-1])
    assert line.requests == whole.requests
    assert (line.server.state.bytes_up, line.server.state.bytes_down) == (
        whole.server.state.bytes_up,
        whole.server.state.bytes_down,
    )


# Clipping and failures


def test_projected_steps():
    """Every replayed step is clipped to the box: f(x) = 40 x goes down to 0 and stays, one step at a time."""
    hand_x, xs = 0.3, []
    minimize(
        [lambda x: 40 * x[0]],
        [0.3],
        bounds=(0, 1),
        algorithm=quick(DeComFL, SGD(ETA)),
        rounds=2,
        seed=3,
        monitor=lambda x: xs.append(x[0]) or 0.0,
    )
    for r in (1, 2):
        for t in (1, 2):
            z = np.random.default_rng([shared_seed(3, 1), r, t]).standard_normal((P, 1))[:, 0]
            ask = np.clip(hand_x + LAMBDA * z, 0.0, 1.0)
            slopes = 40 * (ask - hand_x) / LAMBDA
            hand_x = min(1.0, max(0.0, hand_x - ETA * float(np.mean(slopes * z))))
        assert xs[r - 1] == pytest.approx(hand_x, abs=1e-12)
    assert 0.0 in xs


def test_failed_queries_are_left_out():
    """One direction of two fails: what travels is the other's slope, twice, so that the mean over two is its own."""
    calls = []

    def second_fails(x):
        calls.append(x)
        return float("nan") if len(calls) == 2 else float(x.sum())

    algorithm = DeComFL(local_steps=1, differences=QUICK)
    evaluator = Evaluator(second_fails, Box.of((0, 1), D), on_failure="skip")
    half = algorithm.client(ClientContext(evaluator, Trajectory(D), np.random.default_rng(0), D, 1, True))
    request = Message("update", 1, {"x": X0}, {"seed": 4})
    half.begin(half.locate(request), request)
    z = np.random.default_rng([4, 1, 1]).standard_normal((P, D))
    assert half.local_gradient(X0) == pytest.approx(z[1].sum() * z[1], rel=1e-9)
    assert half.end(X0)["s"] == pytest.approx([0.0, 2 * z[1].sum()], rel=1e-9)
