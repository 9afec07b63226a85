"""The round loop of SPEC "One loop, five algorithms", with an engine that answers from a script."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from fzoos.algorithms.base import Algorithm, Part, RefreshedServerHalf, RoundScalars, SeededScalars, ServerHalf
from fzoos.federation.exchange import Outcome
from fzoos.federation.server import Server
from fzoos.messages.message import Message


@dataclass(frozen=True)
class Scripted(Algorithm):
    """An algorithm of which only the server half's questions are answered."""

    two: bool = False
    seed: bool = False
    sends: bool = False
    name = "scripted"
    label = "Scripted"
    diagnostics = ("correction_length",)

    projected: bool = False

    def client(self, site):
        raise NotImplementedError

    def server(self, dim):
        parts = {"c": Part((1,)), "hint": Part((1,))} if self.sends else {}
        return (RefreshedServerHalf if self.two else ServerHalf)(
            dim, parts, SeededScalars if self.seed else RoundScalars
        )

    def cost(self, dim, request, *, first):
        return 100 * first + (1000 if request.kind == "refresh" else 4)


class FakeEngine:
    """Client i replies x + i + 1 to an update, and, where there is one, c = 10 (i + 1) + round as its payload."""

    def __init__(self, payload_with=None):
        self.payload_with = payload_with
        self.log = []  # (kind, round, clients, request)
        self._x = None

    def exchange(self, requests, timeout):
        request = next(iter(requests.values()))
        for other in requests.values():
            assert (other.kind, other.round, other.scalars) == (request.kind, request.round, request.scalars)
            assert all(other.arrays[name] is request.arrays[name] for name in {**other.arrays, **request.arrays})
        self.log.append((request.kind, request.round, tuple(requests), request))
        self._x = request.arrays.get("x", self._x)
        # backwards: the order in which replies come in must not matter
        return Outcome({i: self._reply(i, request) for i in reversed(requests)})

    def _reply(self, i, request):
        payload = {}
        if request.kind == self.payload_with:
            payload = {"c": np.array([10.0 * (i + 1) + request.round]), "hint": np.array([float(i)])}
        if request.kind == "refresh":
            return Message("payload", request.round, payload, {"queries": 1})
        scalars = {"queries": 1, "correction_length": float(i)}
        return Message("iterate", request.round, {"x": self._x + i + 1, **payload}, scalars)


def server(engine, algorithm=None, weights=(1 / 3, 1 / 3, 1 / 3), participants=3, seed=0):
    return Server(
        engine,
        replace(algorithm or Scripted(), sends=engine.payload_with is not None),
        np.array([0.0, 10.0]),
        weights=np.array(weights),
        participants=participants,
        shared_seed=99,
        rng=np.random.default_rng(seed),
    )


def test_average_of_iterates():
    """x_r = sum_i omega_i x_i: with x_i = x + (1, 2, 3) and omega = (0.5, 0.25, 0.25), x moves by 1.75 a round."""
    s = server(FakeEngine(), weights=(0.5, 0.25, 0.25))
    for r in (1, 2):
        s.run(s.plan())
        assert s.round == r
        assert s.x == pytest.approx([1.75 * r, 10 + 1.75 * r], abs=1e-14)


def test_weights_are_renormalised_over_participants():
    """With two of three clients, x moves by (omega_a a + omega_b b) / (omega_a + omega_b), and so do diagnostics."""
    weights = (0.5, 0.2, 0.3)
    s = server(FakeEngine(), weights=weights, participants=2)
    seen = set()
    for _ in range(12):
        plan, before = s.plan(), s.x
        s.run(plan)
        a, b = plan.participants
        seen.add((a, b))
        expected = (weights[a] * (a + 1) + weights[b] * (b + 1)) / (weights[a] + weights[b])
        assert s.x - before == pytest.approx([expected, expected], abs=1e-12)
        assert s.state.diagnostics["correction_length"] == pytest.approx(expected - 1, abs=1e-12)
    assert seen == {(0, 1), (0, 2), (1, 2)}


def test_weight_zero_never_takes_part():
    """Clients of weight zero are not drawn, and fewer than asked for take part where too few have weight."""
    engine = FakeEngine()
    s = server(engine, weights=(0.0, 1.0, 0.0), participants=2)
    for _ in range(3):
        s.run(s.plan())
    assert {clients for _, _, clients, _ in engine.log} == {(1,)}
    assert s.x == pytest.approx([6.0, 16.0])


def test_one_exchange():
    """Without a second exchange a round is one update, with x every time; the seed travels only if it is shared."""
    engine = FakeEngine()
    s = server(engine)
    for _ in range(3):
        s.run(s.plan())
    assert [(kind, r) for kind, r, _, _ in engine.log] == [("update", 1), ("update", 2), ("update", 3)]
    for *_, request in engine.log:
        assert list(request.arrays) == ["x"]
        assert request.scalars == {}
    assert np.array_equal(engine.log[0][3].arrays["x"], [0.0, 10.0])
    assert engine.log[2][3].arrays["x"] == pytest.approx([4.0, 14.0])


def test_two_exchanges():
    """Refresh before update, none in round 1, x once a round, and the fresh average at once."""
    engine = FakeEngine(payload_with="refresh")
    s = server(engine, Scripted(two=True, seed=True))
    for _ in range(3):
        s.run(s.plan())
    assert [(kind, r) for kind, r, _, _ in engine.log] == [
        ("update", 1),
        ("refresh", 2),
        ("update", 2),
        ("refresh", 3),
        ("update", 3),
    ]
    sent = [request.arrays for *_, request in engine.log]
    assert [sorted(arrays) for arrays in sent] == [["x"], ["x"], ["c", "hint"], ["x"], ["c", "hint"]]
    assert sent[1]["x"] == pytest.approx([2.0, 12.0])  # x_1, where payloads are renewed
    assert sent[2]["c"] == pytest.approx([22.0])  # mean of 12, 22, 32: this round's, not the last one's
    assert sent[4]["c"] == pytest.approx([23.0])
    assert all(request.scalars == {"seed": 99} for *_, request in engine.log)
    assert s.x == pytest.approx([6.0, 16.0])


def test_an_engine_that_fails_leaves_x():
    """If an exchange fails, x, the round and the counts are those of the last complete round."""
    engine = FakeEngine()
    s = server(engine)
    s.run(s.plan())

    def broken(requests, timeout):
        raise OSError

    engine.exchange = broken
    with pytest.raises(OSError):  # noqa: PT011
        s.run(s.plan())
    assert (s.round, s.state.bytes_down) == (1, 8 * 3 * 2)
    assert s.x == pytest.approx([2.0, 12.0])
