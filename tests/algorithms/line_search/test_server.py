"""The server half of FedLineSearch: what a round is, where it begins, and that everybody has the same x."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from fzoos import FedLineSearch, minimize
from fzoos.algorithms.base import Recipient, Round
from fzoos.algorithms.line_search.client import LINE, DesignStatistics, halves
from fzoos.algorithms.line_search.control import Control, Mode
from fzoos.algorithms.line_search.directions import block, common_rows, design_rows
from fzoos.algorithms.line_search.scales import Scales
from fzoos.algorithms.line_search.server import LineSearchServer
from fzoos.engines.local import LocalEngine
from fzoos.federation.exchange import Dropouts, Outcome
from fzoos.federation.server import Server
from fzoos.federation.study import Study
from fzoos.messages.rounding import Rounding

D = 104
X = np.full(D, 0.5)
SEED = 9
RNG = np.random.default_rng(0)
FRESH, MEMORY = RNG.choice([-1.0, 1.0], (2, D)) * RNG.uniform(0.5, 1.5, (2, D))  # a pair along them stays inside
T = np.array(LINE)


def half(projected=True):
    return LineSearchServer(D, projected)


def told(server, state):
    return server.control(state, SEED)


def mean_of(server, state, differ=0.0, lines=None, **statistics):
    """The averages of a round in which the clients' slopes differ by G'."""
    common = common_rows(told(server, state), D)
    numbers = DesignStatistics(curvature=1.0, common=(1.0 + differ) * float(np.sum((common @ FRESH) ** 2)))
    rows = np.ones((2, len(LINE))) if lines is None else lines
    pair = {} if told(server, state).mode is Mode.SPLIT else {"pair": np.array([1.0, 1.0])}
    return {
        "fresh": FRESH,
        "memory": MEMORY,
        "statistics": np.array(numbers._replace(**statistics)),
        "lines": rows.ravel(),
        "failed": np.zeros(2 * len(LINE)),
        **pair,
    }


def after(server, state, mean, participants):
    """The state after a round with the averages of both exchanges."""
    round = Round(1, SEED, np.ones(participants), replied=tuple(range(participants)))
    return server.next_state(state, "update", mean, round)


def sends_x(server, state):
    """Whether a client that was in the last round is sent x."""
    recipient = Recipient(0, 1 / 3, in_last_round=True)
    return "x" in server.request(state, "refresh", recipient, Round(2, SEED, np.ones(3))).arrays


def walk(differ, participants, rounds, server=None):
    """The controls of so many rounds; `differ` is a number, or one for each round."""
    server = server or half()
    state, found = server.start(X), []
    for r in range(rounds):
        found.append(told(server, state))
        each = differ[r] if isinstance(differ, list) else differ
        state = after(server, state, mean_of(server, state, each), participants)
    return [*found, told(server, state)]


def test_the_first_round():
    """A probe with h = 0.1, L = 2 h sqrt(d)."""
    server = LineSearchServer(51, True)
    first = server.control(server.start(np.zeros(51)), 3)
    assert first == Control(3, Mode.SHARED, 0.1, step_size=0.2 * math.sqrt(51), probe=16)
    assert sends_x(server, server.start(np.zeros(51)))


@pytest.mark.parametrize("participants", [1, 2, 5])
def test_when_directions_are_dealt(participants):
    """While G' < (N - 1) / 4; a single client has nobody to deal to."""
    limit = (participants - 1) / 4
    assert walk(limit + 1e-6, participants, 1)[1].mode is Mode.SHARED
    below = walk(max(limit - 1e-6, 0.0), participants, 1)[1].mode
    assert below is (Mode.SHARED if participants == 1 else Mode.SPLIT)


def test_nothing_is_known_of_zero_gradients():
    """All slopes zero: the clients may differ as they like, and directions are shared."""
    server = half()
    state = server.start(X)
    mean = mean_of(server, state) | {"fresh": np.zeros(D)}
    assert told(server, after(server, state, mean, 5)).mode is Mode.SHARED


def test_a_basis_is_used_up():
    """Shared: after the probe a new basis, m directions after m directions, then the next one. Split: 16 for all, and
    the others m - 16 at a time."""
    for differ, mode, first in ((9.0, Mode.SHARED, 0), (0.0, Mode.SPLIT, 16)):
        controls = walk(differ, 3, 7)
        assert (controls[0].mode, controls[0].probe) == (Mode.SHARED, 16)
        assert (controls[1].mode, controls[1].basis, controls[1].used, controls[1].probe) == (mode, 1, 0, 0)
        for one, two in pairwise(controls[1:]):
            used = max(one.used, first) + one.size - first
            assert (two.basis, two.used) == ((one.basis, used) if used < D else (one.basis + 1, 0))
        assert controls[-1].basis > 1


def test_the_size_of_designs():
    """It is sent, and as many directions are queried: shared, half of all at most; split, by all clients together."""
    for differ, most in ((9.0, block(D)), (0.0, D)):
        for control in walk(differ, 3, 6)[1:]:
            assert 0 < control.size <= most
            each = [design_rows(replace(control, client_index=k, participants=3), D) for k in range(3)]
            together = each[0][1] + sum(len(rows) - common for rows, common in each)
            assert together == min(control.size, D - control.used if control.mode is Mode.SHARED else control.size)


def test_from_dealt_to_shared_the_scales_stay():
    """What a split design measured was how much the clients differ: radius and ridge are kept, L is the step."""
    server = half()
    state = after(server, server.start(X), mean_of(server, server.start(X)), 3)
    assert told(server, state).mode is Mode.SPLIT
    before = Scales(*state["scales"])
    lines = np.stack([(T - 0.7) ** 2 - 0.49, np.ones(len(LINE))])
    shown = {"wide_seen": 0.1, "wide_predicted": 1.0, "wide_square": 1.0}
    shown |= {"narrow_seen": 0.1, "narrow_predicted": 1.0, "narrow_square": 1.0}
    mean = mean_of(server, state, 9.0, lines, **shown)
    then = after(server, state, mean, 3)
    scales = Scales(*then["scales"])
    assert scales == before._replace(
        step_size=pytest.approx(0.7 * before.step_size), size=scales.size, ratio=scales.ratio
    )
    stays = after(server, state, mean_of(server, state, 0.0, lines, **shown), 3)
    assert Scales(*stays["scales"]).ridge == pytest.approx(0.9 / 0.1 * (before.radius**2 * D) / (D / 4))  # q = 0.1


def test_a_pilot_moves_nothing():
    """Whatever its lines say, x and L stay; it says whether the next design is split."""
    server = half()
    down = np.stack([-T, np.ones(len(LINE))])
    for differ, mode in ((9.0, Mode.SHARED), (0.0, Mode.SPLIT)):
        state = after(server, server.start(X), mean_of(server, server.start(X), differ, down), 3)
        assert np.array_equal(state["x"], X)
        assert told(server, state).mode is mode
        assert told(server, state).step_size == told(server, server.start(X)).step_size


@pytest.mark.parametrize("line", [1, 2])
def test_the_step(line):
    """x moves along -fresh or -memory to the parabola's minimum; line and length are what clients are told."""
    server = half()
    state = after(server, server.start(X), mean_of(server, server.start(X), 9.0), 3)
    step_size = told(server, state).step_size
    rows = np.ones((2, len(LINE)))
    rows[line - 1] = (T - 0.3) ** 2 - 0.09
    then = after(server, state, mean_of(server, state, 9.0, rows), 3)
    gradient = (FRESH, MEMORY)[line - 1]
    expected = X - 0.3 * step_size * gradient / np.linalg.norm(gradient)
    assert then["x"] == pytest.approx(expected, abs=1e-12)
    assert (told(server, then).line, told(server, then).length) == (line, pytest.approx(0.3 * step_size))
    assert not sends_x(server, then)
    assert np.array_equal(server.reported_x(then), then["x"])


def test_the_pairs_of_a_shared_design():
    """q is what a pair shows over what its part of fresh predicts, 2 H |part|: half of it is q = 1/2, and its ridge."""
    server = half(projected=False)
    state = after(server, server.start(X), mean_of(server, server.start(X), 9.0), 3)
    control = told(server, state)
    length = control.radius * math.sqrt(D)
    parts = halves(common_rows(control, D), FRESH)
    predicted = np.array([2 * length * np.linalg.norm(part) for part in parts])
    mean = mean_of(server, state, 9.0) | {"pair": predicted / 2}
    scales = Scales(*after(server, state, mean, 3)["scales"])
    assert scales.ridge == pytest.approx(length**2 / (D / 4))
    assert (scales.best, scales.best_radius) == (pytest.approx(0.5), control.radius)


def test_a_round_in_vain_is_no_rest():
    """No place is better: it has looked as far as the star, until design and lines are as small as they become."""
    server = half()
    state = after(server, server.start(X), mean_of(server, server.start(X), 9.0), 3)

    def looked(state):
        return server.moved(state, state["x"])

    assert looked(state) == told(server, state).radius
    better = mean_of(server, state, 9.0, np.stack([(T - 0.7) ** 2 - 0.49, np.ones(len(LINE))]))
    assert looked(after(server, state, better, 3)) == 0.0  # it moved
    smallest = Scales(radius=1e-3, step_size=LINE[0] * 1e-3 * math.sqrt(D), best=0.5, first=0.0)
    assert looked({**state, "scales": np.array(smallest)}) == 0.0
    assert looked({**state, "scales": np.array(smallest._replace(step_size=1.0))}) == 1e-3


def test_somebody_failed():
    """Back to the last centre at which everybody had a value, with lines a third as long; x is told, and from then on
    what is reported is a place at which everybody had a value."""
    server = half()
    first = server.start(X)
    second = after(server, first, mean_of(server, first, 9.0), 3)
    down = np.stack([-T, np.ones(len(LINE))])
    third = after(server, second, mean_of(server, second, 9.0, down), 3)
    assert not np.array_equal(third["x"], X)
    assert np.array_equal(third["good"], X)
    fourth = after(server, third, mean_of(server, third, 9.0, down, failed=0.2), 3)
    assert np.array_equal(fourth["x"], X)
    assert sends_x(server, fourth)
    assert Scales(*fourth["scales"]).step_size == LINE[0] * Scales(*third["scales"]).step_size
    assert Scales(*fourth["scales"]).radius == Scales(*third["scales"]).radius
    fifth = after(server, fourth, mean_of(server, fourth, 9.0, down), 3)
    assert not np.array_equal(fifth["x"], X)
    assert np.array_equal(server.reported_x(fifth), X)
    assert not sends_x(server, fifth)


def test_what_each_participant_is_told():
    """Turn, participants and weight, but not where one is alone: it asks a shared star."""
    server = half()
    state = after(server, server.start(X), mean_of(server, server.start(X)), 3)
    alone = server.request(state, "refresh", Recipient(0, 1.0), Round(2, SEED, np.ones(1))).scalars
    assert not alone.keys() & {"client_index", "participants", "weight", "probe"}
    assert alone["mode"] is Mode.SHARED
    more = server.request(state, "refresh", Recipient(2, 0.25), Round(2, SEED, np.ones(3))).scalars
    assert more["mode"] is Mode.SPLIT
    assert (more["client_index"], more["participants"], more["weight"]) == (2, 3, 0.25)


# With clients


class Watched(LocalEngine):
    """Notes every request, and loses those that it is told to."""

    def __init__(self, clients, lose=lambda client, request: False):
        super().__init__(clients)
        self.sent, self.lose = [], lose

    def exchange(self, requests, timeout):
        self.sent.append(requests)
        lost = {i: RuntimeError("lost") for i, request in requests.items() if self.lose(i, request)}
        outcome = Outcome({}, lost)
        for i in set(requests) - set(lost):  # one by one: a failure keeps nobody else from answering
            single = super().exchange({i: requests[i]}, timeout)
            outcome.replies.update(single.replies)
            outcome.failures.update(single.failures)
        return outcome


def federation(precision="float64", participation=3, lose=lambda client, request: False, shift=0.0, dim=D):
    """Three clients, alike (split) or shifted against each other (shared), and their server."""
    study = Study(
        "demo",
        np.full(dim, 0.3),
        (-1.0, 1.0),
        ("a", "b", "c"),
        algorithm={"name": "fedlinesearch"},
        vectorized=True,
        precision=precision,
        participation=participation,
        weights=(1, 2, 3),
    )
    curvatures = np.linspace(0.5, 2.0, dim)
    centres = [shift * np.random.default_rng(i).standard_normal(dim) for i in range(3)]
    clients = [study.client(i, lambda x, c=c: (x - c) ** 2 @ curvatures) for i, c in enumerate(centres)]
    engine = Watched(clients, lose)
    server = Server(
        engine,
        study.algorithm_settings,
        study.box.to_cube(study.start),
        weights=study.omega,
        participants=participation,
        shared_seed=study.seeds.shared,
        rng=np.random.default_rng(study.seeds.server),
        rounding=Rounding(precision, study.seeds.server),
        dropouts=Dropouts(1, retries=0),
    )
    return server, clients, engine


@pytest.mark.parametrize(("precision", "shift", "mode"), [("float32", 0.01, Mode.SPLIT), ("float64", 3.0, Mode.SHARED)])
def test_everybody_has_the_same_x(precision, shift, mode):
    """x does not travel after the first round, and what the clients work out is the server's x bit for bit."""
    server, clients, engine = federation(precision, shift=shift)
    places = set()
    for r in range(1, 6):
        server.begin(server.plan())
        server.advance()
        request = engine.sent[-1][0]
        assert ("x" in request.arrays) == (r == 1)
        assert r == 1 or request.scalars["mode"] == mode
        for client in clients:
            assert client.x.tobytes() == server.state.x.tobytes()
        places.add(server.state.x.tobytes())
        server.advance()
    assert len(places) >= 4  # it moves


def test_newcomers_are_told_x():
    """Two of three take part: who was in the last round works x out, who was not is told it, exactly."""
    server, clients, engine = federation("float32", participation=2, shift=0.01)
    before, seen = set(), set()
    for r in range(1, 9):
        server.begin(server.plan())
        server.advance()
        for i, request in engine.sent[-1].items():
            seen.add((r > 1, i in before))
            assert ("x" in request.arrays) == (r == 1 or i not in before)
            assert request.precision == ("float64" if r > 1 and i not in before else "float32")
            assert clients[i].x.tobytes() == server.state.x.tobytes()
        before = set(engine.sent[-1])
        server.advance()
    assert seen == {(False, False), (True, True), (True, False)}


@pytest.mark.parametrize(("precision", "kind"), [("float64", "refresh"), ("float32", "update")])
def test_who_misses_an_exchange(kind, precision):
    """Client 1 misses the star, or the lines, of round 3. It answers all that follows, with the server's x: having
    missed the design it has x from the update, having missed the lines it is told x in the next round."""
    server, clients, _ = federation(precision, lose=lambda i, m: (i, m.round, m.kind) == (1, 3, kind), shift=0.01)
    for r in range(1, 6):
        server.begin(server.plan())
        server.advance()
        assert set(server.state.answered) == ({0, 2} if (r, kind) == (3, "refresh") else {0, 1, 2})
        for i in server.state.answered:
            assert clients[i].x.tobytes() == server.state.x.tobytes()
        server.advance()
        assert server.state.up_to_date == ({0, 2} if (r, kind) == (3, "update") else {0, 1, 2})


def test_one_variable():
    """Along one direction slope and curvature cannot be distinguished: it is refused before any query."""
    for start in (lambda: minimize(no_one, np.zeros(1), bounds=(-1, 1), algorithm=FedLineSearch()), study_of_one):
        with pytest.raises(ValueError, match="FedLineSearch needs dim = 2 or more, got 1"):
            start()


def no_one(x):
    raise AssertionError("nothing may be queried")


def study_of_one():
    return Study("demo", [0.5], (0.0, 1.0), ("a",), algorithm={"name": "fedlinesearch"})
